"""TelephonyOptions: the telephone of a session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.agents.telephony.detection.options import MachineDetection
from vivavoce.agents.telephony.key_entry import KeyEntry
from vivavoce.agents.telephony.numbers import checked_number
from vivavoce.pipelines.core.checks import check_instance, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.extension.attachments import Attachments
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.telephony.telephony import Telephony

NO_TELEPHONY = (
    "the session has no telephony; give it SessionOptions(telephony=TelephonyOptions()), then keys and calls are "
    "session.telephony"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TelephonyOptions(Extension):
    """The telephone of a session (`session.telephony`): keys, calls, transfers.

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "telephony"

    keys: KeyEntry | None = field(default_factory=KeyEntry)
    """How the keys that the caller presses at any time become an entry (event `keys_entered`); None: they do not. An
    agent or a task with `takes_keys`, such as `GetDigitCode`, gets them alone.
    """
    keys_as_turn: str = ""
    """The words by which an entry is a turn of the caller, with `{keys}` in their place, such as
    `"I entered {keys}."`; "": an entry is only an event.
    """

    trunk: str = ""
    """The id of LiveKit's outbound trunk, such as `"ST_…"`, for `telephony.call()`."""
    number: str = ""
    """The number that calls out come from; "": the trunk's own."""

    machine_detection: MachineDetection | None = None
    """How to find out who has answered a call out, before the agent speaks (event `call_answered_by`); None: nobody is
    judged, as for calls in."""

    def __post_init__(self) -> None:
        check_instance("machine_detection", self.machine_detection, MachineDetection, or_none=True)
        check_text("trunk", self.trunk)
        if check_text("number", self.number):
            object.__setattr__(self, "number", checked_number("number", self.number))
        check_instance("keys", self.keys, KeyEntry, or_none=True)
        if not check_text("keys_as_turn", self.keys_as_turn):
            return
        if self.keys is None:
            raise ConfigurationError("keys_as_turn needs keys=KeyEntry(…), got keys=None; leave keys out")
        if "{keys}" not in self.keys_as_turn:
            raise ConfigurationError(f"keys_as_turn needs {{keys}} in its words, got {shown(self.keys_as_turn)}")

    def attach(self, host: Host) -> Attached:
        """Make the telephone of one session."""
        from vivavoce.agents.telephony.calls import Calls
        from vivavoce.agents.telephony.key_input import KeyInput
        from vivavoce.agents.telephony.session_telephony import SessionTelephony

        keys, calls = KeyInput(host, self.keys, self.keys_as_turn), Calls(host, self.trunk, self.number)
        if self.machine_detection is None:
            return SessionTelephony(host, keys, calls)
        from vivavoce.agents.telephony.detection.detecting import DetectingTelephony
        from vivavoce.agents.telephony.detection.detection import AnswerDetection

        return DetectingTelephony(host, keys, calls, AnswerDetection(host, self.machine_detection))


def telephony_of(extensions: Attachments) -> Telephony:
    """Return the telephone of a session, as applications know it.

    Raises:
        ConfigurationError: The session has none.
    """
    if (attached := extensions.of(TelephonyOptions)) is None:
        raise ConfigurationError(NO_TELEPHONY)
    telephony: Any = attached.face
    used: Telephony = telephony
    return used

"""DialogueOptions: the dialogues of a session with other agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from vivavoce.agents.core.message_channel import MessageChannel
from vivavoce.agents.dialogues.dialogue import Dialogue
from vivavoce.agents.extension.extension import Attached, Extension
from vivavoce.pipelines.core.checks import check_instance, check_items, check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_arguments

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host


@old_arguments(graph="SessionOptions(graph=GraphOptions(…), dialogues=DialogueOptions(…))")
@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueOptions(Extension):
    """The dialogues of a session's agent with other agents.

    Each option: docs/options.md.
    """

    key: ClassVar[str] = "dialogues"

    dialogues: Sequence[Dialogue] = ()
    """The orders of messages in which the session's agent talks with other agents; each serves one session."""
    channel: MessageChannel | None = None
    """Carries their messages to other sessions, for example one `LocalChannel()` for all sessions of a process. The
    address of a session is the id of the agent that it starts with.
    """

    handler_timeout: float | None = None
    """Seconds for one run of a handler, anew after each speech that it asks for, also longer than 10 s; None:
    `SpeechLimits.hook_timeout`. Messages of its conversation wait meanwhile, the others do not."""

    def __post_init__(self) -> None:
        check_number("handler_timeout", self.handler_timeout, above=0, unit="s", or_none=True)
        check_items("dialogues", self.dialogues, Dialogue)
        check_instance("channel", self.channel, MessageChannel, or_none=True)
        if self.dialogues and self.channel is None:
            raise ConfigurationError(
                "dialogues need a channel to other agents, got channel=None; make one LocalChannel() and give it to "
                "the sessions of both agents"
            )

    def attach(self, host: Host) -> Attached:
        """Make the dialogues of one session.

        Raises:
            GraphError: A dialogue has faults.
            ConfigurationError: Two dialogues are the same.
        """
        from vivavoce.agents.dialogues.session_dialogues import SessionDialogues

        return SessionDialogues(host, self.dialogues, self.channel, limit=self.handler_timeout)

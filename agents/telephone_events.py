"""The events of a telephone; `agents/events.py` has them among all others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from vivavoce.agents.session_event import SessionEvent
from vivavoce.agents.states import AnsweredBy, AnswerReason, CallKind, CallStatus, HoldState, KeysEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPressed(SessionEvent):
    """The caller pressed a key of a telephone (DTMF).

    Args:
        key: One of 0 to 9, *, # and A to D.
    """

    name: ClassVar[str] = "key_pressed"
    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysEntered(SessionEvent):
    """The caller has made an entry by the keys of a telephone, in a session with `TelephonyOptions`.

    Args:
        keys: Its keys, without the terminator; empty if only that came.
        end: The end of the entry: the `terminator`, its `length`, a `pause`, or its `limit` of keys or seconds.
    """

    name: ClassVar[str] = "keys_entered"
    keys: str = field(repr=False)
    end: KeysEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress(SessionEvent):
    """A call or a transfer by `session.telephony` has got further, or has ended.

    Args:
        what: A `call`, or a `transfer` or `warm_transfer` of the caller.
        status: `dialing`, `ringing`, in a warm transfer `briefing`; at the end `answered`, `busy`, `declined`,
            `no_answer`, `no_route` or `failed`.
        identity: The participant that is called, or transferred.
        sip_code: The SIP code of a refusal; None without one.
        reason: Of a call that was not answered, in the words of the line or the server.
    """

    name: ClassVar[str] = "call_progress"
    what: CallKind
    status: CallStatus
    identity: str = field(repr=False)
    sip_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnsweredBy(SessionEvent):
    """The verdict on who has answered a call out, in a session with `MachineDetection`.

    Args:
        kind: A `human`; a `machine`, which is a voicemail; a `menu` of keys; `screening`, an assistant that asks who
            calls; `unavailable`, an announcement that nobody can be reached; or `unknown`.
        reason: What it is drawn from: a `short_greeting`, a `long_greeting` without a known phrase, a `phrase`, the
            `model`, the `beep` of a voicemail, the `tones` before an announcement of the network, the `silence` of the
            other side, the `limit` of the wait, or, before a verdict, that the other side is `on_hold` or that the
            call has ended (`hung_up`).
        transcript: The words of the greeting.
        after: Seconds from the answer to the verdict.
    """

    name: ClassVar[str] = "call_answered_by"
    kind: AnsweredBy
    reason: AnswerReason
    transcript: str = field(default="", repr=False)
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldChanged(SessionEvent):
    """The caller was put on hold, was connected with a person, or talks with the agent again.

    Args:
        state: With whom the caller talks: the agent (`talking`), none (`on_hold`), or the person of a warm transfer
            (`connected`).
    """

    name: ClassVar[str] = "hold_changed"
    state: HoldState


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressChanged(SessionEvent):
    """The recording by LiveKit's egress, of `session.telephony`, runs, ends, or has not started.

    Args:
        status: `started` when it runs, `stopping` when it was stopped and its file is being written, or `failed`.
        egress_id: Of LiveKit, in its webhooks too; empty if there is none.
        reason: Of a failure.
    """

    name: ClassVar[str] = "egress_changed"
    status: Literal["started", "stopping", "failed"]
    egress_id: str
    reason: str = ""

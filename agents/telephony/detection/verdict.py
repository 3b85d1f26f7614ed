"""CallVerdict: who has answered a call."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.states import AnsweredBy, AnswerReason


@dataclass(frozen=True, slots=True, kw_only=True)
class CallVerdict:
    """Who has answered a call; the fields are those of the event `call_answered_by`.

    Args:
        kind: `human`, `machine` (a voicemail), `menu`, `screening` (an assistant asks who calls), `unavailable` or
            `unknown`.
        reason: What it is drawn from; `on_hold` if the other side was put on hold before, `hung_up` if the call ended
            before.
        transcript: The words of the greeting.
        after: Seconds from the answer to the verdict.
    """

    kind: AnsweredBy
    reason: AnswerReason
    transcript: str = field(default="", repr=False)
    after: float = 0.0

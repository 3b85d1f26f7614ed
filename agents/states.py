"""The states of agent and user, the reasons of a close, and the legal changes."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError


class AgentState(StrEnum):
    """The agent's activity."""

    STARTING = "starting"
    """`start()` is not done yet."""
    IDLE = "idle"
    """Neither side has the floor."""
    LISTENING = "listening"
    """A user turn is open: speech, or an undecided end of turn."""
    THINKING = "thinking"
    """From commit, `reply()` or a tool step until the first frame is played."""
    SPEAKING = "speaking"
    """Frames are being played; a paused speech stays speaking."""
    CLOSING = "closing"
    CLOSED = "closed"


class UserState(StrEnum):
    """The user's activity."""

    IDLE = "idle"
    """Silent, and the agent is not audible."""
    SPEAKING = "speaking"
    """Speech by the VAD, or transcripts without one."""
    LISTENING = "listening"
    """Silent while the agent is audible."""
    AWAY = "away"
    """Idle for long, without meaningful activity; only such activity ends it, not the agent's speech."""


class CloseReason(StrEnum):
    """Why a session closed."""

    USER_INITIATED = "user_initiated"
    """`close()` or `leave()` was called."""
    JOB_ENDED = "job_ended"
    PARTICIPANT_LEFT = "participant_left"
    ROOM_CLOSED = "room_closed"
    REPLACED = "replaced"
    """Another session in the same job continues the conversation (a hot reload); `on_exit` is not called."""
    USER_AWAY = "user_away"
    """The wake-ups brought no answer, and `then="close"`."""
    BUDGET_EXCEEDED = "budget_exceeded"
    """The cost of the call stayed over the limit of its budget."""
    ERROR = "error"
    """A part failed for good, or a session elsewhere continues the conversation; `CloseReport.error` has the cause."""
    START_FAILED = "start_failed"


def checked_reason(reason: CloseReason) -> CloseReason:
    """Return the reason of a close, given by value or by name.

    Raises:
        ConfigurationError: There is no such reason.
    """
    for known in CloseReason:
        if reason is known or (type(reason) is str and reason == known.value):
            return known
    names = ", ".join(f"CloseReason.{known.name}" for known in CloseReason)
    raise ConfigurationError(f"need close(reason) as one of {names}, got {shown(reason)}")


_FLOOR = frozenset({AgentState.IDLE, AgentState.LISTENING, AgentState.THINKING, AgentState.SPEAKING})

AGENT_TRANSITIONS: dict[AgentState, frozenset[AgentState]] = {
    AgentState.STARTING: _FLOOR | {AgentState.CLOSING},
    **{state: (_FLOOR - {state}) | {AgentState.CLOSING} for state in _FLOOR},
    AgentState.IDLE: (_FLOOR - {AgentState.IDLE}) | {AgentState.STARTING, AgentState.CLOSING},
    AgentState.CLOSING: frozenset({AgentState.CLOSED}),
    AgentState.CLOSED: frozenset(),
}
"""From each agent state, the states that may follow. Before `start()` the state is idle, without an event; only that
idle changes to starting.
"""

USER_TRANSITIONS: dict[UserState, frozenset[UserState]] = {state: frozenset(UserState) - {state} for state in UserState}
"""From each user state, the states that may follow."""


CallKind = Literal["call", "transfer", "warm_transfer"]
"""A call out, the caller's transfer to another telephone, or to a person who is briefed before."""
CallStatus = Literal[
    "dialing", "ringing", "briefing", "answered", "busy", "declined", "no_answer", "no_route", "failed"
]
"""A step or the end of a call out, or of a transfer."""
AnsweredBy = Literal["human", "machine", "menu", "screening", "unavailable", "unknown"]
"""Who has answered a call out: a human, a voicemail, a menu, an assistant that asks who calls, or an announcement that
nobody can be reached."""
AnswerReason = Literal[
    "short_greeting", "long_greeting", "phrase", "model", "beep", "tones", "silence", "limit", "on_hold", "hung_up"
]
"""What such a verdict is drawn from."""
BeepEnd = Literal["beep", "silence", "limit", "hung_up"]
"""The end of the wait for the beep of a voicemail."""
EgressStatus = Literal["starting", "active", "ending", "complete", "failed", "aborted", "limit_reached"]
"""The state of a recording by LiveKit's egress, in LiveKit's words."""
HoldState = Literal["talking", "on_hold", "connected"]
"""With whom the caller talks: with the agent; with none, on hold; or with the person of a warm transfer."""
KeysEnd = Literal["terminator", "length", "pause", "limit", "none"]
"""The end of an entry by the keys of a telephone."""

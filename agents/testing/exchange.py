"""exchange: one turn of the user, and the wait until all its consequences are complete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.events import (
    AgentChanged,
    AgentStateChanged,
    Closed,
    SpeechCreated,
    TurnCompleted,
    UserStateChanged,
)
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.tasks.task import AgentTask
from vivavoce.agents.testing.log import ConversationLog

if TYPE_CHECKING:
    from vivavoce.agents.session.session import AgentSession
    from vivavoce.agents.testing.recording import Recording

BETWEEN_TASKS = 0.02
"""Seconds of silence after which no other task follows."""
_TELLING = (TurnCompleted, AgentStateChanged, UserStateChanged, Closed)


async def exchange(
    session: AgentSession[Any], recording: Recording, say: Callable[[], Awaitable[None]], *, limit: float
) -> None:
    """Call `say`, which types or says words; return when their turn has its outcome and no side has more to say.

    Raises:
        AssertionError: It took longer than `limit` seconds.
    """
    since = len(recording.events)
    changed = anyio.Event()

    def note(_: object) -> None:
        changed.set()

    for kind in _TELLING:
        session.on(kind, note)
    try:
        with anyio.fail_after(limit):
            await say()
            while not await _stays_over(session, recording, since):
                changed = anyio.Event()
                await changed.wait()
    except TimeoutError:
        raise AssertionError(
            f"after the user's words no end came within {limit:g} s: the agent is {session.agent_state.value}, the "
            f"user {session.user_state.value}; {_unfinished(recording)} speech(es) have no outcome\n"
            f"the conversation:\n{ConversationLog(recording).told()}"
        ) from None
    finally:
        for kind in _TELLING:
            session.off(kind, note)


async def _stays_over(session: AgentSession[Any], recording: Recording, since: int) -> bool:
    """Whether it is over, also a moment later: between two tasks there is a moment of silence."""
    if not _is_over(session, recording, since):
        return False
    if isinstance(session.agent, AgentTask):
        await anyio.sleep(BETWEEN_TASKS)
    return _is_over(session, recording, since)


def _is_over(session: AgentSession[Any], recording: Recording, since: int) -> bool:
    events = recording.events[since:]
    if any(isinstance(event, Closed) for event in events):
        return True
    is_in_task = isinstance(session.agent, AgentTask)
    is_quiet = (
        session.agent_state is AgentState.IDLE
        and session.user_state is not UserState.SPEAKING
        and _unfinished(recording, is_in_task=is_in_task) == 0
    )
    if is_quiet and is_in_task and any(isinstance(event, AgentChanged) for event in events):
        return True
    return is_quiet and any(isinstance(event, TurnCompleted) and event.record.kind == "turn" for event in events)


def _unfinished(recording: Recording, *, is_in_task: bool = False) -> int:
    """Return the number of speeches without an outcome; several speeches of one turn count once.

    Args:
        is_in_task: Whether a task has the conversation: speeches from before it may wait for its end.
    """
    changed = [event.sequence for event in recording.of(AgentChanged)]
    since = changed[-1] if is_in_task and changed else 0
    made = {event.turn_id or event.speech_id for event in recording.of(SpeechCreated) if event.sequence >= since}
    return len(made - {event.turn_id for event in recording.of(TurnCompleted)})

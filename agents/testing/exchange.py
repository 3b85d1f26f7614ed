"""exchange: one turn of the user, and the wait until all its consequences are complete."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.events import AgentStateChanged, Closed, SpeechCreated, TurnCompleted, UserStateChanged
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.testing.log import ConversationLog

if TYPE_CHECKING:
    from vivavoce.agents.testing.harness import SessionHarness

_TELLING = (TurnCompleted, AgentStateChanged, UserStateChanged, Closed)


async def exchange(harness: SessionHarness, text: str, *, spoken: bool, limit: float) -> None:
    """Have the user type or say `text`; return when its turn has its outcome and no side has more to say.

    Raises:
        AssertionError: It took longer than `limit` seconds.
    """
    session, recording = harness.session, harness.recording
    since = len(recording.events)
    changed = anyio.Event()

    def note(_: object) -> None:
        changed.set()

    for kind in _TELLING:
        session.on(kind, note)
    try:
        with anyio.fail_after(limit):
            if spoken:
                await harness.until(harness.caller.says(text))
            else:
                harness.caller.typed.append(text)
                harness.room.send_text(text)
            while not _is_over(harness, since):
                changed = anyio.Event()
                await changed.wait()
    except TimeoutError:
        raise AssertionError(
            f"after the user's words no end came within {limit:g} s: the agent is {session.agent_state.value}, the "
            f"user {session.user_state.value}; {_unfinished(harness)} speech(es) have no outcome\n"
            f"the conversation:\n{ConversationLog(recording).told()}"
        ) from None
    finally:
        for kind in _TELLING:
            session.off(kind, note)


def _is_over(harness: SessionHarness, since: int) -> bool:
    events = harness.recording.events[since:]
    if any(isinstance(event, Closed) for event in events):
        return True
    is_quiet = (
        harness.session.agent_state is AgentState.IDLE
        and harness.session.user_state is not UserState.SPEAKING
        and _unfinished(harness) == 0
    )
    return is_quiet and any(isinstance(event, TurnCompleted) and event.record.kind == "turn" for event in events)


def _unfinished(harness: SessionHarness) -> int:
    """Return the number of speeches without an outcome; several speeches of one turn count once."""
    made = {event.turn_id or event.speech_id for event in harness.recording.of(SpeechCreated)}
    return len(made - {event.turn_id for event in harness.recording.of(TurnCompleted)})

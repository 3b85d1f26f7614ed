"""Events that effects of the turn machine are, as the log notes them."""

from __future__ import annotations

from vivavoce.agents import events as ev
from vivavoce.agents.core.log import SessionLog
from vivavoce.agents.turn import effects as fx


def note_agent_state(log: SessionLog, effect: fx.SetAgentState) -> None:
    """The agent does something else now."""
    log.note(ev.AgentStateChanged, at=effect.at, old=effect.old, state=effect.state)
    log.note_state("agent", effect.state, effect.at)


def note_user_state(log: SessionLog, effect: fx.SetUserState) -> None:
    """The user does something else now."""
    log.note(ev.UserStateChanged, at=effect.at, old=effect.old, state=effect.state)
    log.note_state("user", effect.state, effect.at)


def note_turn_limit(log: SessionLog, effect: fx.UserTurnLimitReached) -> None:
    """The user's turn was ended by its length."""
    log.note(
        ev.UserTurnLimitReached,
        turn_id=effect.turn_id,
        limit=effect.limit,
        words=effect.words,
        seconds=effect.seconds,
    )

"""Handoff, which `session.update_agent()` returns. Its writer is in the session."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.handle import Handle, HandleControl

HandoffOutcome = Literal["completed", "failed", "cancelled"]


class HandoffState(HandleControl[HandoffOutcome]):
    """The part of a handoff's state that the application sees."""

    agent: Agent
    turn_id: str


class Handoff(Handle[HandoffState]):
    """The result of `update_agent()`. Awaiting it resolves when the new agent has entered, or the handoff has ended.

    Awaiting raises only a `SessionError`, in code that the handoff comes after: in a hook of an agent that comes or
    goes, in `on_user_turn_completed` and in a conversation flow.
    """

    def __repr__(self) -> str:
        return f"Handoff({self.id!r}, to={self.agent.id!r}, outcome={self.outcome!r})"

    @property
    def agent(self) -> Agent:
        """The agent that takes over."""
        return self._control.agent

    @property
    def turn_id(self) -> str:
        """The turn that it is part of; empty if none."""
        return self._control.turn_id

    @property
    def outcome(self) -> HandoffOutcome | None:
        """`completed`; `failed`: a hook raised or was cut, or the new agent's components could not be had, and it has
        the conversation nevertheless; `cancelled`: the session closed before. None before its end.
        """
        return self._control.outcome

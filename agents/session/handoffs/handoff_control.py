"""Handoff, which `session.update_agent()` returns, and HandoffControl, its only writer."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.tasks.task import TaskControl
from vivavoce.agents.tools.batch import HandoffEnd
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.ids import new_id

HandoffOutcome = Literal["completed", "failed", "cancelled"]


class Handoff:
    """The result of `update_agent()`. Awaiting it resolves when the new agent has entered, or the handoff has ended.

    Awaiting raises only a `SessionError`, in code that the handoff comes after: in a hook of an agent that comes or
    goes, in `on_user_turn_completed` and in a conversation flow.
    """

    def __init__(self, control: HandoffControl) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"Handoff({self.id!r}, to={self.agent.id!r}, outcome={self.outcome!r})"

    def __await__(self) -> Generator[Any, Any, None]:
        return self._control.wait_here().__await__()

    @property
    def id(self) -> str:
        """The handoff's id."""
        return self._control.id

    @property
    def agent(self) -> Agent:
        """The agent that takes over."""
        return self._control.agent

    @property
    def turn_id(self) -> str:
        """The turn that it is part of; empty if none."""
        return self._control.turn_id

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._control.is_done

    @property
    def outcome(self) -> HandoffOutcome | None:
        """`completed`; `failed`: a hook raised or was cut, or the new agent's components could not be had, and it has
        the conversation nevertheless; `cancelled`: the session closed before. None before its end.
        """
        return self._control.outcome

    def exception(self) -> Exception | None:
        """Return the error of a handoff that failed."""
        return self._control.error


class HandoffControl:
    """The state of one handoff, which the session changes and its `handoff` shows.

    Args:
        turn_id: The turn that it is part of; empty if none.
        begins: The task that takes the conversation by it.
        ends: The task that gives the conversation back by it.
        turn: The record of the turn that awaits the task: the task's first words answer its caller.
    """

    def __init__(
        self,
        hooks: Hooks,
        agent: Agent,
        turn_id: str = "",
        *,
        begins: TaskControl[Any] | None = None,
        ends: TaskControl[Any] | None = None,
        turn: TurnRecordBuilder | None = None,
    ) -> None:
        self.id = new_id("handoff")
        self.agent = agent
        self.turn_id = turn_id
        self.begins = begins
        self.ends = ends
        self.turn = turn
        """The record of the turn that waits for it."""
        self.record: HandoffRecord | None = None
        self.is_answer = False
        """Whether the caller needs no other answer: `on_enter` had something spoken, or newer words are answered."""
        self.outcome: HandoffOutcome | None = None
        self.error: Exception | None = None
        self.handoff = Handoff(self)
        self._hooks = hooks
        self._done = anyio.Event()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    async def wait_here(self) -> None:
        """Wait for its end in application code.

        Raises:
            SessionError: The handoff comes after the calling code.
        """
        if not self.is_done and (self._hooks.here("agent hook") is not None or holds_floor()):
            raise SessionError(
                f"the handoff to {self.agent.id!r} cannot be awaited here: it begins after this code; return from it"
            )
        await self._done.wait()

    async def wait(self, turn: TurnRecordBuilder | None) -> HandoffEnd:
        """Wait for its end in a speech. The first words of its agents answer the caller's `turn`."""
        self.turn = turn
        await self._done.wait()
        return HandoffEnd(self.record, self.is_answer)

    def note_answer(self) -> None:
        """Note that the caller needs no other answer."""
        self.is_answer = True

    def set_outcome(
        self, outcome: HandoffOutcome, error: Exception | None = None, record: HandoffRecord | None = None
    ) -> None:
        """Set the outcome and resolve, once; `record` is for the turn that waits for it."""
        if self.outcome is None:
            self.outcome, self.error, self.record = outcome, error, record
            self._done.set()

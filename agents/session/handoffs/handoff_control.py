"""HandoffControl: the state of one handoff."""

from __future__ import annotations

from typing import Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.handoff import Handoff, HandoffState
from vivavoce.agents.core.hooks import Hooks
from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.tasks.task import TaskControl
from vivavoce.agents.tools.batch import HandoffEnd
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.ids import new_id


class HandoffControl(HandoffState):
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
        super().__init__(new_id("handoff"))
        self.agent = agent
        self.turn_id = turn_id
        self.begins = begins
        self.ends = ends
        self.turn = turn
        self.record: HandoffRecord | None = None
        self.is_answer = False
        """Whether the caller needs no other answer: `on_enter` had something spoken, or newer words are answered."""
        self.handoff = Handoff(self)
        self._hooks = hooks

    @property
    def is_of_task(self) -> bool:
        """Whether a task takes the conversation by it, or gives it back."""
        return self.begins is not None or self.ends is not None

    async def wait(self) -> None:
        if not self.is_done and (self._hooks.here("agent hook") is not None or holds_floor()):
            raise SessionError(
                f"the handoff to {self.agent.id!r} cannot be awaited here: it begins after this code; return from it"
            )
        await self.done.wait()

    async def wait_for(self, turn: TurnRecordBuilder | None) -> HandoffEnd:
        """Wait for its end in a speech. The first words of its agents answer the caller's `turn`."""
        self.turn = turn
        await self.done.wait()
        return HandoffEnd(self.record, self.is_answer)

    def note_answer(self) -> None:
        """Note that the caller needs no other answer."""
        self.is_answer = True

    def note_record(self, record: HandoffRecord) -> None:
        """Keep the record of the handoff for the turn that waits for it."""
        self.record = record

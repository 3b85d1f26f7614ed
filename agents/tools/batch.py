"""ToolBatch and StepCalls: the tool calls of one step, their outputs, and whether a model has them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.records import HandoffRecord, ToolRecord
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput

CANCELLED = "The call was cancelled."
"""The output of a call that was cancelled."""


@dataclass(frozen=True, slots=True)
class HandoffEnd:
    """The end of a handoff that a tool asked for.

    Args:
        record: The record of it; None if there was no handoff.
        is_answer: Whether the caller needs no other answer.
    """

    record: HandoffRecord | None
    is_answer: bool


AwaitHandoff = Callable[[TurnRecordBuilder | None], Awaitable[HandoffEnd]]
"""Waits for the end of a handoff; its argument is the record of the turn that waits, if there is one, which hears the
new agent.
"""


@dataclass(slots=True, eq=False)
class ToolBatch:
    """The calls of one step, with their outputs in the order of the calls. `ToolExecutor` fills it."""

    calls: tuple[ToolCall, ...]
    outputs: list[ToolOutput | None]
    records: list[ToolRecord | None]
    settled: anyio.Event = field(default_factory=anyio.Event)
    """Set when every call has its output."""
    agents: dict[int, Agent] = field(default_factory=dict)
    """The agents that calls returned to hand off to, by the number of the call."""
    updates: dict[int, str] = field(default_factory=dict, repr=False)
    """The last update that the caller heard of each running call, by its number."""
    are_calls_interrupted: bool = False
    """Whether the caller has taken the floor since: calls of tools with `cancel_on_interrupt` are cancelled."""
    at_rest: set[str] = field(default_factory=set)
    """The ids of the calls that wait for a task."""
    _scopes: dict[int, anyio.CancelScope] = field(default_factory=dict)
    _ends_on_interrupt: set[anyio.CancelScope] = field(default_factory=set)
    _mere_handoffs: set[int] = field(default_factory=set)
    _recorded: set[int] = field(default_factory=set)

    @property
    def is_settled(self) -> bool:
        """Whether every call has its output."""
        return all(output is not None for output in self.outputs)

    @property
    def is_at_work(self) -> bool:
        """Whether a call runs that does not wait for a task."""
        return any(
            output is None and call.call_id not in self.at_rest
            for call, output in zip(self.calls, self.outputs, strict=True)
        )

    @property
    def has_results(self) -> bool:
        """Whether any call has a result for the model: neither its cancellation nor an agent alone."""
        return any(
            output is not None and output.output != CANCELLED and index not in self._mere_handoffs
            for index, output in enumerate(self.outputs)
        )

    @property
    def is_mere_handoff(self) -> bool:
        """Whether every call returned an agent and nothing else."""
        return len(self._mere_handoffs) == len(self.calls)

    def hands_off(self, index: int, agent: Agent, *, is_mere: bool) -> None:
        """Call `index` returned `agent`; `is_mere`: without an output of its own."""
        self.agents[index] = agent
        if is_mere:
            self._mere_handoffs.add(index)

    def refuse_handoff(self, index: int, why: str) -> None:
        """Refuse the handoff that call `index` asked for; its output gives the model the reason."""
        output, record = self.outputs[index], self.records[index]
        assert output is not None
        assert record is not None
        text = f"Not handed over to {self.agents[index].id!r}: {why}."
        self.outputs[index] = replace(output, output=text, is_error=True)
        self.records[index] = replace(record, output=text, is_error=True)
        self._mere_handoffs.discard(index)

    def known_outputs(self) -> list[ToolOutput | None]:
        """Return the outputs that a model may get before the step is in the history, in the order of the calls.

        None: the call runs, or it asked for a handoff, and whether that one is taken is known with the step.
        """
        return [None if index in self.agents else output for index, output in enumerate(self.outputs)]

    def handoffs(self) -> Iterator[tuple[ToolCall, ToolOutput, float]]:
        """Yield each call that asked for a handoff, with its output and its seconds, in the order of the calls."""
        for index in sorted(self.agents):
            output, record = self.outputs[index], self.records[index]
            assert output is not None
            assert record is not None
            yield self.calls[index], output, record.seconds

    def take_records(self) -> list[ToolRecord]:
        """Return the records of calls settled since it was called last, in the order of the calls."""
        new = [index for index, record in enumerate(self.records) if record is not None and index not in self._recorded]
        self._recorded.update(new)
        return [record for index in new if (record := self.records[index]) is not None]

    def interrupt_calls(self) -> None:
        """Cancel the calls of tools with `cancel_on_interrupt`, since the caller took the floor."""
        self.are_calls_interrupted = True
        for scope in self._ends_on_interrupt:
            scope.cancel()

    def cancel(self) -> None:
        """Cancel all calls that run."""
        for scope in self._scopes.values():
            scope.cancel()

    @contextmanager
    def running(self, index: int, scope: anyio.CancelScope, *, ends_on_interrupt: bool) -> Iterator[None]:
        """Hold the scope of a running call."""
        self._scopes[index] = scope
        if ends_on_interrupt:
            self._ends_on_interrupt.add(scope)
            if self.are_calls_interrupted:
                scope.cancel()
        try:
            yield
        finally:
            del self._scopes[index]
            self._ends_on_interrupt.discard(scope)

    def note_update(self, index: int, text: str) -> bool:
        """Keep an update of call `index` that the caller hears; return whether it still runs. From any thread."""
        if self.outputs[index] is not None:
            return False
        self.updates[index] = text
        return True

    def settle(
        self, index: int, output: ToolOutput, seconds: float, started_at: float = 0.0, *, is_known: bool = True
    ) -> None:
        """Give call `index` its output, once; it began at `started_at` (session clock)."""
        call = self.calls[index]
        assert self.outputs[index] is None, "a call settles once"
        self.outputs[index] = output
        self.records[index] = ToolRecord(
            name=call.name,
            arguments=call.arguments,
            output=output.output,
            is_error=output.is_error,
            seconds=seconds,
            call_id=call.call_id,
            started_at=started_at,
            is_known=is_known,
        )
        if self.is_settled:
            self.settled.set()


@dataclass(slots=True, eq=False)
class StepCalls:
    """The calls of one step of a speech, and how far the speech and its model are with them. `ToolCalls` writes it."""

    id: str
    turn_id: str
    """The turn, or the speech, that made the calls."""
    batch: ToolBatch
    is_spoken: bool = False
    """Whether the words before the calls are over: played, cut or dropped."""
    is_cut: bool = False
    """Whether the speech that made the calls was cut, or has failed, so that it does not answer the results."""
    is_carried: bool = False
    """Whether a request to a model had the outputs."""
    is_taken: bool = False
    """Whether the answer that another speech had requested begins by the outputs, so that it answers them."""
    is_owed: bool = False
    """Whether the turn machine knows that no speech answers the outputs."""
    teller: str = ""
    """The turn, or the speech, whose answer tells the outputs: the maker's, until another one's request has them."""
    is_over: bool = False
    """Whether the answer of `teller` is over."""
    agent: Agent | None = None
    """The agent whose tools they are."""
    is_unanswered: bool = False
    """Whether no model receives the outputs: the agent is a task that has ended, or was replaced."""
    on_commit: list[Callable[[], None]] = field(default_factory=list)
    """Called once they are in the history."""
    await_handoff: AwaitHandoff | None = None
    """Waits for the handoff to the agent that one of the calls returned, once the outputs are in the history."""

    @property
    def is_untold(self) -> bool:
        """Whether an answer that tells the outputs is at work, or still to come."""
        return not self.is_unanswered and (not self.is_over or (self.is_owed and not self.is_carried))

"""ToolCalls: the session's running tool calls, outside every reply's scope, and their way into the history."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle, running_tool_of
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import ToolRecord
from vivavoce.agents.tools.context import RunContext
from vivavoce.agents.tools.executor import PendingHandoff, ToolBatch, ToolExecutor
from vivavoce.agents.turn.inputs import AnswerOwed, ResultsCarried, ToolCallSettled, ToolsRunning
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.chat_context import ChatContext, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput

STILL_RUNNING = "The call is still running; its result will follow. Do not call it again."


class ToolCalls:
    """Starts batches of calls, cancels them at close, and commits each batch to the history.

    A batch is committed when all of it is settled and what its step said before is over, so that words and calls stand
    in the history as they came.

    Args:
        timeout: Seconds for a call of a tool without a timeout of its own.
        max_threads: Sync tools that run at a time.
        hand_off: Begins a handoff to the agent that a tool of that turn returned.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        *,
        timeout: float,
        max_threads: int,
        hand_off: Callable[[Agent, str], PendingHandoff],
    ) -> None:
        self._context = context
        self._history = history
        self._hand_off = hand_off
        self._is_closing = False
        self._pending: dict[int, tuple[ToolBatch, str]] = {}
        self._uncarried: list[ToolBatch] = []
        self._idle = anyio.Event()
        self._is_running = False
        self._count = 0
        self._executor = ToolExecutor(
            context.clock,
            timeout=timeout,
            max_threads=max_threads,
            watch=lambda call, is_known: context.observer.tool(call, is_known=is_known),
            on_settled=self._on_settled,
            on_error=lambda error: context.report_error(error, "tool"),
        )

    def start(self, handle: SpeechHandle, calls: Sequence[ToolCall], turn_id: str) -> ToolBatch:
        """Run calls of the present agent's tools for the speech of `handle`, in tasks of the session."""
        tools = self._context.live.agent.tools
        for call in calls:
            self._context.log.note(
                ev.ToolStarted, turn_id=turn_id, tool=call.name, call_id=call.call_id, arguments=call.arguments
            )
        token = running_tool_of.set(handle.id)  # inherited by the tasks started here
        try:
            batch = self._executor.start(
                self._context.group,
                calls,
                tools,
                lambda call, note: RunContext(self._context.session, handle, call.call_id, note),
            )
        finally:
            running_tool_of.reset(token)
        self._count += 1
        batch.id, batch.turn_id = f"results_{self._count}", turn_id
        self._pending[id(batch)] = (batch, turn_id)
        self._uncarried.append(batch)
        self._note_running()
        return batch

    def release(self, batch: ToolBatch) -> None:
        """What the step said before its calls is over, or its speech was cut; may be called again."""
        batch.is_spoken = True
        if id(batch) in self._pending:
            self._commit_settled()
        else:
            self._ask_late(batch)

    def carried(self) -> list[ToolRecord]:
        """A model is sent `with_pending()` now: return the records of calls that no turn's record has yet."""
        records: list[ToolRecord] = []
        for batch in self._uncarried:
            if batch.is_settled:
                batch.is_carried = True
                if batch.is_owed:
                    self._context.inbox.post(ResultsCarried(batch.id))
                records += batch.take_records()
        self._uncarried = [batch for batch in self._uncarried if not batch.is_carried]
        return records

    def unanswered_calls(self) -> set[str]:
        """Ids of the calls that run, are not in the history yet, or whose results no model was sent."""
        batches = [*self._uncarried, *(batch for batch, _ in self._pending.values())]
        return {call.call_id for batch in batches for call in batch.calls}

    def with_pending(self, context: ChatContext) -> ChatContext:
        """Return `context` with the calls not committed yet, at the end of their turn; running ones' outputs say so."""
        if not self._pending:
            return context
        items = list(context.items)
        for batch, turn_id in self._pending.values():
            place = max((n for n, item in enumerate(items, start=1) if item.turn_id == turn_id), default=len(items))
            calls = [
                FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments, turn_id=turn_id)
                for call in batch.calls
            ]
            outputs = [
                FunctionCallOutput(
                    call_id=call.call_id,
                    name=call.name,
                    output=output.output if output else _still_running(batch.updates.get(number)),
                    is_error=output.is_error if output else False,
                    turn_id=turn_id,
                )
                for number, (call, output) in enumerate(zip(batch.calls, batch.outputs, strict=True))
            ]
            items[place:place] = [*calls, *outputs]
        return ChatContext(items)

    async def cancel(self) -> None:
        """Cancel all calls and wait until each has settled; the caller bounds it."""
        self._is_closing = True
        self._executor.cancel()
        for batch, _ in list(self._pending.values()):
            self.release(batch)
        while self._pending:
            self._idle = anyio.Event()
            await self._idle.wait()

    def _on_settled(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        self._context.inbox.post(ToolCallSettled(call.call_id))
        self._note_running()
        self._commit_settled()
        self._context.log.note(
            ev.ToolCalled,
            tool=call.name,
            call_id=call.call_id,
            arguments=call.arguments,
            output=output.output,
            is_error=output.is_error,
            seconds=seconds,
        )

    def _note_running(self) -> None:
        is_running = any(not batch.is_settled for batch, _ in self._pending.values())
        if is_running != self._is_running:
            self._is_running = is_running
            self._context.inbox.post(ToolsRunning(is_running))

    def _commit_settled(self) -> None:
        for key, (batch, turn_id) in list(self._pending.items()):
            if batch.is_settled and batch.is_spoken:
                del self._pending[key]
                if batch.agents and not self._is_closing:
                    self._begin_handoff(batch, turn_id)
                self._history.add_calls(batch.calls, [o for o in batch.outputs if o is not None], turn_id)
                self._ask_late(batch)
        if not self._pending:
            self._idle.set()

    def _begin_handoff(self, batch: ToolBatch, turn_id: str) -> None:
        """Hand off to the first agent that can take over, in the order of the calls; the model is told of others."""
        for index, agent in sorted(batch.agents.items()):
            if batch.handoff is not None:
                batch.refuse_handoff(index, "another tool called beside this one hands the conversation over")
                continue
            try:
                batch.handoff = self._hand_off(agent, turn_id)
            except SessionError as error:
                self._context.report_error(error, "tool")
                batch.refuse_handoff(index, "it cannot take over")

    def _ask_late(self, batch: ToolBatch) -> None:
        if batch.is_interrupted and batch.has_results and not batch.is_carried and not batch.is_owed:
            batch.is_owed = True
            self._context.inbox.post(AnswerOwed(batch.id, batch.turn_id))


def _still_running(update: str | None) -> str:
    return STILL_RUNNING if update is None else f"{STILL_RUNNING} The caller was told: {update!r}"

"""ToolCalls: the session's running tool calls, outside every reply's scope, and their way into the history.

A session that goes on with another one's conversation gets the calls that had begun there. A call whose tool is marked
as idempotent runs again. Any other one may have had its effect: the model is told that it was broken off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import groupby

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechHandle
from vivavoce.agents.history.checkpoint_feed import CheckpointFeed
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.open_work import BegunCall
from vivavoce.agents.records import ToolRecord
from vivavoce.agents.tools.batch import AwaitHandoff, StepCalls, ToolBatch
from vivavoce.agents.tools.context import RunContext
from vivavoce.agents.tools.executor import ToolExecutor
from vivavoce.agents.turn.inputs import AnswerOwed, ResultsCarried, ToolCallSettled, ToolsRunning
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.chat_context import ChatContext, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall, ToolOutput

STILL_RUNNING = "The call is still running; its result will follow. Do not call it again."
BROKEN_OFF = (
    "The call was broken off: the program that ran it has ended, and its result is unknown. "
    "It may have had its effect. Do not call it again without the caller's consent."
)
"""The output of a call that had begun before a crash."""
MAX_THREADS = 8
"""Sync tools that run at a time in a session."""


class ToolCalls:
    """Starts batches of calls, cancels them at close, and commits each batch to the history.

    A batch is committed when all of it is settled and the words before its calls are over, so that words and calls
    stand in the history as they came.

    Args:
        checkpoints: Keeps the calls before their tools run.
        hand_off: Requests a handoff to the agent that a tool of that turn returned, and returns the wait for its end.
        take_result: Awaited with the output of each call that did not fail, before it is settled; returns whether that
            was the answer to it, so that no model gets the output.
        timeout: Seconds for a call of a tool without a timeout of its own.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        checkpoints: CheckpointFeed,
        hand_off: Callable[[Agent, str], AwaitHandoff],
        take_result: Callable[[ToolCall, str], Awaitable[bool]],
        *,
        timeout: float,
    ) -> None:
        self._context = context
        self._history = history
        self.checkpoints = checkpoints
        """Keeps the calls, and the turns that have no answer yet."""
        self._hand_off = hand_off
        self._take_result = take_result
        self._pending: list[StepCalls] = []
        """The calls that are not in the history yet."""
        self._uncarried: list[StepCalls] = []
        self._untold: list[StepCalls] = []
        """The steps in the history whose answer is not over."""
        self._idle = anyio.Event()
        self._is_running = False
        self._count = 0
        self._executor = ToolExecutor(
            context.clock,
            timeout=timeout,
            max_threads=MAX_THREADS,
            watch=lambda call, is_known: context.observer.tool(call, is_known=is_known),
            on_settled=self._on_settled,
            on_error=lambda error: context.report_error(error, "tool"),
            on_result=self._on_result,
            before_run=checkpoints.calls_kept,
        )

    def start(
        self,
        handle: SpeechHandle,
        calls: Sequence[ToolCall],
        turn_id: str,
        *,
        outputs: Mapping[int, ToolOutput] | None = None,
    ) -> StepCalls:
        """Run calls of the present agent's tools for the speech of `handle`, in tasks of the session.

        Args:
            outputs: Outputs of calls that are not run, by the number of the call.
        """
        agent = self._context.live.agent
        for index, call in enumerate(calls):
            if outputs is None or index not in outputs:
                self._context.log.note(
                    ev.ToolStarted, turn_id=turn_id, tool=call.name, call_id=call.call_id, arguments=call.arguments
                )
        batch = self._executor.start(
            self._context.group,
            calls,
            self._context.live.tools,
            lambda call, note: RunContext(self._context.session, handle, call.call_id, note),
            speech_id=handle.id,
            agent=agent,
            outputs=outputs,
        )
        step = self._step(turn_id, batch)
        self._pending.append(step)
        self._note_running()
        self._note_begun()
        return step

    def _step(self, turn_id: str, batch: ToolBatch) -> StepCalls:
        self._count += 1
        step = StepCalls(f"results_{self._count}", turn_id, batch, agent=self._context.live.agent, teller=turn_id)
        self._uncarried.append(step)
        return step

    def resume(self) -> None:
        """Go on with the open work of the session before: its calls, and an answer once nobody speaks."""
        work = self.checkpoints.resumed
        idempotent = {tool.name for tool in self._context.live.tools if tool.idempotent}
        steps = [
            self._begin_anew(turn_id, list(group), idempotent)
            for turn_id, group in groupby(work.calls, lambda begun: begun.turn_id)
        ]
        if work.turn_id:
            of_turn = [step for step in steps if step.turn_id == work.turn_id and not step.batch.is_settled]
            if of_turn:
                of_turn[-1].on_commit.append(partial(self._answer_behind, of_turn[-1]))
            else:
                self._owe_answer(work.turn_id)
        for turn_id in work.results:
            self._untold.append(step := self._owe_answer(turn_id))
            step.is_over = True
        for step in steps:
            self.release(step, is_cut=step.turn_id != work.turn_id)

    def _begin_anew(self, turn_id: str, begun: Sequence[BegunCall], idempotent: set[str]) -> StepCalls:
        """Begin with the calls of a speech that is over; only those of idempotent tools run."""
        outputs = {
            index: one.output or _broken_off(one.call)
            for index, one in enumerate(begun)
            if one.output is not None or one.call.name not in idempotent
        }
        ended = SpeechControl(new_id("speech"), "reply", interruptible=True, post=self._context.inbox.post)
        ended.set_outcome("cancelled", None)
        return self.start(ended.handle, [one.call for one in begun], turn_id, outputs=outputs)

    def _answer_behind(self, step: StepCalls) -> None:
        """Answer the kept calls of the resumed turn, behind the handoff that one of them may have led to."""

        async def answer(await_handoff: AwaitHandoff) -> None:
            end = await await_handoff(None)  # the hooks' timeouts and their speech bound it
            if self._context.closing.is_asked:
                return
            if step.batch.is_mere_handoff and end.is_answer:
                self.answer_over(step.turn_id)
                self.checkpoints.turn_over(step.turn_id)
            else:
                self._owe_answer(step.turn_id)

        if step.await_handoff is None:
            self._owe_answer(step.turn_id)
        else:
            self._context.group.start_soon(answer, step.await_handoff, name=f"answer to {step.turn_id}")

    def _owe_answer(self, turn_id: str) -> StepCalls:
        """Have that turn of the session before answered, or the results that it has left in the history."""
        step = self._step(turn_id, ToolBatch((), [], []))
        self._owe(step)
        return step

    def _owe(self, step: StepCalls) -> None:
        """Have the turn machine know that no speech answers the outputs."""
        step.is_owed = True
        self._context.inbox.post(AnswerOwed(step.id, step.turn_id))

    def interrupt(self, step: StepCalls) -> None:
        """Cancel the calls with `cancel_on_interrupt`, since the caller took the floor; the others continue."""
        step.batch.interrupt_calls()

    def rest(self, call_id: str, *, is_resting: bool) -> None:
        """Note whether a call waits for a task: it is no work that a silent caller waits for."""
        for step in self._pending:
            if any(call.call_id == call_id for call in step.batch.calls):
                (step.batch.at_rest.add if is_resting else step.batch.at_rest.discard)(call_id)
        self._note_running()

    def when_committed(self, call_id: str, then: Callable[[], None]) -> bool:
        """Call `then` once the step of that call is in the history; return whether the step is still to come there."""
        step = next((s for s in self._pending if any(c.call_id == call_id for c in s.batch.calls)), None)
        if step is not None:
            step.is_unanswered = True
            step.on_commit.append(then)
        return step is not None

    def leave_unanswered(self, call_id: str) -> None:
        """Let no model receive the outputs of that call's step: they are answered, or another agent answers."""
        self.when_committed(call_id, _nothing)

    def end_task(self, task: Agent) -> None:
        """Cancel the running calls of a task that is over; no model receives their outputs."""
        for step in (*self._pending, *self._uncarried):
            if step.agent is task:
                step.is_unanswered = True
                step.batch.cancel()
        self._uncarried = [step for step in self._uncarried if step.agent is not task]

    def release(self, step: StepCalls, *, is_cut: bool = False) -> None:
        """Note that the words before the calls are over; may be called again.

        Args:
            is_cut: The speech was cut or has failed, so that it does not answer the results.
        """
        step.is_spoken, step.is_cut = True, step.is_cut or is_cut
        if step in self._pending:
            self._commit_settled()
        else:
            self._report_owed(step)

    def take_records(self, step: StepCalls) -> list[ToolRecord]:
        """Return the records of the settled calls that no turn's record has yet."""
        return step.batch.take_records()

    def answer_over(self, *turn_ids: str) -> None:
        """Note that the answers of these turns and speeches are over: they have told the outputs that they had."""
        for step in (*self._pending, *self._untold):
            if step.teller in turn_ids:
                step.is_over = True
        self._note_begun()

    def carried(self, teller: str) -> list[ToolRecord]:
        """Note that a model is sent `with_pending()` now, for the answer of that turn or speech.

        Returns:
            The records of calls that no turn's record has yet.
        """
        records: list[ToolRecord] = []
        for step in self._uncarried:
            if all(step.batch.known_outputs()) or (step.batch.is_settled and step not in self._pending):
                step.is_carried, step.is_over, step.teller = True, False, teller
                if step.is_owed:
                    self._context.inbox.post(ResultsCarried(step.id))
                records += step.batch.take_records()
        self._uncarried = [step for step in self._uncarried if not step.is_carried]
        return records

    def unanswered_calls(self) -> set[str]:
        """Return the ids of calls that run, are not in the history yet, or whose results no model was sent."""
        return {call.call_id for step in (*self._uncarried, *self._pending) for call in step.batch.calls}

    def with_pending(self, context: ChatContext) -> ChatContext:
        """Return `context` with the calls not committed yet, at the end of their turn; running ones' outputs say so."""
        if not self._pending:
            return context
        items = list(context.items)
        for step in self._pending:
            batch, turn_id = step.batch, step.turn_id
            place = max((n for n, item in enumerate(items, start=1) if item.turn_id == turn_id), default=len(items))
            calls = [
                FunctionCall(
                    call_id=call.call_id,
                    name=call.name,
                    arguments=call.arguments,
                    extra=call.extra,
                    turn_id=turn_id,
                )
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
                for number, (call, output) in enumerate(zip(batch.calls, batch.known_outputs(), strict=True))
            ]
            items[place:place] = [*calls, *outputs]
        return ChatContext(items)

    def cancel(self) -> Awaitable[None] | None:
        """Cancel all calls; return the wait until each has settled, which the caller bounds, or None without one."""
        self._executor.cancel()
        for step in list(self._pending):
            self.release(step)
        return self._settled() if self._pending else None

    async def _settled(self) -> None:
        while self._pending:
            self._idle = anyio.Event()
            await self._idle.wait()

    async def _on_result(self, call: ToolCall, output: str) -> None:
        if await self._take_result(call, output):
            self.leave_unanswered(call.call_id)

    def _on_settled(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        step = next(step for step in self._pending if any(one is call for one in step.batch.calls))
        batch, live = step.batch, self._context.live
        is_handoff = any(batch.calls[index] is call for index in batch.agents)
        self._context.inbox.post(ToolCallSettled(call.call_id))
        self._note_running()
        self._commit_settled()
        if is_handoff:  # its output is known with the step
            return
        if step in self._pending and live.is_connected:  # a realtime model need not wait for the step
            live.connection.conversation.show_result(_item_of(output, step.turn_id))
        self._note_called(call, output, seconds)

    def _note_called(self, call: ToolCall, output: ToolOutput, seconds: float) -> None:
        self._context.log.note(
            ev.ToolCalled,
            tool=call.name,
            call_id=call.call_id,
            arguments=call.arguments,
            output=output.output,
            is_error=output.is_error,
            seconds=seconds,
        )

    def _note_begun(self) -> None:
        self._untold = [step for step in self._untold if step.is_untold]
        self.checkpoints.calls_are(
            [
                BegunCall(turn_id=step.turn_id, call=call, output=output)
                for step in self._pending
                for call, output in zip(step.batch.calls, step.batch.outputs, strict=True)
            ],
            list(dict.fromkeys(step.turn_id for step in self._untold)),
        )

    def _note_running(self) -> None:
        is_running = any(step.batch.is_at_work for step in self._pending)
        if is_running != self._is_running:
            self._is_running = is_running
            self._context.inbox.post(ToolsRunning(is_running))

    def _commit_settled(self) -> None:
        for step in list(self._pending):
            batch = step.batch
            if batch.is_settled and step.is_spoken:
                self._pending.remove(step)
                if batch.agents and not self._context.closing.is_asked:
                    self._begin_handoff(step)
                if (live := self._context.live).is_connected and live.connection.conversation.takes_results:
                    step.is_carried = step.is_taken = True
                self._history.add_calls(batch.calls, [o for o in batch.outputs if o is not None], step.turn_id)
                for call, output, seconds in batch.handoffs():
                    self._note_called(call, output, seconds)
                self._report_owed(step)
                self._untold.append(step)
                for then in step.on_commit:
                    then()
        self._note_begun()
        if not self._pending:
            self._idle.set()

    def _begin_handoff(self, step: StepCalls) -> None:
        """Hand off to the first agent that can take over, in the order of the calls; outputs name the others."""
        batch = step.batch
        for index, agent in sorted(batch.agents.items()):
            if step.await_handoff is not None:
                batch.refuse_handoff(index, "another tool called beside this one hands the conversation over")
                continue
            try:
                step.await_handoff = self._hand_off(agent, step.turn_id)
            except SessionError as error:
                self._context.report_error(error, "tool")
                batch.refuse_handoff(index, "it cannot take over")

    def _report_owed(self, step: StepCalls) -> None:
        if step.is_unanswered:
            return
        if step.is_cut and step.batch.has_results and not step.is_carried and not step.is_owed:
            self._owe(step)


def _item_of(output: ToolOutput, turn_id: str) -> FunctionCallOutput:
    return FunctionCallOutput(
        call_id=output.call_id, name=output.name, output=output.output, is_error=output.is_error, turn_id=turn_id
    )


def _nothing() -> None:
    """Do nothing."""


def _broken_off(call: ToolCall) -> ToolOutput:
    return ToolOutput(call_id=call.call_id, name=call.name, output=BROKEN_OFF, is_error=True)


def _still_running(update: str | None) -> str:
    return STILL_RUNNING if update is None else f"{STILL_RUNNING} The caller was told: {update!r}"

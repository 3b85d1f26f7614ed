"""The wait of a speech for its tools, and for the handoff that one of them asks for."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.floor_pass import FloorPass
from vivavoce.agents.tools.batch import AwaitHandoff, StepCalls
from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished
from vivavoce.agents.turn_records.stages import CHECKPOINT_STAGE
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder

Next = Literal["model", "nothing", "interrupted"]
"""The next step after the calls: a model step, none, or none because the caller cancelled all calls."""


async def await_tools(
    step: StepCalls,
    *,
    context: ReplyContext,
    handle: SpeechHandle,
    record: TurnRecordBuilder,
    floor: FloorPass,
    by_hook: bool,
) -> Next:
    """Wait, without the floor, until every call is settled and the handoff is over; return the next step.

    Args:
        by_hook: Whether a hook of an agent that comes or goes requested the speech.
    """
    if step.batch.is_settled and step.await_handoff is None:
        record.mark("tools", "user_code", context.clock.now())
        return "nothing" if step.is_unanswered or step.is_taken else "model"
    floor.take_back()
    context.session.inbox.post(ToolsAwaited(handle.id))
    if await context.checkpoints.calls_kept():
        record.mark(*CHECKPOINT_STAGE, context.clock.now())
    await step.batch.settled.wait()  # bounded by the tools' own timeouts
    record.mark("tools", "user_code", context.clock.now())
    if step.batch.are_calls_interrupted and not step.batch.has_results and not step.batch.agents:
        return "interrupted"
    goes_on = not (step.is_unanswered or step.is_taken)
    if step.await_handoff is not None:
        goes_on = await _await_handoff(step, step.await_handoff, context, record, by_hook=by_hook)
    if goes_on:
        context.session.inbox.post(ToolsFinished(handle.id))
    return "model" if goes_on else "nothing"


async def _await_handoff(
    step: StepCalls, await_handoff: AwaitHandoff, context: ReplyContext, record: TurnRecordBuilder, *, by_hook: bool
) -> bool:
    if by_hook:  # the handoff waits for the hook, which may wait for this speech
        return not step.batch.is_mere_handoff
    # The hooks' timeouts and their speech bound it.
    end = await await_handoff(record)
    record.mark("handoff", "user_code", context.clock.now())
    if end.record is not None:
        record.add_handoff(end.record)
    return not (step.batch.is_mere_handoff and end.is_answer)

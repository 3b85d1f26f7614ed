"""ReplyTools: the tool calls of one speech, from the end of a model's step to the next step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vivavoce.agents.speech.stages import without_calls
from vivavoce.agents.speech.step_usage import ModelStream
from vivavoce.agents.speech.tool_wait import Next, await_tools
from vivavoce.agents.turn.inputs import ToolsStarted

if TYPE_CHECKING:
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.speech.context import ReplyContext
    from vivavoce.agents.speech.floor_pass import FloorPass
    from vivavoce.agents.tools.batch import StepCalls
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
    from vivavoce.pipelines.llm.tools import ToolCall

MOST_REFUSED_ANSWERS = 2
"""The most times that a model is asked again which calls tools in an answer without tools; it answers on only after an
output."""

WITHOUT_TOOLS = "Not run: this answer is to be given without a tool."
LEFT = "Not run: the answer that made the call was cut, has failed, or left the call out."


class ReplyTools:
    """Starts the calls of a step, waits for them, and releases them when the speech is over or cut.

    Args:
        by_hook: Whether a hook of an agent that comes or goes requested the speech.
    """

    def __init__(
        self, context: ReplyContext, handle: SpeechHandle, record: TurnRecordBuilder, *, by_hook: bool
    ) -> None:
        self._context = context
        self._tools = context.tools
        self._handle = handle
        self._record = record
        self._by_hook = by_hook
        self._step: StepCalls | None = None
        self._may_call = True
        self._steps_without_tools = 0
        self._left: list[str] = []
        """The ids of calls that were not run, for whose outputs a model waits."""
        self.asks_again = False
        """Whether the model has learned that calls of its last step are not run, and waits for another request."""

    def allowed(self, source: ModelStream, *, may_call: bool) -> ModelStream:
        """Return a model's step that is about to begin; without its calls if the step has no tools."""
        self._may_call, self.asks_again = may_call, False
        self._steps_without_tools += not may_call
        return source if may_call else without_calls(source, self._handle.id)

    def leave(self, kept: Sequence[ToolCall] = ()) -> bool:
        """End a step, however it went. A model that keeps the conversation itself learns which of its calls are not
        run.

        Args:
            kept: The calls that are run from now on.
        Returns:
            `asks_again`.
        """
        live, why = self._context.live, LEFT if self._may_call else WITHOUT_TOOLS
        if live.is_connected:
            running = self._tools.unanswered_calls().union(call.call_id for call in kept)
            if left := live.connection.conversation.leave_calls(running, why):
                self._left += left
                self.asks_again = self._steps_without_tools <= MOST_REFUSED_ANSWERS
        return self.asks_again

    def start(self, calls: list[ToolCall], *, is_played: bool) -> StepCalls:
        """Start the calls of a step.

        Args:
            is_played: Whether the words before them have been played, so that their results may be committed.
        """
        self._context.session.inbox.post(ToolsStarted(self._handle.id))
        self._step = step = self._tools.start(self._handle, calls, self._record.turn_id)
        if is_played:
            self._tools.release(step)
        return step

    def release(self) -> None:
        """Note that the words before the calls have been played."""
        if self._step is not None:
            self._tools.release(self._step)

    def interrupt(self) -> None:
        """Cancel the calls with `cancel_on_interrupt`, since the caller took the floor."""
        if self._step is not None:
            self._tools.interrupt(self._step)

    def cut(self) -> None:
        """Cancel the calls with `cancel_on_interrupt`, since the speech is cut; its other calls run on."""
        if self._step is not None:
            self._note()
            self._tools.interrupt(self._step)
            self._tools.release(self._step, is_cut=True)

    def end(self, *, has_failed: bool) -> None:
        """Note that the speech is over."""
        if self._step is not None:
            self._note()
            self._tools.release(self._step, is_cut=has_failed)
        if self._context.live.is_connected:  # the speech may have been cut before it asked once more
            self._context.live.connection.conversation.ask_no_more(self._left)

    def _note(self) -> None:
        assert self._step is not None
        for record in self._tools.take_records(self._step):
            self._record.add_tool(record)

    async def wait(self, step: StepCalls, floor: FloorPass) -> Next:
        """Wait for the results, and for the agent that one of them hands off to; return the next step."""
        return await await_tools(
            step, context=self._context, handle=self._handle, record=self._record, floor=floor, by_hook=self._by_hook
        )

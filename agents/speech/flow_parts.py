"""FlowParts: the text of a conversation flow, in parts; and how a speech passes on the floor between two parts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from vivavoce.agents.core.application_code import reads_streams
from vivavoce.agents.core.hooks import Hooks, Run
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.extension.text_parts import TextParts
from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished, ToolsStarted
from vivavoce.pipelines.llm.base import TextDelta


class FlowParts(TextParts):
    """The text of a flow. Start `run` in a task.

    Args:
        hooks: Run the flow.
        answer_id: The speech that the flow answers by.
    """

    def __init__(self, source: AsyncGenerator[TextDelta, None], hooks: Hooks, answer_id: str) -> None:
        super().__init__()
        self.hook = Run(hooks, "turn hook", "run of the conversation flow", answer_id=answer_id)
        """The run of the hook, which knows the speeches that the flow asks for."""
        self._source = source

    async def run(self) -> None:
        """Run the flow to its end. `next_part()` raises its error."""
        error: Exception | None = None
        try:
            await self.hook.make(self._read)
        except Exception as raised:  # noqa: BLE001 - user code: it fails the answer, in the task that reads it
            error = raised
        finally:
            self.close(error)

    async def _read(self) -> None:
        with reads_streams():
            async with aclosing(self._source) as pieces:
                async for piece in pieces:
                    self.put(piece)


def leave_floor(inbox: Inbox, speech_id: str) -> None:
    """Give up the floor of a speech whose hook or flow awaits a task, as if the speech waited for its tools."""
    inbox.post(ToolsStarted(speech_id))
    inbox.post(ToolsAwaited(speech_id))


def want_floor(inbox: Inbox, speech_id: str) -> None:
    """Have that speech wait for the floor again."""
    inbox.post(ToolsFinished(speech_id))


async def pass_floor(parts: TextParts, inbox: Inbox, speech_id: str, give_way: Callable[[], None]) -> None:
    """Pass on the floor before the next part: to the task that the code awaits, or by `give_way`."""
    if not parts.is_at_rest:
        give_way()
        return
    leave_floor(inbox, speech_id)
    await parts.rested()
    want_floor(inbox, speech_id)

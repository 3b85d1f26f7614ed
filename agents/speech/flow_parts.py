"""TextParts: text of the application's code, in parts where the code says something by itself between two pieces.

FlowParts is that of a conversation flow. Such code runs in a task of its own, since it may await its own speech between
two pieces: the part before that is played out meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

import anyio

from vivavoce.agents.core.hooks import Hooks, Run
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished, ToolsStarted
from vivavoce.pipelines.llm.base import TextDelta


class TextParts:
    """The text: one task pushes it, another one reads part after part until `is_over`."""

    def __init__(self) -> None:
        self._pieces: deque[TextDelta | None] = deque()
        """None is the end of a part."""
        self._end = ""
        """The last character of the part so far."""
        self._is_other_text = False
        """Whether the next piece begins another text."""
        self._is_closed = False
        self._error: Exception | None = None
        self._news = anyio.Event()
        self._rest: anyio.Event | None = None
        self.has_rested = False
        """Whether a task that the code awaits has had the conversation."""

    @property
    def is_over(self) -> bool:
        """Whether every part has been read."""
        return self._is_closed and not self._pieces

    def push(self, text: str) -> None:
        """Add text."""
        if self._is_other_text and self._end and not (self._end.isspace() or text[:1].isspace()):
            text = f" {text}"
        self._is_other_text = False
        self._put(TextDelta(text))

    def begin_text(self) -> None:
        """Begin another text in the same part: a space comes between the two, unless white space is there."""
        self._is_other_text = True

    def close(self, error: Exception | None = None) -> None:
        """There is no more text; `next_part()` raises the error."""
        self._error = error
        self._is_closed = True
        self._news.set()

    def split(self) -> None:
        """Begin the next part, since the code asked for speech."""
        self._put(None)

    def rest(self) -> None:
        """Begin the next part behind a task that the code awaits."""
        self._rest, self.has_rested = anyio.Event(), True
        self._put(None)

    def go_on(self) -> None:
        """That task is over."""
        if self._rest is not None:
            self._rest.set()

    @property
    def is_at_rest(self) -> bool:
        """Whether the next part comes behind a task."""
        return self._rest is not None

    async def rested(self) -> None:
        """Wait for the end of that task."""
        if self._rest is not None:
            await self._rest.wait()
            self._rest = None

    def _put(self, piece: TextDelta | None) -> None:
        self._pieces.append(piece)
        self._end = "" if piece is None else piece.text[-1:]
        self._news.set()

    async def next_part(self) -> AsyncGenerator[TextDelta, None]:
        """Yield the text up to the next speech of the code, or to its end."""
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                if piece is None:
                    return
                yield piece
            if self._is_closed:
                break
            self._news = anyio.Event()
            await self._news.wait()
        if self._error is not None:
            raise self._error


class PartText(AsyncIterator[str]):
    """One part as the text of a `say()`, without the limits of such texts: the code that pushes it has its own."""

    def __init__(self, parts: TextParts) -> None:
        self._pieces = parts.next_part()

    async def __anext__(self) -> str:
        return (await anext(self._pieces)).text

    async def aclose(self) -> None:
        """Read no more."""
        await self._pieces.aclose()


class FlowParts(TextParts):
    """The text of a flow. Start `run` in a task.

    Args:
        hooks: Run the flow.
        answer_id: The speech that the flow answers by.
    """

    def __init__(self, source: AsyncGenerator[TextDelta, None], hooks: Hooks, answer_id: str) -> None:
        super().__init__()
        self.hook = Run(hooks, "turn hook", "run of the conversation flow", answer_id=answer_id)
        """Knows the speeches that the flow asks for."""
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
        async with aclosing(self._source) as pieces:
            async for piece in pieces:
                self._put(piece)


def leave_floor(inbox: Inbox, speech_id: str) -> None:
    """Have a speech whose hook, or flow, awaits a task leave the floor, as one that waits for its tools."""
    inbox.post(ToolsStarted(speech_id))
    inbox.post(ToolsAwaited(speech_id))


def want_floor(inbox: Inbox, speech_id: str) -> None:
    """Have that speech wait for the floor again."""
    inbox.post(ToolsFinished(speech_id))


async def pass_floor(parts: TextParts, inbox: Inbox, speech_id: str, give_way: Callable[[], None]) -> None:
    """Pass the floor on before the next part: to the task that the code awaits, or by `give_way`."""
    if not parts.is_at_rest:
        give_way()
        return
    leave_floor(inbox, speech_id)
    await parts.rested()
    want_floor(inbox, speech_id)

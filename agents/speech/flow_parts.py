"""FlowParts: a conversation flow's text, in parts where the flow says something by itself between two pieces.

The flow runs in a task of its own, since it may await its own speech between two pieces: the part before that is played
out meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import anyio

from vivavoce.agents.core.hooks import Hooks, Run
from vivavoce.agents.core.inbox import Inbox
from vivavoce.agents.turn.inputs import ToolsAwaited, ToolsFinished, ToolsStarted
from vivavoce.pipelines.llm.base import TextDelta


class FlowParts:
    """Start `run` in a task, and read part after part until `is_over`.

    Args:
        hooks: Run the flow.
        answer_id: The speech that the flow answers by.
    """

    def __init__(self, source: AsyncGenerator[TextDelta, None], hooks: Hooks, answer_id: str) -> None:
        self.hook = Run(hooks, "turn hook", "run of the conversation flow", answer_id=answer_id)
        """Knows the speeches that the flow asks for."""
        self._source = source
        self._pieces: deque[TextDelta | None] = deque()
        """None is the end of a part."""
        self._is_closed = False
        self._error: Exception | None = None
        self._news = anyio.Event()
        self._rest: anyio.Event | None = None
        self.has_rested = False
        """Whether a task that the flow awaits has had the conversation."""

    @property
    def is_over(self) -> bool:
        """Whether every part has been read."""
        return self._is_closed and not self._pieces

    async def run(self) -> None:
        """Run the flow to its end. `next_part()` raises its error."""
        try:
            await self.hook.make(self._read)
        except Exception as error:  # noqa: BLE001 - user code: it fails the answer, in the task that reads it
            self._error = error
        finally:
            self._is_closed = True
            self._news.set()

    async def _read(self) -> None:
        async with aclosing(self._source) as pieces:
            async for piece in pieces:
                self._put(piece)

    def split(self) -> None:
        """Begin the next part, since the flow asked for speech."""
        self._put(None)

    def rest(self) -> None:
        """Begin the next part behind a task that the flow awaits."""
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
        self._news.set()

    async def next_part(self) -> AsyncGenerator[TextDelta, None]:
        """Yield the text up to the next speech of the flow, or to its end."""
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


def leave_floor(inbox: Inbox, speech_id: str) -> None:
    """Have a speech whose hook, or flow, awaits a task leave the floor, as one that waits for its tools."""
    inbox.post(ToolsStarted(speech_id))
    inbox.post(ToolsAwaited(speech_id))


def want_floor(inbox: Inbox, speech_id: str) -> None:
    """Have that speech wait for the floor again."""
    inbox.post(ToolsFinished(speech_id))


async def pass_floor(flow: FlowParts, inbox: Inbox, speech_id: str, give_way: Callable[[], None]) -> None:
    """Pass the floor on before the flow's next part: to the task that the flow awaits, or by `give_way`."""
    if not flow.is_at_rest:
        give_way()
        return
    leave_floor(inbox, speech_id)
    await flow.rested()
    want_floor(inbox, speech_id)

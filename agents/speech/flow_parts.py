"""FlowParts: a conversation flow's text, in parts where the flow says something by itself between two pieces.

The flow runs in a task of its own, since it may await its own speech between two pieces: the part before that is played
out meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

import anyio

from vivavoce.agents.core.hooks import Run
from vivavoce.pipelines.llm.base import TextDelta


class FlowParts:
    """Start `run` in a task, and read part after part until `is_over`.

    Args:
        hook: Runs the flow, and knows the speeches that it asks for.
    """

    def __init__(self, source: AsyncGenerator[TextDelta, None], hook: Run) -> None:
        self.hook = hook
        self._source = source
        self._pieces: deque[TextDelta | None] = deque()
        """None is the end of a part."""
        self._is_closed = False
        self._error: Exception | None = None
        self._news = anyio.Event()

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

"""TextParts: the text of code, in parts; a part ends where the code speaks by itself.

Such code runs in a task of its own, since it may await its own speech between two pieces: the part before that is
played out meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from vivavoce.pipelines.core.characters import WholeText
from vivavoce.pipelines.llm.base import TextDelta


class TextParts:
    """The text: one task pushes it, another one reads part after part until `is_over`.

    Args:
        has_limit: Whether the code that pushes it has a limit of its own: the limits of a model's text do not count
            then.
    """

    def __init__(self, *, has_limit: bool = False) -> None:
        self.has_limit = has_limit
        self._pieces: deque[TextDelta | None] = deque()
        """The pieces of text; None is the end of a part."""
        self._text = WholeText()
        self._end = ""
        """The last character of the part so far."""
        self._is_other_text = False
        """Whether the next piece begins another text."""
        self._is_closed = False
        self._error: Exception | None = None
        self._news = anyio.Event()
        self._rest: anyio.Event | None = None
        self.has_rested = False
        """Whether a task awaited by the code has had the conversation."""

    @property
    def is_over(self) -> bool:
        """Whether every part has been read."""
        return self._is_closed and not self._pieces

    def push(self, text: str) -> None:
        if self._is_other_text and self._end and not (self._end.isspace() or text[:1].isspace()):
            text = f" {text}"
        self._is_other_text = False
        self.put(TextDelta(text))

    def begin_text(self) -> None:
        """Begin another text in the same part, separated by a space unless there is white space already."""
        self._is_other_text = True

    def close(self, error: Exception | None = None) -> None:
        """End the text; `next_part()` then raises `error`, if given."""
        if rest := self._text.finish():
            self._add(TextDelta(rest))
        self._error = error
        self._is_closed = True
        self._news.set()

    def split(self) -> None:
        """End the part, since the code asks for speech."""
        self.put(None)

    def rest(self) -> None:
        """End the part, since the code awaits a task; the next part comes after the task."""
        self._rest, self.has_rested = anyio.Event(), True
        self.put(None)

    def go_on(self) -> None:
        """Note that the awaited task is over."""
        if self._rest is not None:
            self._rest.set()

    @property
    def is_at_rest(self) -> bool:
        """Whether the next part waits for a task."""
        return self._rest is not None

    async def rested(self) -> None:
        """Wait until that task is over."""
        if self._rest is not None:
            await self._rest.wait()
            self._rest = None

    def put(self, piece: TextDelta | None) -> None:
        """Add a piece; None ends the part."""
        if piece is not None:
            piece = TextDelta(self._text.push(piece.text))
        elif rest := self._text.finish():
            self._add(TextDelta(rest))
        self._add(piece)

    def _add(self, piece: TextDelta | None) -> None:
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
            await checkpoint_if_cancelled()  # text that never rests would end each wait before its cancellation
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
        """Stop reading."""
        await self._pieces.aclose()

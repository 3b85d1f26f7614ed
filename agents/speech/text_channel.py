"""TextChannel: passes a model's text to the voice, in order, in the pieces that the voice asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.lowlevel

from vivavoce.agents.core.application_code import application_code
from vivavoce.pipelines.core.characters import WholeText
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.tts.live_text import LiveText

MAX_TEXT = 100_000
"""The most characters of a text that comes piece by piece, about two hours of speech; an endless text would fill the
memory."""


class TextChannel(LiveText):
    """A queue of text. Pieces pushed while there is no reader are joined into one.

    Args:
        whole_sentences: Whether each piece is a complete sentence, so that its end is known at once.
    """

    def __init__(self, *, whole_sentences: bool = False) -> None:
        self._whole_sentences = whole_sentences
        self._pending = ""
        self._is_closed = False
        self._wake: asyncio.Event | None = None
        self._on_close: Callable[[], None] | None = None

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def watch_close(self, on_close: Callable[[], None] | None) -> None:
        """Call `on_close` when the last text is in, or nothing for None."""
        self._on_close = on_close

    async def feed(self, text: AsyncIterator[str], on_piece: Callable[[str], None]) -> None:
        """Push all of `text`, calling `on_piece` before with each non-empty piece; `text` is closed in any case.

        The caller sets the limit. Feeding does not wait for a slow voice: whether all text is in distinguishes a voice
        that hangs from a voice that waits for text.

        Raises:
            ConfigurationError: It continues beyond `MAX_TEXT`, or yields something other than str.
        """
        length, whole = 0, WholeText()
        try:
            pieces = aiter(text)
            while True:
                try:
                    async with application_code("the text of say()"):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    break
                if not isinstance(piece, str):
                    raise ConfigurationError(f"say() needs a stream of str, got {type(piece).__name__}; yield its text")
                length += len(piece)
                if length > MAX_TEXT:
                    raise ConfigurationError(
                        f"one say() takes a text of at most {MAX_TEXT} characters, got more; say it in parts"
                    )
                if piece := whole.push(piece):
                    on_piece(piece)
                    self.push(piece)
                await anyio.lowlevel.checkpoint()  # a text that never waits must not hold the loop
        finally:
            aclose = getattr(text, "aclose", None)
            if aclose is not None:
                await aclose()
        if rest := whole.finish():
            on_piece(rest)
            self.push(rest)
        self.close()

    def push(self, text: str) -> None:
        self._pending += text
        self._notify()

    def close(self) -> None:
        """Note that no more text comes."""
        self._is_closed = True
        if self._on_close is not None:
            self._on_close()
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    async def has_text(self) -> bool:
        """Wait for the first text; return False if the channel is closed without any."""
        while not self._pending and not self._is_closed:
            self._wake = asyncio.Event()
            await self._wake.wait()
        return bool(self._pending)

    async def follows(self, within: float) -> bool:
        """Wait at most `within` seconds for more text or the end; return False if neither came."""
        if not (self._pending or self._is_closed or self._whole_sentences):
            self._wake = asyncio.Event()
            with anyio.move_on_after(within):
                await self._wake.wait()
        return bool(self._pending) or self._is_closed

    def __aiter__(self) -> TextChannel:
        return self

    async def __anext__(self) -> str:
        while not self._pending:
            if self._is_closed:
                raise StopAsyncIteration
            self._wake = asyncio.Event()
            await self._wake.wait()
        text, self._pending = self._pending, ""
        return text

"""TextChannel: a model's text on its way to the voice, in the order and the pieces that the voice asks for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio.lowlevel


class TextChannel(AsyncIterator[str]):
    """Pieces pushed while nobody reads are joined into one."""

    def __init__(self) -> None:
        self._pending = ""
        self._is_closed = False
        self._wake: asyncio.Event | None = None
        self.on_close: Callable[[], None] | None = None
        """Called when the last text is in."""

    @property
    def is_closed(self) -> bool:
        """Whether all text is in."""
        return self._is_closed

    async def feed(self, text: AsyncIterator[str], on_piece: Callable[[str], None]) -> None:
        """Push all of `text`, telling `on_piece` of each piece before, and close; `text` is closed in any case.

        It may take as long as it likes, for it is the application's own.
        """
        try:
            async for piece in text:
                on_piece(piece)
                self.push(piece)
                await anyio.lowlevel.checkpoint()  # a text that never waits must not hold the loop
        finally:
            aclose = getattr(text, "aclose", None)
            if aclose is not None:
                await aclose()
        self.close()

    def push(self, text: str) -> None:
        """Append text."""
        self._pending += text
        self._notify()

    def close(self) -> None:
        """Say that no more comes."""
        self._is_closed = True
        if self.on_close is not None:
            self.on_close()
        self._notify()

    def _notify(self) -> None:
        if self._wake is not None:
            self._wake.set()
            self._wake = None

    async def has_text(self) -> bool:
        """Wait for the first text; False if the channel is closed without any."""
        while not self._pending and not self._is_closed:
            self._wake = asyncio.Event()
            await self._wake.wait()
        return bool(self._pending)

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

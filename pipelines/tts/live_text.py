"""LiveText: text that is still being made, with a way to wait for more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncIterator

PAUSE = 0.15
"""Seconds without more text after which a sentence that looks finished is spoken."""


class LiveText(AsyncIterator[str]):
    """Pieces of a text as they come, for one consumer at a time."""

    @abstractmethod
    async def follows(self, within: float) -> bool:
        """Wait at most `within` seconds for more text or for the end; False if neither came. No text is consumed."""

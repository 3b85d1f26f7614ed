"""RestOfText: the text that is still to be spoken, whole or as it comes, for one voice after the other."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import anyio

from vivavoce.pipelines.core.words import is_letter


class RestOfText:
    """Keeps a text until its words are spoken.

    Args:
        text: Whole, or its pieces. A voice that breaks off may cancel its wait for the next piece, which the iterator
            must survive, as a session's does; an async generator ends by it.
    """

    def __init__(self, text: str | AsyncIterator[str]) -> None:
        self._source = None if isinstance(text, str) else text
        self._text = text if isinstance(text, str) else ""
        self._start = 0
        self._readers = 0
        self._limited: tuple[anyio.CancelScope, float] | None = None
        self.error: Exception | None = None
        """The error of the text's source."""

    @property
    def text(self) -> str:
        """The rest, as far as it is known."""
        return self._text[self._start :]

    @property
    def is_over(self) -> bool:
        """Whether no word is left and none comes."""
        return self._source is None and not any(map(is_letter, self.text))

    @property
    def is_known(self) -> bool:
        """Whether all of it is in."""
        return self._source is None

    def keep(self, rest: str) -> None:
        """Only `rest`, the end of the text so far, is left; empty: later text only."""
        self._start = len(self._text) - len(rest)

    def pieces(self) -> Pieces:
        """Return the rest as it comes, for one voice."""
        return Pieces(self, self._start)

    async def read(self, at: int) -> str:
        """Return the text from character `at` on, waiting for more if there is none; empty at its end.

        Raises:
            Exception: That of its source.
        """
        while at >= len(self._text) and self._source is not None:
            self._readers += 1
            self._set_limit()
            try:
                self._text += await anext(self._source)
            except StopAsyncIteration:
                self._source = None
            except Exception as error:
                self.error = error
                raise
            finally:
                self._readers -= 1
                self._set_limit()
        return self._text[at:]

    def limit(self, scope: anyio.CancelScope, seconds: float) -> None:
        """Cancel `scope` when the voice has not waited for text for `seconds`; another call replaces this one."""
        self._limited = scope, seconds
        self._set_limit()

    def _set_limit(self) -> None:
        if self._limited is not None:
            scope, seconds = self._limited
            scope.deadline = math.inf if self._readers else anyio.current_time() + seconds


class Pieces(AsyncIterator[str]):
    """The pieces of a text that one voice reads."""

    def __init__(self, text: RestOfText, start: int) -> None:
        self._text = text
        self._at = start

    async def __anext__(self) -> str:
        piece = await self._text.read(self._at)
        if not piece:
            raise StopAsyncIteration
        self._at += len(piece)
        return piece

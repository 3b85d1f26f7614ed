"""Pieces: a text in requests that a server takes, and its audio in whole samples."""

from __future__ import annotations

from collections.abc import Iterator

from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE


def pieces(text: str, most: int) -> Iterator[str]:
    """Cut a text into pieces for one request each, at spaces if possible; none for a text without words.

    Args:
        most: Characters of one request.
    """
    if not unless_blank(text):
        return
    while len(text) > most:
        at = text.rfind(" ", 1, most)
        at = most if at < 0 else at
        yield text[:at]
        text = text[at:]
    yield text


class WholeSamples:
    """Makes whole samples of 16-bit audio that may be cut anywhere; what is not whole at its end is left out."""

    def __init__(self) -> None:
        self._rest = b""

    def push(self, data: bytes) -> bytes:
        """Return the samples that are whole now."""
        data = self._rest + data
        whole = len(data) - len(data) % BYTES_PER_SAMPLE
        self._rest = data[whole:]
        return data[:whole]

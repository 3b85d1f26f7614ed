"""Whole characters: texts that enter a session have no half of a surrogate pair, which no file, store or socket takes.

A half comes from a JSON escape whose other half is missing (`"\\ud83d"`), or is in the next piece of a stream, and from
Python's names of files. It is replaced by U+FFFD where a text enters: `check_text` for the application's texts, the
constructors of `ChatItem`, `ToolCall`, `ToolOutput`, `GenerateRequest` and of the caller's words, and `WholeText` for
texts that come in pieces.
"""

from __future__ import annotations

import re
from typing import Any

_ESCAPES = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair
    r"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    r"|\\.",
    re.DOTALL,
)


def whole(text: str) -> str:
    """Return a text in which each half of a surrogate pair is replaced; two that belong together are one character."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def whole_json(text: str) -> str:
    """Return a JSON text that is whole, and whose strings are when they are read."""
    if "\\u" in text:
        text = _ESCAPES.sub(lambda found: r"\ufffd" if found["half"] else found[0], text)
    return whole(text)


def whole_data(value: Any) -> Any:
    """Return JSON data whose texts are whole."""
    if isinstance(value, str):
        return whole(value)
    if isinstance(value, dict):
        return {whole_data(key): whole_data(part) for key, part in value.items()}
    return [whole_data(part) for part in value] if isinstance(value, list) else value


def make_whole(value: object, *names: str) -> None:
    """Make texts of a frozen value whole; call it in `__post_init__`. Anything but a text is left as it is."""
    for name in names:
        text = getattr(value, name)
        if isinstance(text, str) and not text.isascii() and (mended := whole(text)) != text:
            object.__setattr__(value, name, mended)


class WholeText:
    """Makes the pieces of one text whole: a half at the end of a piece waits for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def push(self, piece: str) -> str:
        """Take the next piece; return the text that is whole with it, which may be empty."""
        if not self._half and piece.isascii():
            return piece
        text, self._half = self._half + piece, ""
        if "\ud800" <= text[-1:] <= "\udbff":
            text, self._half = text[:-1], text[-1]
        return whole(text)

    def finish(self) -> str:
        """Return the rest at the end of the text."""
        rest, self._half = whole(self._half), ""
        return rest

"""The texts that stores keep: JSON values, and lists that grow at their end without being read.

A store sees one text for each entry of a namespace. A list begins with its length, `#3\n[1,2,3]`, so that a store can
append to it, and count it, without decoding it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from vivavoce.pipelines.core.errors import StoreTypeError, StoreValueError

MAX_BYTES = 1024 * 1024
"""Longest text of one value, as UTF-8."""
HALF_PAIR = "a str holds half of a surrogate pair, which cannot be kept"
MAX_DEPTH = 200
"""Lists and dicts that may be in each other: Python reads them with a call each, and allows 1,000 calls in all."""

_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))

Json = Any
"""None, bool, int, float, str, a list of them, or a dict of them with str keys."""


def encode(value: Json) -> str:
    """Return the text of a value.

    Raises:
        StoreValueError: It is no JSON, longer than 1 MiB, or nested more than 200 levels deep.
    """
    try:
        text = _ENCODER.encode(value)
        _check(value)  # afterwards: a list that holds itself has no end
    except (TypeError, ValueError, RecursionError) as error:
        # The error's own text may repeat the value, which is content.
        raise StoreValueError(
            f"a value must be JSON (None, bool, int, float, str, list, dict with str keys), got "
            f"{type(value).__name__}: {_reason(error)}"
        ) from None
    if isinstance(value, list):
        text = f"#{len(value)}\n{text}"
    check_size(text)
    return text


def decode(text: str) -> Json:
    """Return the value of a text."""
    return json.loads(text.partition("\n")[2] if text.startswith("#") else text)


def decoded(entries: Mapping[str, str]) -> dict[str, Json]:
    """Return the values of texts."""
    return {name: decode(text) for name, text in entries.items()}


def appended(text: str | None, item: str) -> tuple[str, int]:
    """Return the text of a list with `item` (JSON) at its end, and its new length; None is an empty list.

    Raises:
        StoreTypeError: The text is not that of a list.
        StoreValueError: The list would become too long.
    """
    if text is None:
        text = "#0\n[]"
    if not text.startswith("#"):
        raise StoreTypeError(f"append() needs a list, the key holds {kind(text)}; use set(), or another key")
    head, _, items = text.partition("\n")
    length = int(head[1:]) + 1
    joined = f"#{length}\n{items[:-1]}{',' if length > 1 else ''}{item}]"
    check_size(joined)
    return joined, length


def plain(text: str) -> str:
    """Return a text as JSON, without the length of a list."""
    return text.partition("\n")[2] if text.startswith("#") else text


def kind(text: str) -> str:
    """Return the name of a text's JSON type."""
    names = {"#": "a list", "{": "an object", '"': "a string", "t": "a boolean", "f": "a boolean", "n": "null"}
    return names.get(text[0], "a number")


def size_of(text: str) -> int:
    """Return the bytes of a text as UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def check_size(text: str) -> None:
    """Raise unless a text is short enough.

    Raises:
        StoreValueError: It is longer than 1 MiB.
    """
    if (size := size_of(text)) > MAX_BYTES:
        raise StoreValueError(f"a value must fit in {MAX_BYTES} bytes of JSON, got {size}; keep it in parts, or a link")


def check_encodable(texts: Iterable[str]) -> None:
    """Raise unless texts can be encoded as UTF-8.

    Raises:
        StoreValueError: One holds half of a surrogate pair, for example from the name of a file.
    """
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError:
            raise StoreValueError(HALF_PAIR) from None  # the error shows the text


def _check(value: Json) -> None:
    """Refuse values that the JSON encoder would change: tuples, and keys that are no strings."""
    level, depth = [value], 0
    while level:
        inner: list[Json] = []
        for one in level:
            if isinstance(one, dict):
                if not all(isinstance(key, str) for key in one):
                    raise TypeError("a dict has a key that is no str")
                inner += one.values()
            elif isinstance(one, list):
                inner += one
            elif isinstance(one, str):
                one.encode()  # no half of a surrogate pair
            elif one is not None and not isinstance(one, bool | int | float):
                raise TypeError(f"it holds a {type(one).__name__}")
        level, depth = inner, depth + 1
        if depth > MAX_DEPTH + 1:
            raise RecursionError


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return HALF_PAIR
    if isinstance(error, RecursionError):
        return f"it is nested too deeply (more than {MAX_DEPTH} levels), or in itself"
    return str(error)

"""Arguments of every wrong kind, and how a call refuses them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import VideoFrame


class Hostile:
    """Raises for every access."""

    __hash__ = None  # type: ignore[assignment]  # it has none

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __str__ = __bool__ = __len__ = __iter__ = __eq__ = __repr__  # type: ignore[assignment]  # all raise


class OwnText(str):
    """A str with methods of its own."""

    def strip(self, *_: Any) -> str:
        raise RuntimeError("no strip")

    __str__ = __repr__ = strip


def raising() -> Iterator[Any]:
    yield VideoFrame(b"jpeg", "image/jpeg")
    raise RuntimeError("no more")


BAD: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "bytes": lambda: b"text",
    "number": lambda: 3,
    "NaN": lambda: math.nan,
    "infinite": lambda: math.inf,
    "huge": lambda: 10**400,
    "list": lambda: ["a"],
    "empty list": list,
    "dict": dict,
    "text": lambda: "no such thing",
    "empty text": lambda: "",
    "object": object,
    "class": lambda: int,
    "hostile": Hostile,
    "generator": raising,
    "true": lambda: True,
}

TEXTS = {"text", "empty text"}
FLAGS = {"true"}
FUNCTIONS = {"class"}


async def refuses(call: Callable[[], Any]) -> None:
    async def made() -> None:
        result = call()
        if inspect.iscoroutine(result):
            await result

    with pytest.raises(ConfigurationError):
        await made()

"""Callbacks of a room, for as long as somebody listens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from livekit import rtc


@contextmanager
def callbacks(room: rtc.Room, handlers: Mapping[rtc.room.EventTypes, Callable[..., Any]]) -> Iterator[None]:
    """Have the room call the handler of each event, within the block."""
    for name, handler in handlers.items():
        room.on(name, handler)
    try:
        yield
    finally:
        for name, handler in handlers.items():
            room.off(name, handler)

"""Keys: single keys of a terminal while it goes on showing things, and typed lines."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import anyio


@contextmanager
def keys(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call `on_key` with each key that is pressed; yields whether there is a keyboard at all."""
    if not sys.stdin.isatty():
        yield False
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(descriptor, 64).decode(errors="ignore"):
            on_key(key)

    tty.setcbreak(descriptor)  # Ctrl-C stays a signal
    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


async def typed_lines() -> AsyncIterator[str]:
    """Yield the lines of stdin until its end, without what is empty."""
    while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
        if line.strip():
            yield line.strip()

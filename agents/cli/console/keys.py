"""Keys: reads single keys of a terminal that shows output at the same time."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)


@contextmanager
def keys(on_key: Callable[[str], None]) -> Iterator[bool]:
    """Call `on_key` with each key that is pressed; yields whether there is a keyboard at all."""
    if sys.stdin is None or not sys.stdin.isatty():
        yield False
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            pressed = os.read(descriptor, 64)
        except OSError as error:
            logger.debug("the terminal cannot be read any more: %s", error)
            pressed = b""
        if not pressed:  # stdin has ended, and would report that again and again
            loop.remove_reader(descriptor)
        for key in pressed.decode(errors="ignore"):
            on_key(key)

    tty.setcbreak(descriptor)  # Ctrl-C stays a signal
    loop.add_reader(descriptor, read)
    try:
        yield True
    finally:
        loop.remove_reader(descriptor)
        try:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        except termios.error as error:
            logger.debug("the terminal is gone, with its mode: %s", error)

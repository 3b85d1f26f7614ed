"""Lines: reads stdin line by line, from a terminal, a pipe, a file or nothing at all.

A terminal stays in its own mode: it collects each line, allows corrections, and shows typed characters. Nothing is read
before it is asked for, and no thread reads, since a thread that waits in a read outlives the conversation.
"""

from __future__ import annotations

import logging
import os
import select
import sys

import anyio

logger = logging.getLogger(__name__)

READ_SIZE = 65536
TOGETHER_SECONDS = 0.05
"""Seconds within which nobody types two lines; pasted lines come so close together."""


class Lines:
    """The lines of a file descriptor.

    Args:
        descriptor: Read by this object only; its flags stay unchanged. None: no line comes.
        encoding: Encoding of its text.
    """

    def __init__(self, descriptor: int | None, encoding: str = "utf-8") -> None:
        self._descriptor = descriptor
        self._encoding = encoding
        self._pending = b""
        self._is_over = descriptor is None
        self.was_waiting = False
        """Whether the last line was available already when it was asked for."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person types them."""
        return self._descriptor is not None and os.isatty(self._descriptor)

    async def next(self) -> str | None:
        """Return the next line without surrounding space, or None at the end; empty lines are skipped."""
        asked = anyio.current_time()
        is_there = b"\n" in self._pending or self._has_input()
        while (line := await self._next()) is not None:
            if text := line.decode(self._encoding, errors="replace").strip():
                self.was_waiting = is_there or anyio.current_time() - asked < TOGETHER_SECONDS
                return text
        return None

    def _has_input(self) -> bool:
        if self._descriptor is None or self._is_over:
            return False
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        return bool(poll.poll(0))

    async def _next(self) -> bytes | None:
        while b"\n" not in self._pending and not self._is_over:
            data = await self._read()
            self._pending += data
            self._is_over = not data
        if not self._pending:
            return None
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    async def _read(self) -> bytes:
        """Return some bytes; none at the end of the input."""
        assert self._descriptor is not None
        while True:
            try:
                await anyio.wait_readable(self._descriptor)
            except OSError:  # a file or /dev/null: these are always ready, and cannot be waited for
                await anyio.lowlevel.checkpoint()
            try:
                return os.read(self._descriptor, READ_SIZE)
            except BlockingIOError:  # another reader took it
                continue
            except OSError as error:  # the terminal is gone, or stdin is open for writing only
                logger.warning("nothing can be typed any more: stdin cannot be read (%s)", error)
                return b""


def typed_lines() -> Lines:
    """Return the lines of stdin."""
    if sys.stdin is None:  # closed before the command began: the number may belong to another file by now
        return Lines(None)
    return Lines(sys.stdin.fileno(), sys.stdin.encoding)

"""LoopWarnings: blocks an event loop until the worker's watch has noticed it, and keeps the watch's warnings."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from vivavoce.agents.worker import loop_watch

LIMIT = 60.0
"""Seconds until the watch must have noticed a blocked loop: its thread may get a busy machine's processor late."""


class LoopWarnings(logging.Handler):
    """`with LoopWarnings.collected() as warnings:`."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self._has_come = threading.Event()

    @classmethod
    @contextmanager
    def collected(cls) -> Iterator[Self]:
        """Collect the warnings of every `LoopWatch` in this process."""
        handler = cls()
        loop_watch.logger.addHandler(handler)
        try:
            yield handler
        finally:
            loop_watch.logger.removeHandler(handler)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        self.messages.append(record.getMessage())
        self._has_come.set()

    def block(self, seconds: float) -> None:
        """Block the loop until the watch says so, and for so long after that."""
        self._has_come.clear()
        assert self._has_come.wait(LIMIT), "the watch has not noticed the blocked loop"
        threading.Event().wait(seconds)

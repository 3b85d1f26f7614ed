"""WarmTask: where replies run, one task of the session's group each, the next one's kept ready.

To start a task costs a tenth of the time in which an answer becomes audible, when the caller already waits for it;
made ahead, while nobody does, it costs a wake-up. Each task runs one reply and ends, and begins in the context in which
the lane was made: a reply's own task asks for the next one, and what hooks and providers set there ends with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from anyio.abc import TaskGroup


class WarmTask:
    """Runs replies at once.

    Args:
        group: Owns the tasks; the one that waits ends with its cancellation.
    """

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._context = copy_context()
        self._ready: _Seat | None = None

    def prepare(self) -> None:
        """Keep a task ready; called when there is time."""
        if self._ready is None:
            self._ready = _Seat()
            self._begin(self._ready.sit, "ready for the next speech")

    def start(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Run `run()` in a task of its own."""
        seat, self._ready = self._ready, None
        if seat is None:
            self._begin(run, name)
        else:
            seat.take(run, name)

    def _begin(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        def begin() -> None:
            self._group.start_soon(run, name=name)

        self._context.run(begin)


class _Seat:
    """A task that waits for what it is to run."""

    def __init__(self) -> None:
        self._is_taken = asyncio.Event()
        self._run: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._name = ""

    def take(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._run, self._name = run, name
        self._is_taken.set()

    async def sit(self) -> None:
        await self._is_taken.wait()
        assert self._run is not None
        task = asyncio.current_task()
        assert task is not None
        task.set_name(self._name)
        await self._run()

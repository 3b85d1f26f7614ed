"""WarmTask: a task that waits for the next reply, so that the reply runs at once.

Starting a task costs a tenth of the time until an answer is audible, while the caller waits; a task started before
costs only a wake-up. Each task runs one reply and ends. It begins in the context of `open()`: a reply's own task
requests the next one, and context variables that hooks and providers set there end with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from typing import Any

from vivavoce.agents.core.context import SessionContext


class WarmTask:
    """Runs replies at once, in tasks of the session's group."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._variables = Context()
        self._ready: _ReadyTask | None = None

    def open(self) -> None:
        """Let tasks begin in the context of the calling task; keep the first one ready."""
        self._variables = copy_context()
        self.prepare()

    def prepare(self) -> None:
        """Keep a task ready; called when there is time."""
        if self._ready is None:
            self._ready = _ReadyTask()
            self._begin(self._ready.run, "ready for the next speech")

    def start(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        """Run `run()` in a task of its own."""
        ready, self._ready = self._ready, None
        if ready is None:
            self._begin(run, name)
        else:
            ready.take(run, name)

    def _begin(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        def begin() -> None:
            self._session.group.start_soon(run, name=name)

        self._variables.run(begin)


class _ReadyTask:
    """A task that waits for the reply that it will run."""

    def __init__(self) -> None:
        self._is_taken = asyncio.Event()
        self._run: Callable[[], Coroutine[Any, Any, None]] | None = None
        self._name = ""

    def take(self, run: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        self._run, self._name = run, name
        self._is_taken.set()

    async def run(self) -> None:
        await self._is_taken.wait()
        assert self._run is not None
        task = asyncio.current_task()
        assert task is not None
        task.set_name(self._name)
        await self._run()

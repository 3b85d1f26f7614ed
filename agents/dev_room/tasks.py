"""The tasks of the room server: each has a name, none outlives `aclose()`.

The tasks are asyncio's, since callbacks start them: websocket handlers of aiohttp and timers of the loop run outside of
any task group, and aiortc's transports expect a plain cancellation. `TaskSet` is their one owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 1.0


class TaskSet:
    """Tasks that run beside each other: one that fails is logged and does not affect the others."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, coro: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run it to its end; only `aclose()` waits for it."""
        _ = self._add(coro, name)

    def spawn_task(self, coro: Coroutine[Any, Any, None], *, name: str) -> asyncio.Task[None]:
        """Run it, and return the task to cancel or wait for."""
        return self._add(coro, name)

    def _add(self, coro: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("task %s failed", task.get_name(), exc_info=error)

    async def aclose(self) -> None:
        """Cancel running tasks and wait for them, at most `CLOSE_LIMIT` seconds."""
        tasks = self._tasks - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            _, pending = await asyncio.wait(tasks, timeout=CLOSE_LIMIT)
            if pending:
                logger.warning("tasks did not end: %s", ", ".join(sorted(task.get_name() for task in pending)))

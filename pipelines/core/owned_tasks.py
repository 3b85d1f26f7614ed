"""OwnedTasks: the background tasks of an object without a task group of its own, such as a socket or a component."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

logger = logging.getLogger(__name__)

T = TypeVar("T")


class OwnedTasks:
    """The tasks that one object starts; that object calls `cancel()` or `finish()` before it ends.

    A task keeps the context variables of the code that starts it, so that its incidents are reported to that session.

    Args:
        owner: Name of the object for logs and for the tasks, such as `"openai socket"`.
    """

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, call: Coroutine[Any, Any, object], what: str) -> None:
        """Run `call` in a task."""
        _ = self.task(call, what)

    def task(self, call: Coroutine[Any, Any, T], what: str) -> asyncio.Task[T]:
        """Run `call` in a task, and return the task."""
        task = asyncio.get_running_loop().create_task(call, name=f"{self._owner}: {what}")
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Cancel all of them; `finish()` waits for their ends."""
        for task in self._running:
            task.cancel()

    async def finish(self, limit: float) -> None:
        """Wait for the ends of all but the calling task; one that runs on for `limit` seconds is logged and left."""
        tasks = self._running - {asyncio.current_task()}
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=limit)
        for task in late:
            logger.error("%s ignores its end and is left behind", task.get_name())

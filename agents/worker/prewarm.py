"""The parts that all jobs of a process share: loaded before its first job, closed after its last.

The packages that a worker and its jobs need are loaded in a thread as well: on the event loop, they would block it for
seconds on a busy machine.
"""

from __future__ import annotations

import logging
import math
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import anyio

from vivavoce.agents.core.threads import ThreadPool
from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import WorkerError

logger = logging.getLogger(__name__)

COMPONENT_CLOSE_LIMIT = 5.0

THREAD = "vivavoce prewarm"

WORKER_MODULES = ("aiohttp.web", "google.protobuf.json_format", "livekit.api", "livekit.protocol.agent")
"""Packages of a worker's connection, health endpoint and calls of the server."""

JOB_MODULES = ("livekit.api", "livekit.rtc", "opentelemetry.trace.propagation.tracecontext")
"""Packages of a job in a room."""


async def load_modules(names: Sequence[str]) -> None:
    """Load modules, in a thread."""
    await anyio.to_thread.run_sync(_load, names)


def _load(names: Sequence[str]) -> None:
    for name in names:
        native_threads.load(name)


class SharedParts:
    """The dict that prewarm fills, `JobContext.shared`.

    Args:
        prewarm: The application's function; None: only livekit's native library is loaded.
    """

    def __init__(self, prewarm: Callable[[dict[str, Any]], None] | None) -> None:
        self._prewarm = prewarm
        self._is_warm = False
        self.parts: dict[str, Any] = {}

    async def warm(self, limit: float = math.inf) -> None:
        """Load the parts, once; prewarm runs in a thread.

        Raises:
            WorkerError: prewarm has not returned within `limit` seconds. Its thread is left running, since no thread
                can be stopped; it does not block the end of the process.
        """
        if self._is_warm:
            return
        await load_modules(JOB_MODULES)  # here, not in the first job's answer time
        if self._prewarm is not None:
            with anyio.move_on_after(limit) as scope:
                await ThreadPool(1, name=THREAD).run(partial(self._prewarm, self.parts))
            if scope.cancelled_caught:
                logger.error("prewarm has not returned; it is at, outermost first:\n%s", _stack())
                raise WorkerError(
                    f"prewarm must return within start_limit={limit:g} s, and has not (the log has its stack): load "
                    "less in it, limit its downloads, or raise start_limit of TaskExecution"
                )
        self._is_warm = True

    async def aclose(self) -> None:
        """Close the components among the parts, and forget all parts."""
        components = {name: value for name, value in self.parts.items() if isinstance(value, Component)}
        self.parts.clear()
        self._is_warm = False
        for name, component in components.items():
            with anyio.move_on_after(COMPONENT_CLOSE_LIMIT) as scope:
                try:
                    await component.aclose()
                except Exception as error:  # noqa: BLE001 - the others are closed all the same
                    logger.error("closing shared[%r] failed: %s", name, error, exc_info=error)
            if scope.cancelled_caught:
                logger.error("closing shared[%r] took longer than %.1f s", name, COMPONENT_CLOSE_LIMIT)


def _stack() -> str:
    """Return place and function of each frame of the thread in which prewarm runs."""
    frames = sys._current_frames()
    idents = [thread.ident for thread in threading.enumerate() if thread.name.startswith(THREAD)]
    stacks = [traceback.StackSummary.extract(traceback.walk_stack(frames[one])) for one in idents if one in frames]
    return "\n".join(f"{at.filename}:{at.lineno} in {at.name}" for stack in stacks for at in reversed(stack))

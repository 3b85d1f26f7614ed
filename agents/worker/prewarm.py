"""The parts that all jobs of a process share: loaded before its first job, closed after its last.

The packages that a worker and its jobs need are loaded in a thread as well: on the event loop, they would block it for
seconds on a busy machine.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

import anyio

from vivavoce.pipelines.core.component import Component

logger = logging.getLogger(__name__)

COMPONENT_CLOSE_LIMIT = 5.0

WORKER_MODULES = ("aiohttp.web", "google.protobuf.json_format", "livekit.api", "livekit.protocol.agent")
"""Packages of a worker's connection, health endpoint and calls of the server."""

JOB_MODULES = ("livekit.api", "livekit.rtc", "opentelemetry.trace.propagation.tracecontext")
"""Packages of a job in a room."""


async def load_modules(names: Sequence[str]) -> None:
    """Load modules, in a thread."""
    await anyio.to_thread.run_sync(_load, names)


def _load(names: Sequence[str]) -> None:
    for name in names:
        importlib.import_module(name)


class SharedParts:
    """The dict that prewarm fills, `JobContext.shared`.

    Args:
        prewarm: The application's function; None: only livekit's native library is loaded.
    """

    def __init__(self, prewarm: Callable[[dict[str, Any]], None] | None) -> None:
        self._prewarm = prewarm
        self._is_warm = False
        self.parts: dict[str, Any] = {}

    async def warm(self) -> None:
        """Load the parts, once; prewarm runs in a thread."""
        if self._is_warm:
            return
        await load_modules(JOB_MODULES)  # here, not in the first job's answer time
        if self._prewarm is not None:
            await anyio.to_thread.run_sync(self._prewarm, self.parts)
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

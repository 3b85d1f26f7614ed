"""Worker: takes jobs from a LiveKit server and runs an entrypoint for each."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.telemetry.telemetry import telemetry_for
from vivavoce.agents.worker.options import WorkerOptions, credentials
from vivavoce.pipelines.core.checks import check_function, check_instance, check_text
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import WorkerError, first_error

if TYPE_CHECKING:
    from vivavoce.agents.worker.effects import WorkerStatus
    from vivavoce.agents.worker.executor import Entrypoint
    from vivavoce.agents.worker.server import WorkerServer

logger = logging.getLogger(__name__)

DEFAULT_OPTIONS = WorkerOptions()

COMPONENT_CLOSE_LIMIT = 5.0


class Worker:
    """Takes jobs from a LiveKit server; make one at the module level of an app, and `vivavoce start app.py` runs it.

    Args:
        entrypoint: Run once for each job; may return long before the job ends.
        agent_name: Only jobs dispatched to this name come here; empty: `LIVEKIT_AGENT_NAME`, and if that is empty too,
            every new room.
        options: See `WorkerOptions`.
    Raises:
        ConfigurationError: An argument has the wrong type.
    """

    def __init__(
        self, entrypoint: Entrypoint, *, agent_name: str = "", options: WorkerOptions = DEFAULT_OPTIONS
    ) -> None:
        check_function("entrypoint", entrypoint)
        check_instance("options", options, WorkerOptions)
        check_text("agent_name", agent_name)
        self._entrypoint = entrypoint
        self._agent_name = agent_name
        self._options = options
        self._shared: dict[str, Any] = {}
        self._is_warm = False
        self._server: WorkerServer | None = None
        self._over: anyio.Event | None = None
        self._health_port: int | None = None

    @property
    def agent_name(self) -> str:
        """The name that jobs are dispatched to; empty: the worker joins every new room."""
        return self._agent_name or os.environ.get("LIVEKIT_AGENT_NAME", "")

    @property
    def entrypoint(self) -> Entrypoint:
        """The given entrypoint."""
        return self._entrypoint

    @property
    def options(self) -> WorkerOptions:
        """The given options."""
        return self._options

    @property
    def shared(self) -> dict[str, Any]:
        """The dict that prewarm filled, the same for all jobs."""
        return self._shared

    @property
    def status(self) -> WorkerStatus | None:
        """The worker's state; None unless it runs."""
        return None if self._server is None else self._server.status()

    @property
    def health_port(self) -> int | None:
        """Port of the health endpoint while it is open."""
        return self._health_port

    async def prewarm(self) -> None:
        """Load the parts that every job needs, once: livekit's native library, and the results of the option
        `prewarm`.
        """
        if self._is_warm:
            return
        from livekit import api, rtc  # noqa: F401 - loaded here, not in the first job's answer time

        if self._options.prewarm is not None:
            await anyio.to_thread.run_sync(self._options.prewarm, self._shared)
        self._is_warm = True

    async def run(
        self, *, on_warm: Callable[[], None] | None = None, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Work until closed or drained; `started()` once the server has registered the worker.

        Args:
            on_warm: Called after `prewarm()`, before the worker registers.
        Raises:
            ConfigurationError: URL, key or secret are missing.
            WorkerError: It runs already, the server refused us or could not be reached (`max_retry`), or the health
                port is taken.
        """
        if self._over is not None:
            raise WorkerError("the worker runs already; make a second Worker for a second registration")
        # Imported here: code that only defines agents and a worker, to run them elsewhere, need not load the worker's
        # parts.
        from vivavoce.agents.worker.executor import TaskExecutor
        from vivavoce.agents.worker.server import WorkerServer

        account = credentials(self._options)
        telemetry, is_own = telemetry_for(self._options.telemetry)
        executor = TaskExecutor(self._entrypoint, self._options, self._shared, telemetry)
        self._over = anyio.Event()
        self._server = WorkerServer(self.agent_name, account, self._options, executor, LoopClock())
        try:
            await self._serve(self._server, on_warm, task_status)
        except BaseExceptionGroup as group:
            error = first_error(group)
            raise error from error.__cause__
        finally:
            self._server = None
            self._health_port = None
            with anyio.CancelScope(shield=True):
                await self.close_shared()
                if telemetry is not None and is_own:
                    await telemetry.aclose()
            self._over.set()
            self._over = None

    def drain(self) -> None:
        """Take no more jobs and end with the running ones, or after `drain_timeout`; no effect if it does not run."""
        if self._server is not None:
            self._server.drain()

    def stop(self) -> None:
        """End the running jobs, then the worker; without effect if it does not run."""
        if self._server is not None:
            self._server.stop()

    async def aclose(self, *, drain: bool = False) -> None:
        """End the worker and wait for it; idempotent.

        Args:
            drain: Whether running jobs may continue for `drain_timeout`; a second call with False ends them then.
        """
        over = self._over
        if over is None:
            return
        if drain:
            self.drain()
        else:
            self.stop()
        await over.wait()

    async def _serve(
        self, server: WorkerServer, on_warm: Callable[[], None] | None, task_status: TaskStatus[None]
    ) -> None:
        options = self._options
        async with anyio.create_task_group() as tasks:
            if options.health_port is not None:
                from vivavoce.agents.worker.health import serve_health

                host, port = options.health_host, options.health_port
                self._health_port = await tasks.start(serve_health, server.status, host, port)
            await self.prewarm()
            if on_warm is not None:
                on_warm()
            await server.run(task_status=task_status)
            tasks.cancel_scope.cancel()

    async def close_shared(self) -> None:
        """Close the components that prewarm made; `run` does so at its end."""
        components = {name: value for name, value in self._shared.items() if isinstance(value, Component)}
        self._shared.clear()
        self._is_warm = False
        for name, component in components.items():
            with anyio.move_on_after(COMPONENT_CLOSE_LIMIT) as scope:
                try:
                    await component.aclose()
                except Exception as error:  # noqa: BLE001 - the others are closed all the same
                    logger.error("closing shared[%r] failed: %s", name, error, exc_info=error)
            if scope.cancelled_caught:
                logger.error("closing shared[%r] took longer than %.1f s", name, COMPONENT_CLOSE_LIMIT)

"""Worker: takes jobs from a LiveKit server and runs an entrypoint for each."""

from __future__ import annotations

import inspect
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.telemetry.destination import telemetry_for
from vivavoce.agents.telemetry.metrics.figures import Figure, figures_of, sum_of
from vivavoce.agents.worker.crash_safety import close_store
from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
from vivavoce.agents.worker.loop_watch import LoopWatch
from vivavoce.agents.worker.options import WorkerOptions, credentials
from vivavoce.agents.worker.prewarm import WORKER_MODULES, SharedParts, load_modules
from vivavoce.pipelines.core.checks import check_instance, check_text, shown
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError, first_error

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    from vivavoce.agents.telemetry.telemetry import TelemetryControl
    from vivavoce.agents.worker.effects import WorkerStatus
    from vivavoce.agents.worker.executors.executor import Entrypoint, JobExecutor
    from vivavoce.agents.worker.executors.nursery_process import NurseryProcess
    from vivavoce.agents.worker.server import WorkerServer

logger = logging.getLogger(__name__)

DEFAULT_OPTIONS = WorkerOptions()


class Worker:
    """Takes jobs from a LiveKit server; make one at the module level of an app, and `vivavoce start app.py` runs it.

    Args:
        entrypoint: Run once for each job; may return long before the job ends.
        agent_name: Only jobs dispatched to this name come here; empty: `LIVEKIT_AGENT_NAME`, and if that is empty too,
            every new room that requests no agent by name.
        options: See `WorkerOptions`.
    Raises:
        ConfigurationError: An argument has the wrong type, or the entrypoint is no async function of one argument.
    """

    def __init__(
        self, entrypoint: Entrypoint, *, agent_name: str = "", options: WorkerOptions = DEFAULT_OPTIONS
    ) -> None:
        _check_entrypoint(entrypoint)
        check_instance("options", options, WorkerOptions)
        check_text("agent_name", agent_name)
        self._entrypoint = entrypoint
        self._agent_name = agent_name
        self._options = options
        self._parts = SharedParts(options.prewarm)
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
        """The dict that prewarm filled, the same for all jobs; empty if they run in processes of their own."""
        return self._parts.parts

    @property
    def status(self) -> WorkerStatus | None:
        """The worker's state; None unless it runs."""
        return None if self._server is None else self._server.status()

    @property
    def health_port(self) -> int | None:
        """Port of the health endpoint while it is open."""
        return self._health_port

    async def run(
        self,
        *,
        on_warm: Callable[[], None] | None = None,
        nursery: NurseryProcess | None = None,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Work until closed or drained; `started()` once the server has registered the worker.

        Args:
            on_warm: Called after the option `prewarm` has run, before the worker registers.
            nursery: The process that is to make the job processes, if the command has started it already; it is ended
                if there are to be none.
        Raises:
            ConfigurationError: URL, key or secret are missing, entrypoint or options cannot be sent to other processes,
                or the store of `crash_safety` can never be used, for example for a wrong password.
            WorkerError: It runs already, the server refused us or could not be reached (`max_retry`), the health port
                is taken, prewarm does not return, or the first job processes cannot be made ready.
        """
        if self._over is not None:
            raise WorkerError("the worker runs already; make a second Worker for a second registration")
        # Imported here: code that only defines agents and a worker, to run them elsewhere, need not load the worker's
        # parts.
        from vivavoce.agents.worker.metrics import metric_reader
        from vivavoce.agents.worker.server import WorkerServer

        account = credentials(self._options)
        telemetry, is_own, reader = None, False, None
        if not self._has_processes:  # each of them has its own
            reader = metric_reader(self._options)
            telemetry, is_own = telemetry_for(self._options.telemetry, reader)
        executor = self._executor(telemetry, nursery)
        self._over = anyio.Event()
        self._server = WorkerServer(self.agent_name, account, self._options, executor, LoopClock())
        try:
            await self._serve(self._server, reader, on_warm, task_status)
        except BaseExceptionGroup as group:
            error = first_error(group)
            raise error from error.__cause__
        finally:
            self._server = None
            self._health_port = None
            with anyio.CancelScope(shield=True):
                await self._parts.aclose()
                if telemetry is not None and is_own:
                    await telemetry.aclose()
                await close_store(self._options.crash_safety)
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
        self,
        server: WorkerServer,
        reader: InMemoryMetricReader | None,
        on_warm: Callable[[], None] | None,
        task_status: TaskStatus[None],
    ) -> None:
        options = self._options
        await load_modules(WORKER_MODULES)
        async with anyio.create_task_group() as tasks:
            if options.health_port is not None:
                from vivavoce.agents.worker.health import serve_health

                host, port = options.health_host, options.health_port
                figures = partial(_all_figures, server, reader)
                self._health_port = await tasks.start(serve_health, server.state, figures, host, port)
            if isinstance(options.executor, TaskExecution):
                await self._parts.warm(options.executor.start_limit)
            if on_warm is not None:
                on_warm()
            if self._has_processes and options.block_limit is not None:  # else the executor watches this loop
                tasks.start_soon(LoopWatch(options.block_limit, lambda blockage: None).run)
            await server.run(task_status=task_status)
            tasks.cancel_scope.cancel()

    @property
    def _has_processes(self) -> bool:
        return isinstance(self._options.executor, ProcessExecution)

    def _executor(self, telemetry: TelemetryControl | None, nursery: NurseryProcess | None) -> JobExecutor:
        execution = self._options.executor
        if isinstance(execution, ProcessExecution):
            from vivavoce.agents.worker.executors.process import ProcessExecutor

            return ProcessExecutor(self._entrypoint, self._options, execution, nursery)
        from vivavoce.agents.worker.executors.task import TaskExecutor

        if nursery is not None:
            nursery.close()
        return TaskExecutor(self._entrypoint, self._options, self._parts.parts, telemetry)


def shared_parts(worker: Worker) -> SharedParts:
    """Return the parts that the jobs of that worker share, for commands that run its jobs themselves."""
    return worker._parts


def _check_entrypoint(entrypoint: object) -> None:
    """Refuse a function that could not be run for a job: it would fail in the middle of a call."""
    function = inspect.unwrap(entrypoint) if callable(entrypoint) else entrypoint
    is_async = any(inspect.iscoroutinefunction(code) for code in (function, type(function).__call__))
    if not callable(entrypoint) or not is_async or inspect.isclass(entrypoint):
        raise ConfigurationError(
            f"the entrypoint must be an async function of one argument, got {shown(entrypoint)}; "
            "write `async def entrypoint(ctx)`"
        )
    signature = inspect.signature(entrypoint)
    try:
        signature.bind(None)
    except TypeError:
        raise ConfigurationError(
            f"the entrypoint must take one argument, the JobContext, got {shown(entrypoint)} with {signature}"
        ) from None


def _all_figures(server: WorkerServer, reader: InMemoryMetricReader | None) -> tuple[Figure, ...]:
    return sum_of([figures_of(reader) if reader is not None else (), server.figures()])

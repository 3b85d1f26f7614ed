"""Calls: a job of the app for each media stream, until the server drains or stops."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.job import JobInfo
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.transports.media_stream.transport import MediaSocket, MediaStreamTransport
from vivavoce.agents.transports.media_stream.wire import MediaWire, Started
from vivavoce.agents.worker.effects import WorkerCounts, WorkerStatus
from vivavoce.agents.worker.load import MeasuredLoad
from vivavoce.agents.worker.metrics import WorkerState
from vivavoce.agents.worker.run import JobRun
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Telephone:
    """The caller as a job's participant, with the attributes that apps use."""

    identity: str
    name: str
    sid: str
    metadata: str
    attributes: dict[str, str]


class CallJob(ConsoleJob):
    """The job of one call."""

    def __init__(
        self, job: JobInfo, transport: MediaStreamTransport, *, shared: dict[str, Any], tasks: TaskGroup
    ) -> None:
        super().__init__(job, transport, shared=shared, tasks=tasks)
        self._call, self._caller = transport.call, transport.caller

    async def participant(self, identity: str | None, kind: int | None) -> Any:
        """Return the caller."""
        call, who = self._call, self._caller.identity
        return Telephone(who, who, call.stream_id or call.call_id, "", dict(call.parameters))


class Calls:
    """The running calls of a server.

    Args:
        worker: Supplies entrypoint, options and prewarmed components; the worker itself does not run.
        limit: Calls at a time.
        tasks: Task group of everything that the jobs start.
        telemetry: Destination of the spans of the jobs.
    """

    def __init__(
        self, worker: Worker, clock: Clock, *, limit: int, tasks: TaskGroup, telemetry: TelemetryControl | None = None
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._limit = limit
        self._tasks = tasks
        self._telemetry = telemetry
        self._options = replace(worker.options, crash_safety=None)  # no worker could dispatch the call again
        self._runs: dict[str, tuple[JobInfo, JobRun]] = {}
        self._is_draining = False
        self.is_stopped = False
        """Whether the running calls were ended, and no admitted one may begin."""
        self._succeeded = self._failed = 0
        self._changed = anyio.Event()

    @property
    def count(self) -> int:
        """The running calls."""
        return len(self._runs)

    @property
    def takes_calls(self) -> bool:
        """Whether another call may come."""
        return self.has_room(0)

    def has_room(self, waiting: int) -> bool:
        """Return whether another call may come beside so many that were answered and whose streams will come."""
        return not self._is_draining and len(self._runs) + waiting < self._limit

    def why_full(self, waiting: int) -> str:
        """Return why no call is taken, for the log."""
        if self._is_draining:
            return "the server is ending"
        return f"of at most {self._limit} calls, {self.count} are running and {waiting} are about to begin"

    async def hold(self, socket: MediaSocket, wire: MediaWire, call: Started) -> None:
        """Run the job of a call to its end; its failure is logged, and the other calls go on."""
        transport = MediaStreamTransport(socket, wire, call, self._clock)
        job = JobInfo(id=new_id("job"), room=call.call_id or new_id("call"), agent_name=self._worker.agent_name)
        control = CallJob(job, transport, shared=self._worker.shared, tasks=self._tasks)
        run = JobRun(control, self._worker.entrypoint, self._options, self._tasks, self._telemetry)
        self._runs[job.id] = job, run
        try:
            await run.run()
        finally:
            del self._runs[job.id]
            self._changed.set()
            self._changed = anyio.Event()
            with anyio.CancelScope(shield=True):
                await transport.aclose()
        if run.error:
            self._failed += 1
        else:
            self._succeeded += 1

    def drain(self) -> None:
        """Take no more calls."""
        self._is_draining = True

    def stop(self, reason: str, *, is_forced: bool = False) -> None:
        """End the running calls."""
        self._is_draining = self.is_stopped = True
        for _, run in list(self._runs.values()):
            run.end(reason, is_forced=is_forced)

    async def wait_over(self) -> None:
        """Wait until there is no call."""
        while self._runs:
            await self._changed.wait()

    def state(self) -> WorkerState:
        """Return the state for health checks and metrics."""
        status = WorkerStatus(
            agent_name=self._worker.agent_name,
            worker_id="serve",
            is_registered=True,
            is_draining=self._is_draining,
            failure="",
            max_jobs=self._limit,
            load=len(self._runs) / self._limit,
            active_jobs=tuple(job for job, _ in self._runs.values()),
            counts=WorkerCounts(succeeded=self._succeeded, failed=self._failed),
            takes_jobs=self.takes_calls,
        )
        return WorkerState(status=status, measured=MeasuredLoad(), processes=())

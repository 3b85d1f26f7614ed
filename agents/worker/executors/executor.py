"""The port of a worker's jobs: runs each job somewhere and reports its end; the facts of the processes that it uses."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.job import JobContext
from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.protocol import JobAssigned

Entrypoint = Callable[[JobContext], Awaitable[None]]

OnEnded = Callable[[JobEnded], None]
"""Called with the end of a job."""


OnState = Callable[[ExecutorChanged], None]
"""Called when the state has changed; the first one is ready."""


def ignored(state: ExecutorChanged) -> None:
    """An `OnState` for owners that take no jobs from a server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """The state of a process that runs jobs, as last measured.

    Args:
        pid: Its process id.
        jobs: Number of jobs in it.
        cpu_time: Seconds of CPU that it has used since its start.
        memory: Bytes of memory that it holds: its own, and its share of the pages that it shares with others (PSS).
        loop_delay: Longest delay of its event loop in the last seconds, in seconds.
    """

    pid: int
    jobs: int
    cpu_time: float
    memory: int
    loop_delay: float


class JobExecutor(ABC):
    """Runs jobs beside each other: a failing one does not affect others. Calls never wait; the end of a job is
    reported.
    """

    @abstractmethod
    async def run(
        self, on_ended: OnEnded, on_state: OnState = ignored, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        """Own the jobs until cancelled; jobs that still run then only leave their rooms.

        Raises:
            WorkerError: Jobs cannot be run here.
        """

    @abstractmethod
    def start(self, assigned: JobAssigned, url: str) -> None:
        """Run a job; `url` is where its room is. Its end is reported exactly once."""

    @abstractmethod
    def end(self, job_id: str, reason: str, *, is_forced: bool) -> None:
        """End a job if it still runs; `is_forced` gives its entrypoint no time to return by itself."""

    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of the sessions in processes other than the worker's own, those that have ended
        included.
        """
        return ()

    @abstractmethod
    def facts(self) -> tuple[ProcessFacts, ...]:
        """Return the facts of each process that can run jobs."""

"""Inputs and effects of the pool of job processes: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.protocol import JobAssigned


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBegun:
    """Make the first processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessWarm:
    """A process can take jobs."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUpFailed:
    """A process could not be prepared for jobs; it ends by itself."""

    number: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatReceived:
    """The event loop of a process runs."""

    number: int
    facts: ProcessFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class JobGiven:
    """Run a job in a process, as soon as one can take it."""

    assigned: JobAssigned
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEndRequested:
    """End a job if it still runs."""

    job_id: str
    reason: str
    is_forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOver:
    """A process reports the end of one of its jobs."""

    number: int
    ended: JobEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnded:
    """A process is over; comes exactly once for each `MakeProcess`.

    Args:
        cause: A predicate, such as "exited with status 3".
    """

    number: int
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolEndRequested:
    """End all processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDeadlinePassed:
    """`next_deadline()` has come."""


PoolInput = (
    PoolBegun
    | ProcessWarm
    | WarmUpFailed
    | HeartbeatReceived
    | JobGiven
    | JobEndRequested
    | JobOver
    | ProcessEnded
    | PoolEndRequested
    | PoolDeadlinePassed
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeProcess:
    """Make a process and report `ProcessWarm`, `WarmUpFailed` or `ProcessEnded`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveJob:
    """Run a job in that process."""

    number: int
    assigned: JobAssigned
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJobIn:
    """End a job in that process."""

    number: int
    job_id: str
    reason: str
    is_forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndProcessGently:
    """Have a process leave its rooms and end."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KillProcess:
    """End a process at once; with `shows_stacks`, log first where its threads are."""

    number: int
    shows_stacks: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportJob:
    """Report the end of a job to the worker."""

    ended: JobEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportState:
    """Report to the worker whether jobs can be taken."""

    state: ExecutorChanged


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPoolReady:
    """All first processes are warm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPoolFailed:
    """The first processes cannot be made."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTrouble:
    """Write a line to the log."""

    text: str
    is_error: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishPool:
    """All processes are over."""


PoolEffect = (
    MakeProcess
    | GiveJob
    | EndJobIn
    | EndProcessGently
    | KillProcess
    | ReportJob
    | ReportState
    | ReportPoolReady
    | ReportPoolFailed
    | ReportTrouble
    | FinishPool
)

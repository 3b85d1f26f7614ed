"""Inputs and effects of the pool of job processes: plain values."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.executors.messages import EndJob, RunJob, ToPool, ToProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolBegun:
    """Make the first processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """A process has sent a message. The application's failure to load for it is a `WarmFailed` too."""

    number: int
    message: ToPool


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


PoolInput = PoolBegun | RunJob | EndJob | MessageReceived | ProcessEnded | PoolEndRequested | PoolDeadlinePassed
"""The pool sends a `RunJob` to a process that can take it, and an `EndJob` to the process that runs the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeProcess:
    """Make a process and report `MessageReceived` and `ProcessEnded`."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send a message to that process."""

    number: int
    message: ToProcess


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
    | Send
    | KillProcess
    | ReportJob
    | ReportState
    | ReportPoolReady
    | ReportPoolFailed
    | ReportTrouble
    | FinishPool
)

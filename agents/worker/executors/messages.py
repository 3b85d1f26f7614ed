"""Messages between a worker, its nursery and its job processes: plain values, which `ipc` sends."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.executors.parcel import Parcel
from vivavoce.agents.worker.protocol import JobAssigned

# The worker to its nursery


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Get ready to fork: first message.

    Args:
        parcel: The application; each process unpacks it after the fork if `is_shared` is false.
        is_shared: Whether to load the application here, once for all processes.
        stop_limit: Seconds that the processes have for their end when the worker is gone.
    """

    parcel: Parcel = field(repr=False)
    is_shared: bool
    stop_limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Make a process; the handles of its connection and of the file for its stacks follow."""

    number: int


# The nursery to its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The nursery can fork.

    Args:
        threads: Threads that the application has started while it was loaded; forking is not safe if there are any.
    """

    threads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailed:
    """The application could not be loaded.

    Args:
        traceback: For the log; empty for an error that speaks for itself.
    """

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A process was made."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A process is over; a negative `exit_code` is the number of a signal."""

    number: int
    exit_code: int


# The worker to a job process


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Run a job; `url` is where its room is."""

    assigned: JobAssigned
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """End a job if it still runs."""

    job_id: str
    reason: str
    is_forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndProcess:
    """Leave the rooms of all jobs, then end."""


ToProcess = RunJob | EndJob | EndProcess

# A job process to its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """Prewarm has returned: jobs may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFailed:
    """Prewarm, or loading the application, has failed; the process ends.

    Args:
        error: A predicate, such as "could not be prepared for jobs: …".
    """

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The event loop runs."""

    facts: ProcessFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of the sessions in the process, so far."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A log record for the worker's handlers."""

    record: logging.LogRecord = field(repr=False)


ToPool = Warm | WarmFailed | Heartbeat | JobEnded
"""The messages by which the pool decides."""

ToWorker = ToPool | Figures | Logged

"""Inputs and effects of the worker's supervisor: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.protocol import JobAssigned, ServerMessage, WorkerMessage
from vivavoce.agents.worker.request import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The worker is ready to take jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """The websocket is open; the server does not know us yet."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageReceived:
    """The server sent a message."""

    connection: int
    message: ServerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionLost:
    """A connection failed, was lost or is closed; comes exactly once for each `Connect`.

    Args:
        is_refused: Whether the server refused our credentials.
    """

    connection: int
    reason: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDecided:
    """The user's request handler has decided about an offered job."""

    job_id: str
    decision: Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnded:
    """A started job is over; comes exactly once for each `StartJob`.

    Args:
        error: Why it failed; empty if it succeeded.
        is_process_lost: Whether its process ended before it: the job did not leave its room, and its call may go on
            with another agent.
        is_replaced: Whether another agent with its identity took its place in the room: the call goes on there.
    """

    job_id: str
    error: str = ""
    is_process_lost: bool = False
    is_replaced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CallClaimed:
    """This worker dispatches a call again whose process has died; only it can read the call's record.

    Args:
        participant: The participant that the call's job is for; empty for a job of the room. A server makes a job for
            each participant of the room, of which one continues the call.
    """

    lease: str
    participant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallLeft:
    """A call whose process died does not go on here: it is over, or another worker has it."""

    lease: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorChanged:
    """The executor can take jobs from now on, or no more.

    Args:
        is_ready: Whether a job that is given now begins at once.
        is_full: Whether it would not, since each process that runs has as many jobs as it may.
        failure: Why no job can be taken although the executor keeps trying; empty if one can, or soon.
    """

    is_ready: bool
    is_full: bool = False
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequested:
    """The worker is to run a job that it gives itself, if it has a free slot or the job continues a lost call of its
    own.
    """

    assigned: JobAssigned


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMeasured:
    """The worker's load, 0 to 1: the user's function's, or that of its CPU, memory and event loops."""

    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainRequested:
    """Take no more jobs, let the running ones finish, then end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested:
    """End the running jobs, then end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """`next_deadline()` has come."""


Input = (
    Started
    | Connected
    | MessageReceived
    | ConnectionLost
    | JobDecided
    | JobEnded
    | CallClaimed
    | CallLeft
    | JoinRequested
    | ExecutorChanged
    | LoadMeasured
    | DrainRequested
    | StopRequested
    | DeadlinePassed
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Open a connection and report `Connected` or `ConnectionLost`."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Disconnect:
    """Send the queued messages, close the connection, and report `ConnectionLost`."""

    connection: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Queue a message on a connection."""

    connection: int
    message: WorkerMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class AskHandler:
    """Ask the user's request handler about an offered job and report `JobDecided`; its slot is reserved."""

    job: JobInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StartJob:
    """Run a job and report `JobEnded`."""

    assigned: JobAssigned


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """End a running job; `is_forced` gives its entrypoint no time to return by itself."""

    job_id: str
    reason: str
    is_forced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRegistered:
    """Report to the log that the server has registered this worker."""

    worker_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRetry:
    """Report to the log that the connection is lost and that the next try follows after `delay` seconds."""

    reason: str
    delay: float
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportDraining:
    """Report to the log that the worker takes no more jobs and that running ones may continue for `limit` seconds."""

    job_count: int
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRefusal:
    """Report to the log that an assignment starts no job, and why."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The worker is done; with an error text it has failed."""

    error: str = ""


Effect = (
    Connect
    | Disconnect
    | Send
    | AskHandler
    | StartJob
    | EndJob
    | ReportRegistered
    | ReportRetry
    | ReportDraining
    | ReportRefusal
    | Finish
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCounts:
    """Counts since the worker's start."""

    accepted: int = 0
    rejected: int = 0
    succeeded: int = 0
    failed: int = 0
    connections_lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """The worker's state, for health checks and people."""

    agent_name: str
    worker_id: str
    is_registered: bool
    is_draining: bool
    failure: str
    max_jobs: int
    load: float
    active_jobs: tuple[JobInfo, ...] = field(repr=False)
    counts: WorkerCounts = WorkerCounts()
    can_run_jobs: bool = True
    """Whether there is a process that can run jobs, full or not; not before the first one is warm."""
    takes_jobs: bool = True
    """Whether the worker takes a job that it is offered now, if its handler does."""
    lost_calls: tuple[str, ...] = ()
    """Leases of the calls whose processes have died, and that are to go on here, without a dispatch; it drains."""

    @property
    def is_healthy(self) -> bool:
        """Whether the worker has been registered and has not failed; a worker that reconnects keeps its calls, so it is
        healthy.
        """
        return bool(self.worker_id) and not self.failure

    @property
    def is_ready(self) -> bool:
        """Whether the server can give jobs to the worker. A full worker is ready: its calls are its work."""
        return self.is_registered and self.can_run_jobs and not self.is_draining and not self.failure

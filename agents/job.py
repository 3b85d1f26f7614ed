"""The job of the running code, for sessions and user code: the contract, its facts, how to find it.

The worker sets the current job; a session only reads it. A context variable carries it, so every task started from an
entrypoint sees the entrypoint's own job, however many run in one process.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vivavoce.agents.records import CloseReport
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from livekit import rtc

CloseCall = Callable[[str], Awaitable[None]]
"""Closes one session; its argument says why the job ended. The caller sets a limit."""

WaitForClose = Callable[[], Awaitable[CloseReport]]
"""Waits until one session and its handlers of `closed` are over, and returns the report of its close."""

ShutdownCallback = Callable[[str], Awaitable[None] | None] | Callable[[], Awaitable[None] | None]
"""Run when a job has ended; may take the reason as its one argument."""


Conversation = Mapping[str, Any]
"""The value of `AgentSession.snapshot()`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Address of a LiveKit server, and the key and secret for it."""

    url: str
    """With scheme ws or wss, without a trailing slash."""
    api_key: str
    api_secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInfo:
    """Facts of a job, as the server sent them.

    Args:
        id: For example `"AJ_…"`.
        room: The room's name.
        agent_name: The name the job was dispatched to; empty for automatic dispatch.
        metadata: The dispatcher's metadata, unchanged.
        dispatch_id: The dispatch that made the job; empty if the server names none.
        room_metadata: The room's own metadata.
        participant_identity: The participant of the job, if it is for one; else empty.
        attributes: The dispatcher's keys and values.
    """

    id: str
    room: str
    agent_name: str = ""
    metadata: str = field(default="", repr=False)
    dispatch_id: str = ""
    room_metadata: str = field(default="", repr=False)
    participant_identity: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)


class CurrentJob(Protocol):
    """A running job."""

    @property
    def job(self) -> JobInfo:
        """Facts of the job, as the server sent them."""
        ...

    @property
    def room(self) -> rtc.Room:
        """The job's room, made on first use and joined by `connect()`."""
        ...

    @property
    def shared(self) -> dict[str, Any]:
        """The dict that the worker's prewarm filled, one for all jobs of the process."""
        ...

    @property
    def reason(self) -> str:
        """Why the job has ended; empty while it runs."""
        ...

    @property
    def credentials(self) -> Credentials | None:
        """For the server's API; None if the worker has no key."""
        ...

    async def connect(self, *, auto_subscribe: bool = True) -> None:
        """Join the room; a second call returns at once.

        Raises:
            RoomError: Joining failed or took too long.
            WorkerError: The job has ended.
        """
        ...

    async def wait_for_participant(
        self, identity: str | None = None, *, kind: rtc.ParticipantKind.ValueType | None = None, limit: float = 60.0
    ) -> rtc.RemoteParticipant:
        """Join the room if necessary and wait for a participant."""
        ...

    def attach_session(self, close: CloseCall) -> None:
        """Register `close`: the job's end calls `close(reason)` before the shutdown callbacks and before leaving the
        room.

        Raises:
            WorkerError: The job has ended; close what was started.
        """
        ...

    def session_begins(self, wait_closed: WaitForClose) -> None:
        """Count a session that starts now: the end of the last one ends the job, unless a new session continues its
        conversation.
        """
        ...

    def add_shutdown_callback(self, callback: ShutdownCallback) -> None:
        """Register `callback`: it is called when the job has ended and its sessions are closed.

        The agent is still in the room then, unless the job ended with its last session.
        """
        ...

    def shutdown(self, reason: str = "") -> None:
        """End the job; without effect if it has ended."""
        ...


class SessionWatch(Protocol):
    """Follows sessions from outside of the code that starts them, as `vivavoce dev` does."""

    @property
    def publishes_turns(self) -> bool:
        """Whether sessions send their turn records to the caller, in spite of their room options."""
        ...

    def session_begins(self, session: Any) -> None:
        """A session is about to start; listen to it now to miss nothing."""
        ...

    @property
    def has_conversation(self) -> bool:
        """Whether the next session continues the conversation of another one, instead of greeting."""
        ...

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        """Return that conversation, once its old session has released it; None: there is none after all.

        The new session has opened its pipeline and published its track by then, and hears nothing.

        Args:
            check: Raises if the new session cannot continue the conversation; called while the old one still can.
        """
        ...


_current: ContextVar[CurrentJob] = ContextVar("vivavoce_job")
_watch: ContextVar[SessionWatch | None] = ContextVar("vivavoce_watch", default=None)


def get_job_context() -> CurrentJob:
    """Return the job that the calling code runs in.

    Raises:
        ConfigurationError: The caller does not run in a job.
    """
    try:
        return _current.get()
    except LookupError:
        raise ConfigurationError(
            "needed a job, but this code runs in none: call it from a worker's entrypoint, or pass the room "
            "(`session.start(room)`)"
        ) from None


def current_job() -> CurrentJob | None:
    """Return the job that the calling code runs in, if it runs in one."""
    return _current.get(None)


def server_credentials() -> Credentials | None:
    """Return the credentials for the API of the calling code's server; None if a part is missing.

    In a job they are the job's, else those of the environment.
    """
    job = current_job()
    if job is not None and job.credentials is not None:
        return job.credentials
    url, api_key, api_secret = (os.environ.get(f"LIVEKIT_{name}", "") for name in ("URL", "API_KEY", "API_SECRET"))
    return Credentials(url=url, api_key=api_key, api_secret=api_secret) if url and api_key and api_secret else None


def has_job_ended() -> bool:
    """Return whether the calling code runs in a job that has ended."""
    job = current_job()
    return job is not None and bool(job.reason)


@contextmanager
def job_scope(job: CurrentJob) -> Iterator[None]:
    """Make `job` the current one for this context and for the tasks started from it."""
    token = _current.set(job)
    try:
        yield
    finally:
        _current.reset(token)


def current_watch() -> SessionWatch | None:
    """Return the watch over sessions that the calling code starts, if there is one."""
    return _watch.get()


@contextmanager
def watch_scope(watch: SessionWatch) -> Iterator[None]:
    """Have `watch` follow the sessions that are started in this context and in the tasks started from it."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)

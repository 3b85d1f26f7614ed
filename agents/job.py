"""A job: its facts, JobContext for applications, JobControl for the worker and sessions."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import anyio
import anyio.lowlevel

from vivavoce.agents.records import CloseReport
from vivavoce.agents.server_access import TOKEN_TTL, Credentials, ServerAccess
from vivavoce.agents.session_watch import Conversation
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.checks import check_flag, check_function, check_number, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, WorkerError
from vivavoce.pipelines.core.owned_call import OwnedCall

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from livekit import rtc
    from livekit.api import LiveKitAPI, VideoGrants

    from vivavoce.pipelines.io import CallerInfo

PARTICIPANT_LIMIT = 60.0

NEXT_SESSION_STEPS = 3
"""Steps of the loop in which code may start the next session, after the end of a session or of the entrypoint."""

CloseCall = Callable[[str], Awaitable[None]]
"""Closes one session; its argument says why the job ended. The caller sets a limit."""

WaitForClose = Callable[[], Awaitable[CloseReport]]
"""Waits until one session and its handlers of `closed` are over, and returns the report of its close."""

ShutdownCallback = Callable[[str], Awaitable[None] | None] | Callable[[], Awaitable[None] | None]
"""Run when a job has ended; may take the reason as its one argument."""

FAILURE = "vivavoce.error"
"""Attribute of an agent in its room: the error of its code, under development."""

JobType = Literal["room", "publisher", "participant"]
"""The thing that a job is made for: a room, a participant that publishes a track, or a participant that joins."""


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
        type: The thing that the job is made for.
        heals: The first dispatch of the call, if another dispatch was made in its place; else empty.
        resumes: The lease of the call that the job continues after a crash; else empty.
    """

    id: str
    room: str
    agent_name: str = ""
    metadata: str = field(default="", repr=False)
    dispatch_id: str = ""
    room_metadata: str = field(default="", repr=False)
    participant_identity: str = ""
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    type: JobType = "room"
    heals: str = ""
    resumes: str = ""


class JobContext:
    """A running job: its room, its facts, its end. The worker makes one for each job."""

    def __init__(self, control: JobControl) -> None:
        self._control = control

    @property
    def job(self) -> JobInfo:
        """Facts of the job, as the server sent them."""
        return self._control.job

    @property
    def room(self) -> rtc.Room:
        """The job's room, made on first use and joined by `connect()`."""
        return self._control.room

    @property
    def shared(self) -> dict[str, Any]:
        """The dict that the worker's prewarm filled, one for all jobs of the process."""
        return self._control.shared

    @property
    def reason(self) -> str:
        """Why the job has ended; empty while it runs."""
        return self._control.reason

    @property
    def api(self) -> LiveKitAPI:
        """The client of the server API (rooms, SIP, dispatches, egress), for the job's server.

        It is made on first use, on the event loop, and closed at the job's end, after the shutdown callbacks.

        Raises:
            ConfigurationError: The job has no server, or no key for it.
            WorkerError: The job has ended, and its callbacks too.
        """
        return self._control.server.api()

    def participant_token(
        self,
        identity: str,
        *,
        name: str = "",
        metadata: str = "",
        attributes: Mapping[str, str] | None = None,
        grants: VideoGrants | None = None,
        ttl: float = TOKEN_TTL,
    ) -> str:
        """Return a token with which a participant joins the job's room, such as a browser or a second caller.

        Args:
            identity: Identity of the participant; one that is in the room already is replaced.
            name: Its name, for display.
            metadata: Its metadata.
            attributes: Its attributes.
            grants: Its permissions; `room` and `room_join` are set here. None: publish, subscribe and send data.
            ttl: Seconds for which the token lets the participant join.
        Raises:
            ConfigurationError: An argument has the wrong type, the grants name another room, or the job has no server
                or no key for it.
        """
        for label, text in (("identity", identity), ("name", name), ("metadata", metadata)):
            check_text(label, text)
        check_number("ttl", ttl, above=0, unit="s")
        if not isinstance(attributes, Mapping | None):
            raise ConfigurationError(f"attributes must be a mapping of texts, got {shown(attributes)}")
        return self._control.server.participant_token(
            identity, name=name, metadata=metadata, attributes=attributes or {}, grants=grants, ttl=ttl
        )

    @property
    def caller(self) -> CallerInfo | None:
        """The caller of the job as the line names them: number, called number, parameters, line.

        None as long as there is none; in a room, await `wait_for_participant()` first.
        """
        return self._control.caller

    @property
    def resume_from(self) -> Conversation | None:
        """The conversation that this job continues after a crash, for `session.start(resume_from=...)`; else None.

        `session.start()` continues it by itself, unless `CrashSafety(resumes=False)`.
        """
        return self._control.resume_from

    async def connect(self, *, auto_subscribe: bool = True) -> None:
        """Join the room; a second call returns at once. Cancelling the caller does not cancel the joining.

        Raises:
            RoomError: Joining failed or took longer than 15 s.
            WorkerError: The job has ended.
        """
        check_flag("auto_subscribe", auto_subscribe)
        await self._control.connect(auto_subscribe)

    async def wait_for_participant(
        self,
        identity: str | None = None,
        *,
        kind: rtc.ParticipantKind.ValueType | None = None,
        limit: float = PARTICIPANT_LIMIT,
    ) -> rtc.RemoteParticipant:
        """Join the room if necessary and return the first matching participant.

        Args:
            identity: Identity of the participant; None: the participant of the job if it is for one and no `kind` is
                given, else any.
            kind: For example `rtc.ParticipantKind.PARTICIPANT_KIND_SIP`; None: any kind, but agents only by identity.
            limit: Seconds to wait after joining.
        Raises:
            ConfigurationError: An argument has the wrong type.
            RoomError: Joining failed, or no such participant came within the limit.
            WorkerError: The job has ended.
        """
        if identity is not None:
            check_text("identity", identity)
        check_whole("kind", kind, at_least=0, or_none=True, remedy="pass one of rtc.ParticipantKind")
        check_number("limit", limit, at_least=0, unit="s")
        await self.connect()
        if identity is None and kind is None:
            identity = self.job.participant_identity or None
        with anyio.move_on_after(limit):
            return await self._control.participant(identity, kind)
        whom = "a participant" if identity is None else f"the participant {identity!r}"
        raise RoomError(f"{whom} had to join room {self.job.room!r} within {limit} s, none did; mind `limit`")

    def add_shutdown_callback(self, callback: ShutdownCallback) -> None:
        """Register `callback`: it is called when the job has ended and its sessions are closed.

        The agent is still in the room then, unless the job ended with its last session.

        Args:
            callback: Sync or async; takes the reason of the end, or nothing. All run at the same time, within
                `job_close_timeout`.
        Raises:
            ConfigurationError: It cannot be called with one argument nor without arguments.
            WorkerError: The job has ended.
        """
        check_function("callback", callback)
        self._control.add_callback(callback)

    def shutdown(self, reason: str = "") -> None:
        """End the job; callable from any thread, and without effect if the job has ended."""
        self._control.shutdown(check_text("reason", reason) or "shutdown")


class JobControl(ABC):
    """The state of a job, which the worker and the job's sessions change and its `context` shows.

    Args:
        job: Facts of the job, as the server sent them.
        shared: The dict that the worker's prewarm filled.
        tasks: Task group of everything that the job starts.
        credentials: For the server's API; None without a key.
    """

    def __init__(
        self, job: JobInfo, *, shared: dict[str, Any], tasks: TaskGroup, credentials: Credentials | None = None
    ) -> None:
        self.job = job
        self.shared = shared
        self.server = ServerAccess(credentials, job.room)
        self.reason = ""
        self.resume_from: Conversation | None = None
        self.context = JobContext(self)
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._ended = anyio.Event()
        self._sessions: list[CloseCall] = []
        self._open_sessions = 0
        self._last_close: CloseReport | None = None
        self._has_returned = False
        self._is_vacated = False
        self._shows_failure = False
        self._callbacks: list[Callable[[str], Awaitable[None] | None]] = []

    @property
    @abstractmethod
    def room(self) -> rtc.Room:
        """The job's room, made on first use; a console has a transport in its place."""

    @property
    @abstractmethod
    def caller(self) -> CallerInfo | None:
        """The caller of the job; None as long as there is none."""

    @property
    def identity(self) -> str:
        """The agent's identity in the room; empty where there are none."""
        return ""

    @property
    def sid(self) -> str:
        """The id that the server gave the agent in the room; empty before it has joined, and where there are none."""
        return ""

    @abstractmethod
    async def connect(self, auto_subscribe: bool) -> None:
        """Join the room; see `JobContext.connect`."""

    @abstractmethod
    async def participant(self, identity: str | None, kind: int | None) -> rtc.RemoteParticipant:
        """Return the first participant that fits, as soon as there is one; the caller limits the wait.

        Raises:
            WorkerError: The job has ended.
        """

    @abstractmethod
    async def leave(self) -> None:
        """Leave the room if it was joined; a second call has no effect."""

    def show_failure(self) -> None:
        """Have the room's participants see the error of the job's code: for development only, since it may quote
        anything.
        """
        self._shows_failure = True

    @property
    def shows_failure(self) -> bool:
        """Whether the room's participants see the error of the job's code."""
        return self._shows_failure

    async def tell_failure(self, error: str) -> None:
        """Show the room's participants that the job's code failed; without a room it does nothing."""

    def attach_session(self, close: CloseCall) -> None:
        """Register `close`: the job's end calls `close(reason)` before the shutdown callbacks and before leaving the
        room.

        Raises:
            WorkerError: The job has ended; close what was started.
        """
        self.check_running("a session")
        self._sessions.append(close)

    def session_begins(self, wait_closed: WaitForClose) -> None:
        """Count a session that starts now: the end of the last one ends the job, unless a new session continues its
        conversation.
        """
        self._open_sessions += 1
        call = OwnedCall(f"waiting for a session of job {self.job.id}", partial(self._follow_session, wait_closed))
        self._tasks.start_soon(call.run)

    def add_callback(self, callback: ShutdownCallback) -> None:
        """Register a shutdown callback; see `JobContext.add_shutdown_callback`."""
        self.check_running("add_shutdown_callback()")
        self._callbacks.append(_taking_reason(callback))

    def shutdown(self, reason: str) -> None:
        """End the job, from any thread."""
        try:
            is_here = asyncio.get_running_loop() is self._loop
        except RuntimeError:  # a thread without a loop, such as a sync tool's
            is_here = False
        if is_here:
            self.end(reason)
        else:
            self._loop.call_soon_threadsafe(self.end, reason)

    def end(self, reason: str) -> None:
        """Record the job's end; the first reason counts."""
        if self._ended.is_set():
            return
        self.reason = reason
        self._ended.set()

    @property
    def is_replaced(self) -> bool:
        """Whether the job ended because another agent with its identity came into the room."""
        return False

    @property
    def is_cut_off(self) -> bool:
        """Whether the job ended because the connection to its room broke: its caller may still be there."""
        return False

    @property
    def has_purpose(self) -> bool:
        """Whether the job has work beside its entrypoint: a session has begun in it."""
        return bool(self._open_sessions or self._sessions)

    @property
    def last_close(self) -> CloseReport | None:
        """How the job's last session ended, if the job ended with it."""
        return self._last_close if self._is_vacated else None

    def continues(self, conversation: Conversation) -> None:
        """Record the conversation that the job continues after a crash; before its entrypoint is called."""
        self.resume_from = conversation

    def entrypoint_returned(self) -> None:
        """Record that no code of the entrypoint will start another session."""
        self._has_returned = True
        self._end_if_vacant()

    async def wait_ended(self) -> None:
        """Return when the job has ended; its closing begins then."""
        await self._ended.wait()

    def take_sessions(self) -> list[CloseCall]:
        """Return the sessions to close, each once."""
        sessions, self._sessions = self._sessions, []
        return sessions

    def take_callbacks(self) -> list[Callable[[str], Awaitable[None] | None]]:
        """Return the shutdown callbacks, each once."""
        callbacks, self._callbacks = self._callbacks, []
        return callbacks

    def check_running(self, what: str) -> None:
        """Raise a `WorkerError` if the job has ended; `what` needs a running job."""
        if self._ended.is_set():
            raise WorkerError(f"{what} needs a running job; job {self.job.id} has ended: {self.reason}")

    async def _follow_session(self, wait_closed: WaitForClose) -> None:
        try:
            report = await wait_closed()
            for _ in range(NEXT_SESSION_STEPS):
                await anyio.lowlevel.checkpoint()
            self._last_close = None if report.reason == CloseReason.REPLACED else report
        finally:
            self._open_sessions -= 1
        self._end_if_vacant()

    def _end_if_vacant(self) -> None:
        last = self._last_close
        if self._open_sessions or last is None or self._ended.is_set():
            return
        if last.reason == CloseReason.START_FAILED and not self._has_returned:
            return  # the entrypoint receives an exception; it may start another session, or fail
        self._is_vacated = True
        self.end(f"the last session has closed: {last.reason}")


def _taking_reason(callback: Callable[..., Awaitable[None] | None]) -> Callable[[str], Awaitable[None] | None]:
    signature = inspect.signature(callback)
    for arguments, adapted in ((("",), callback), ((), lambda _: callback())):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return partial(adapted)
    raise ConfigurationError(f"a shutdown callback takes the reason or nothing, got {callback!r} with {signature}")

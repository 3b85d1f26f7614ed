"""JobContext, the argument of an entrypoint: the job's room and the ways to end the job; JobControl, its state."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel

from vivavoce.agents.job import CloseCall, Credentials, JobInfo, ShutdownCallback, WaitForClose, get_job_context
from vivavoce.agents.records import CloseReport
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.checks import check_flag, check_function, check_number, check_text, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, WorkerError, describe
from vivavoce.pipelines.core.owned_call import OwnedCall

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from livekit import rtc

__all__ = ["JobContext", "JobControl", "JobInfo", "get_job_context"]

logger = logging.getLogger(__name__)

JOIN_LIMIT = 15.0
"""Seconds for joining a room, the SDK's own tries included."""

PARTICIPANT_LIMIT = 60.0

NEXT_SESSION_STEPS = 3
"""Steps of the loop between the end of a session and the end of its job: code that waited for the same end may start
the next session within them.
"""


@dataclass(slots=True, eq=False)
class _Join:
    """One attempt to join; every caller of `connect` waits for the same one."""

    done: anyio.Event = field(default_factory=anyio.Event)
    error: str = ""


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
    def credentials(self) -> Credentials | None:
        """For the server's API; None if the worker has no key."""
        return self._control.credentials

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
            identity: Identity of the participant; None: any.
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
        with anyio.move_on_after(limit):
            return await self._control.participant(identity, kind)
        whom = "a participant" if identity is None else f"the participant {identity!r}"
        raise RoomError(f"{whom} had to join room {self.job.room!r} within {limit} s, none did; mind `limit`")

    def attach_session(self, close: CloseCall) -> None:
        """Register `close`: the job's end calls `close(reason)` before the shutdown callbacks and before leaving the
        room.

        Raises:
            WorkerError: The job has ended; close what was started.
        """
        self._control.attach_session(close)

    def session_begins(self, wait_closed: WaitForClose) -> None:
        """Count a session that starts now: the end of the last one ends the job, unless a new session continues its
        conversation.
        """
        self._control.session_begins(wait_closed)

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


class JobControl:
    """The state of a job, which the worker changes and its `context` shows.

    Args:
        job: Facts of the job, as the server sent them.
        url: URL of the job's server.
        token: Token with which the agent joins the room.
        shared: The dict that the worker's prewarm filled.
        tasks: Task group of everything that the job starts.
        credentials: For the server's API; None without a key.
    """

    def __init__(
        self,
        job: JobInfo,
        *,
        url: str,
        token: str,
        shared: dict[str, Any],
        tasks: TaskGroup,
        credentials: Credentials | None = None,
    ) -> None:
        self.job = job
        self.shared = shared
        self.credentials = credentials
        self.reason = ""
        self.context = JobContext(self)
        self._url = url
        self._token = token
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._room: rtc.Room | None = None
        self._join: _Join | None = None
        self._ended = anyio.Event()
        self._news: set[anyio.Event] = set()
        self._sessions: list[CloseCall] = []
        self._open_sessions = 0
        self._last_close: CloseReport | None = None
        self._has_returned = False
        self._is_vacated = False
        self._callbacks: list[Callable[[str], Awaitable[None] | None]] = []

    @property
    def room(self) -> rtc.Room:
        """The job's room, made on first use."""
        if self._room is None:
            from livekit import rtc

            self._room = rtc.Room(self._loop)
            self._room.on("disconnected", self._on_disconnected)
            self._room.on("participant_connected", self._on_news)
        return self._room

    async def connect(self, auto_subscribe: bool) -> None:
        """Join the room; see `JobContext.connect`."""
        self._check_running("connect()")
        if self._join is None:
            self._join = _Join()
            self._tasks.start_soon(self._join_room, self._join, auto_subscribe)
        join = self._join
        await join.done.wait()
        if join.error:
            if self._join is join:
                self._join = None  # the next call tries again
            raise RoomError(join.error)
        self._check_running("connect()")

    async def participant(self, identity: str | None, kind: int | None) -> rtc.RemoteParticipant:
        """Return the first participant that fits, as soon as there is one; the caller limits the wait.

        Raises:
            WorkerError: The job has ended.
        """
        while True:
            self._check_running("wait_for_participant()")
            for participant in self.room.remote_participants.values():
                if _fits(participant, identity, kind):
                    return participant
            news = anyio.Event()
            self._news.add(news)
            try:
                await news.wait()
            finally:
                self._news.discard(news)

    def attach_session(self, close: CloseCall) -> None:
        """Register a session's close; see `JobContext.attach_session`."""
        self._check_running("a session")
        self._sessions.append(close)

    def session_begins(self, wait_closed: WaitForClose) -> None:
        """Count a session; see `JobContext.session_begins`."""
        self._open_sessions += 1
        call = OwnedCall(f"waiting for a session of job {self.job.id}", partial(self._follow_session, wait_closed))
        self._tasks.start_soon(call.run)

    def add_callback(self, callback: ShutdownCallback) -> None:
        """Register a shutdown callback; see `JobContext.add_shutdown_callback`."""
        self._check_running("add_shutdown_callback()")
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
        self._on_news()

    @property
    def last_close(self) -> CloseReport | None:
        """How the job's last session ended, if the job ended with it."""
        return self._last_close if self._is_vacated else None

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

    async def leave(self) -> None:
        """Leave the room if it was joined; a second call has no effect."""
        if self._join is not None:
            await self._join.done.wait()
        if self._room is not None:
            await self._room.disconnect()

    async def _join_room(self, join: _Join, auto_subscribe: bool) -> None:
        from livekit import rtc

        try:
            # If the SDK's join were cancelled half-way, it would continue and leave a participant without an owner
            # behind.
            with anyio.fail_after(JOIN_LIMIT, shield=True):
                await self.room.connect(self._url, self._token, rtc.RoomOptions(auto_subscribe=auto_subscribe))
        except TimeoutError:
            join.error = f"could not join room {self.job.room!r} at {self._url} within {JOIN_LIMIT} s"
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises reaches the callers of connect()
            logger.debug("joining failed", exc_info=error)
            reason = _without_page(describe(error, quotes_foreign=True))
            join.error = f"could not join room {self.job.room!r} at {self._url}: {reason}"
        finally:
            join.done.set()

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

    def _on_disconnected(self, reason: rtc.DisconnectReason.ValueType) -> None:
        from vivavoce.agents.transports.livekit.link import reason_name

        self.end(f"room disconnected: {reason_name(reason).upper()}")

    def _on_news(self, *_: object) -> None:
        for news in self._news:
            news.set()

    def _check_running(self, what: str) -> None:
        if self._ended.is_set():
            raise WorkerError(f"{what} needs a running job; job {self.job.id} has ended: {self.reason}")


def _fits(participant: rtc.RemoteParticipant, identity: str | None, kind: int | None) -> bool:
    from livekit import rtc

    if identity is not None and participant.identity != identity:
        return False
    if kind is not None:
        return participant.kind == kind
    return identity is not None or participant.kind != rtc.ParticipantKind.PARTICIPANT_KIND_AGENT


def _taking_reason(callback: Callable[..., Awaitable[None] | None]) -> Callable[[str], Awaitable[None] | None]:
    signature = inspect.signature(callback)
    for arguments, adapted in ((("",), callback), ((), lambda _: callback())):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return partial(adapted)
    raise ConfigurationError(f"a shutdown callback takes the reason or nothing, got {callback!r} with {signature}")


def _without_page(reason: str) -> str:
    """Return a reason without the web page that a server other than LiveKit's may answer with."""
    found = re.search(r"[\s-]*<(!doctype|html)\b", reason, flags=re.IGNORECASE)
    return reason if found is None else f"{reason[: found.start()]}, with a web page: is it a LiveKit server?"

"""RoomJob: a job in a LiveKit room, joined with the job's token."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.job import FAILURE, JobControl, JobInfo
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telemetry.logs.logs import mask
from vivavoce.agents.worker.agent_token import identity_in
from vivavoce.pipelines.core.errors import RoomError, describe

if TYPE_CHECKING:
    from anyio.abc import TaskGroup
    from livekit import rtc

    from vivavoce.pipelines.io import CallerInfo

logger = logging.getLogger(__name__)

JOIN_LIMIT = 15.0
"""Seconds that callers wait for the joining of a room, the SDK's own tries included."""

LATE_JOIN_LIMIT = 40.0
"""Seconds after which the joining is given up; the SDK's own tries take no longer."""

LEAVE_LIMIT = 5.0
"""Seconds for leaving the room."""

SHOWN_ERROR = 2000
"""Most characters of an error that the room's participants are shown."""

BROKEN = frozenset(
    {"unknown_reason", "state_mismatch", "migration", "signal_close", "connection_timeout", "media_failure"}
)
"""Reasons of the SDK for a connection that it could not keep. The server ended the others, or their room is gone."""


@dataclass(slots=True, eq=False)
class _Join:
    """One attempt to join; every caller of `connect` waits for the same one."""

    done: anyio.Event = field(default_factory=anyio.Event)
    """Nobody waits any longer."""
    error: str = ""
    is_over: bool = False
    """Whether the SDK tries no longer."""


class RoomJob(JobControl):
    """A job whose room is a LiveKit room.

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
        super().__init__(job, shared=shared, tasks=tasks, credentials=credentials)
        self._url = url
        self._token = token
        self._room: rtc.Room | None = None
        self._join: _Join | None = None
        self._news: set[anyio.Event] = set()
        self._is_replaced = False
        self._is_cut_off = False
        self._has_left = False

    @property
    def room(self) -> rtc.Room:
        """The job's room, made on first use."""
        if self._room is None:
            from vivavoce.pipelines.core.native_threads import (
                first_use,
                rtc,  # noqa: F401 - loaded with its threads bounded
            )

            with first_use("livekit.rtc"):
                from vivavoce.agents.transports.livekit.agent_room import AgentRoom

                self._room = AgentRoom(self._loop)
            self._room.on("disconnected", self._on_disconnected)
            self._room.on("participant_connected", self._on_news)
        return self._room

    @property
    def caller(self) -> CallerInfo | None:
        """The participant of the job if it is for one, else the first caller in the room; None without one."""
        if self._room is None:
            return None
        from vivavoce.agents.transports.livekit.phone import caller_in

        return caller_in(self._room, self.job.participant_identity)

    @property
    def identity(self) -> str:
        """The agent's identity in the room, which its token gives."""
        return identity_in(self._token)

    @property
    def sid(self) -> str:
        """The id that the server gave the agent when it joined the room; empty before that."""
        return self._room.local_participant.sid if self._room is not None and self._room.isconnected() else ""

    @property
    def is_replaced(self) -> bool:
        """Whether the job ended because another agent with its identity came into the room."""
        return self._is_replaced

    @property
    def is_cut_off(self) -> bool:
        """Whether the job ended because the connection to its room broke: its caller may still be there."""
        return self._is_cut_off

    @property
    def has_purpose(self) -> bool:
        """Whether the job has work beside its entrypoint: a session has begun in it, or it is in its room."""
        joins = self._join is not None and not self._join.error
        return super().has_purpose or joins or (self._room is not None and self._room.isconnected())

    async def connect(self, auto_subscribe: bool) -> None:
        """Join the room; see `JobContext.connect`."""
        self.check_running("connect()")
        if self._join is None:
            self._join = _Join()
            self._tasks.start_soon(self._join_room, self._join, auto_subscribe)
        join = self._join
        await join.done.wait()
        if join.error:
            if join.is_over and self._join is join:
                self._join = None  # the next call tries again
            raise RoomError(join.error)
        self.check_running("connect()")

    async def participant(self, identity: str | None, kind: int | None) -> rtc.RemoteParticipant:
        """Return the first participant that fits, as soon as there is one; the caller limits the wait.

        Raises:
            WorkerError: The job has ended.
        """
        while True:
            self.check_running("wait_for_participant()")
            for participant in self.room.remote_participants.values():
                if _fits(participant, identity, kind):
                    return participant
            news = anyio.Event()
            self._news.add(news)
            try:
                await news.wait()
            finally:
                self._news.discard(news)

    def end(self, reason: str) -> None:
        """Record the job's end; the first reason counts."""
        super().end(reason)
        self._on_news()

    async def tell_failure(self, error: str) -> None:
        """Show the error as the agent's attribute; join the room for that if the job's code did not."""
        join = self._join
        if join is None:
            join = self._join = _Join()
            self._tasks.start_soon(self._join_room, join, False)
        await join.done.wait()
        if self._room is not None and self._room.isconnected():
            await self._room.local_participant.set_attributes({FAILURE: mask(error)[:SHOWN_ERROR]})

    async def leave(self) -> None:
        """Leave the room if it was joined; a second call has no effect."""
        self._has_left = True
        if self._join is not None:
            await self._join.done.wait()
        if self._room is not None:
            await self._room.disconnect()

    async def _join_room(self, join: _Join, auto_subscribe: bool) -> None:
        from livekit import rtc

        timer = self._loop.call_later(JOIN_LIMIT, self._join_is_late, join)
        try:
            # If the SDK's join were cancelled half-way, it would continue and leave a participant without an owner
            # behind: a mute agent that keeps every other one from the caller.
            with anyio.fail_after(LATE_JOIN_LIMIT, shield=True):
                await self.room.connect(self._url, self._token, rtc.RoomOptions(auto_subscribe=auto_subscribe))
            join.error = ""  # if it was late, it is there for the next call
            if self._has_left:  # it took longer than the end of the job, and a mute agent would stay in the room
                await self._leave_late()
        except TimeoutError:
            self._join_is_late(join)
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises reaches the callers of connect()
            logger.debug("joining failed", exc_info=error)
            reason = mask(_without_page(describe(error, quotes_foreign=True)))  # a server quotes a token it refuses
            join.error = f"could not join room {self.job.room!r} at {self._url}: {reason}"
        finally:
            timer.cancel()
            join.is_over = True
            join.done.set()

    def _join_is_late(self, join: _Join) -> None:
        join.error = f"could not join room {self.job.room!r} at {self._url} within {JOIN_LIMIT} s"
        join.done.set()

    async def _leave_late(self) -> None:
        with anyio.move_on_after(LEAVE_LIMIT, shield=True) as scope:
            await self.room.disconnect()
        if scope.cancelled_caught:
            logger.error("job %s: leaving the room took longer than %.1f s", self.job.id, LEAVE_LIMIT)

    def _on_disconnected(self, reason: rtc.DisconnectReason.ValueType) -> None:
        from livekit import rtc

        from vivavoce.agents.transports.livekit.link import reason_name

        name = reason_name(reason)
        self._is_replaced = reason == rtc.DisconnectReason.DUPLICATE_IDENTITY
        self._is_cut_off = not self.reason and name in BROKEN
        self.end(f"room disconnected: {name.upper()}")

    def _on_news(self, *_: object) -> None:
        for news in self._news:
            news.set()


def _fits(participant: rtc.RemoteParticipant, identity: str | None, kind: int | None) -> bool:
    from livekit import rtc

    if identity is not None and participant.identity != identity:
        return False
    if kind is not None:
        return participant.kind == kind
    return identity is not None or participant.kind != rtc.ParticipantKind.PARTICIPANT_KIND_AGENT


def _without_page(reason: str) -> str:
    """Return a reason without the web page that a server other than LiveKit's may answer with."""
    found = re.search(r"[\s-]*<(!doctype|html)\b", reason, flags=re.IGNORECASE)
    return reason if found is None else f"{reason[: found.start()]}, with a web page: is it a LiveKit server?"

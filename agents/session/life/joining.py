"""Joining: plans where a session takes place, and which conversation it goes on with, before its task begins."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from vivavoce.agents.current_job import current_job, required_job
from vivavoce.agents.history.snapshot import Snapshot, read_snapshot
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.session_watch import SessionWatch, current_watch
from vivavoce.agents.states import CloseReason
from vivavoce.agents.transports.given_room import check_room, transport_of
from vivavoce.agents.transports.options import DEFAULT_ROOM_OPTIONS, RoomOptions
from vivavoce.pipelines.core.checks import check_instance, check_name
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError, SessionError
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.pipeline import is_silent

if TYPE_CHECKING:
    from livekit import rtc

Connect = Callable[[], Awaitable[Transport]]
"""Returns the transport, which it connects first if need be."""

TakeOver = Callable[[], Awaitable[Snapshot | None]]
"""Waits until the session that has the conversation gives it up, and restores its snapshot; None without one."""


@dataclass(frozen=True, slots=True)
class StartPlan:
    """A session's start.

    Args:
        given: The transport that is there before; None: `connect` makes it.
        resumed: The conversation to go on with, which is restored, or the wait for it; None: a new conversation.
        room, job_id: The room and the job by name; empty if there is none.
    """

    connect: Connect
    room_options: RoomOptions
    given: Transport | None = None
    resumed: Snapshot | TakeOver | None = None
    room: str = ""
    job_id: str = ""


class Joining:
    """Checks the arguments of `start()` and makes the plan of them."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._context = parts.context

    def plan(
        self,
        room: rtc.Room | Transport | None,
        participant: str | None,
        room_options: RoomOptions | None,
        resume_from: Mapping[str, Any] | None,
    ) -> StartPlan:
        """Return the plan of the start; count the session in its job, if it runs in one.

        Raises:
            RoomError, SessionError, SessionClosedError, ConfigurationError: As of `AgentSession.start`.
        """
        check_room(room)
        check_name("participant", participant)
        check_instance("room_options", room_options, RoomOptions, or_none=True)
        if resume_from is not None and not isinstance(resume_from, Mapping):
            raise ConfigurationError(f"resume_from must be what snapshot() returned, got {type(resume_from).__name__}")
        if self._context.inbox.is_bound:
            raise SessionError("the session was started before; a session starts once, make another one")
        if self._context.closing.is_over:
            raise SessionClosedError("the session is closed; make another one")
        self._parts.background.check()
        options = room_options or DEFAULT_ROOM_OPTIONS
        resumed: Snapshot | TakeOver | None = None if resume_from is None else self._read(resume_from)
        if (watch := current_watch()) is not None:
            options = replace(options, publish_turns=options.publish_turns or watch.publishes_turns)
            if resumed is None and watch.has_conversation:
                resumed = partial(self._take_over, watch)
        plan = replace(self._place(room, participant, options), resumed=resumed)
        if plan.given is not None:  # first: a session that is refused here may start elsewhere, as if it had not tried
            self._parts.caller.expect(plan.given)
        if isinstance(resumed, Snapshot):
            self._restore(resumed)
        if watch is not None:
            watch.session_begins(self._context.session)
        if (job := current_job()) is not None:
            job.session_begins(self._context.session.wait_closed)
        return plan

    # --- the conversation

    def _read(self, data: Mapping[str, Any]) -> Snapshot:
        snapshot = read_snapshot(data, agent=self._context.live.agent.id, userdata=self._context.userdata)
        self._parts.extensions.check_taken(snapshot.extensions)
        return snapshot

    async def _take_over(self, watch: SessionWatch) -> Snapshot | None:
        data = await watch.take_over(self._read)
        if data is None:
            return None
        resumed = self._read(data)
        self._restore(resumed)
        return resumed

    def _restore(self, resumed: Snapshot) -> None:
        self._parts.history.restore(resumed.history, resumed.last_sequence, unjudged=resumed.unjudged)
        self._context.set_userdata(resumed.userdata)
        self._parts.extensions.restore(resumed.extensions)
        self._parts.keeping.checkpoints.resume(resumed.open_work)

    # --- the place

    def _place(self, room: rtc.Room | Transport | None, participant: str | None, options: RoomOptions) -> StartPlan:
        """Return where the session takes place. One that neither hears nor sounds needs neither room nor job.

        Raises:
            ConfigurationError: No room was given and the code runs in no job, a participant goes with a transport, or
                the session's wake-up hangs up and the transport cannot.
        """
        if room is None and is_silent(self._parts.pipelines.switch.pipeline) and current_job() is None:
            from vivavoce.agents.transports.text import TextTransport

            room = TextTransport()
        if room is not None:
            transport, current = self._transport(room, participant, options), current_job()

            async def given() -> Transport:
                if current is not None:
                    current.attach_session(self._close_with_job)
                return transport

            return StartPlan(given, options, transport, room=getattr(room, "name", ""))
        job = required_job()

        async def join() -> Transport:
            await job.connect(auto_subscribe=True)
            job.attach_session(self._close_with_job)
            whom = participant or job.job.participant_identity or None
            return self._transport(job.room, whom, options)

        return StartPlan(join, options, room=job.job.room, job_id=job.job.id)

    async def _close_with_job(self, reason: str) -> None:
        await self._context.session.close(CloseReason.JOB_ENDED)

    def _transport(self, room: rtc.Room | Transport, participant: str | None, options: RoomOptions) -> Transport:
        transport = transport_of(room, participant, options, self._context.clock)
        wake_up = self._parts.silence.wake_up.wake_up
        if wake_up is not None and wake_up.then == "hangup":
            transport.check_hangup()
        return transport

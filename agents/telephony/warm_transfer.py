"""WarmTransfers: the caller is on hold while a person is briefed in a room of their own; then the two are connected.

All that can fail leads back to the caller: each step has its limit, and the second room is deleted at the end. The
person is moved into the caller's room where the server can do that (LiveKit Cloud); elsewhere the agent stays in both
rooms, and carries the voices.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import anyio

from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.events import SpeechCreated
from vivavoce.agents.extension.extension import Host
from vivavoce.agents.session_type import Session
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telephony.briefing import Briefing
from vivavoce.agents.telephony.calls import Calls, Dial
from vivavoce.agents.telephony.hold import Hold
from vivavoce.agents.telephony.outcome import CallOutcome
from vivavoce.agents.telephony.side_room import side_room
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, VoiceError, describe
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.server_access import Credentials
    from vivavoce.agents.transports.livekit import LiveKitTransport

logger = logging.getLogger(__name__)

COME_LIMIT = 5.0
"""Seconds until a person who has answered, or was moved, is seen in the room."""
MOVE_LIMIT = 5.0
"""Seconds for the server to move a participant."""
CLOSED = "the session was closed meanwhile"
GIVEN_UP = "the transfer was given up"


@dataclass(slots=True, eq=False)
class Transfer:
    """A warm transfer under way."""

    dial: Dial
    desk: Session
    briefing: Briefing
    limit: float
    transport: LiveKitTransport
    credentials: Credentials
    caller: str
    outcome: CallOutcome | None = None
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    decided: anyio.Event = field(default_factory=anyio.Event)
    ended: anyio.Event = field(default_factory=anyio.Event)

    def failed(self, reason: str) -> CallOutcome:
        return CallOutcome(status="failed", identity=self.dial.identity, reason=reason)


class WarmTransfers:
    """The warm transfers of one session, one at a time."""

    def __init__(self, host: Host, calls: Calls, hold: Hold) -> None:
        self._host = host
        self._context = host.context
        self._calls = calls
        self._hold = hold
        self._transfer: Transfer | None = None

    async def transfer(self, dial: Dial, desk: Session, limit: float) -> CallOutcome:
        """Transfer the caller; see `Telephony.warm_transfer`."""
        self._context.check_here("warm_transfer()")
        transport, credentials = self._calls.line_out(dial.identity)
        if self._transfer is not None:
            raise SessionError("a warm transfer is under way; await it before the next one")
        if (caller := transport.caller) is None:
            raise ConfigurationError("a transfer needs a caller, and nobody is on the line")
        briefing = getattr(desk, "agent", None)
        if desk is self._context.session or not isinstance(briefing, Briefing):
            raise ConfigurationError(
                f"need desk as AgentSession(Briefing(…), pipeline), a second session, got {shown(desk)}"
            )
        if briefing.is_taken is not None:
            raise ConfigurationError("need a desk whose Briefing has not decided yet; make a new one for each transfer")
        transfer = Transfer(dial, desk, briefing, limit, transport, credentials, caller.identity)
        with self._calls.alone("warm_transfer", caller.identity), self._calls.alone("warm_transfer", dial.identity):
            self._context.inbox.call(lambda: self._begin(transfer))
            return await self._outcome_of(transfer)

    async def _outcome_of(self, transfer: Transfer) -> CallOutcome:
        """Wait for the outcome; cancelled, it gives the transfer up. A tool's limit stands still meanwhile."""
        tool = calling_tool()
        if tool is not None:
            tool.hold()
        try:
            with self._context.closing.cuts(anyio.CancelScope()):
                await transfer.decided.wait()
            return transfer.outcome or transfer.failed(CLOSED)
        finally:
            if transfer.outcome is None:
                transfer.scope.cancel()
            if tool is not None:
                tool.release()

    async def aclose(self) -> None:
        """End the transfer, and hang the person up."""
        if (transfer := self._transfer) is not None:
            transfer.scope.cancel()
            await transfer.ended.wait()

    @property
    def is_under_way(self) -> bool:
        """Whether there is a transfer, or a person is connected."""
        return self._transfer is not None

    # --- the steps

    def _begin(self, transfer: Transfer) -> None:
        """Begin it in the session's own context: it is no part of the tool that asks for it."""
        if self._context.closing.is_asked or transfer.scope.cancel_called:
            return  # nobody waits for it any more
        self._transfer = transfer
        self._context.group.start_soon(self._run, transfer, name="warm transfer")

    async def _run(self, transfer: Transfer) -> None:
        before, outcome = self._hold.state, None
        try:
            with self._context.closing.cuts(transfer.scope):
                self._hold.change("on_hold")
                outcome = await self._carry_out(transfer)
        except Exception as error:  # noqa: BLE001 - rooms and servers are foreign: any failure leads back to the caller
            logger.debug("The warm transfer failed", exc_info=error)
            outcome = transfer.failed(describe(error))
        finally:
            self._transfer = None
            is_closing = self._context.closing.is_asked
            if not is_closing:
                self._hold.change(before)
            self._decide(transfer, outcome or transfer.failed(CLOSED if is_closing else GIVEN_UP))
            transfer.ended.set()

    async def _carry_out(self, transfer: Transfer) -> CallOutcome:
        room = transfer.transport.room
        name = new_id(f"{room.name}-transfer")
        async with side_room(transfer.credentials, name, room.local_participant.identity) as side:
            outcome = await self._calls.dial("warm_transfer", transfer.dial, side, transfer.credentials)
            if outcome.is_answered:
                outcome = await self._brief(transfer, side)
            if not outcome.is_answered:
                return outcome
            if not await self._move(transfer, side):
                return await self._bridge(transfer, side)
        return await self._until_left(transfer, room, "moved")

    async def _brief(self, transfer: Transfer, side: rtc.Room) -> CallOutcome:
        """Have the person briefed; the outcome is answered if they take the call."""
        from vivavoce.agents.transports.livekit.presence import presence

        desk, briefing, identity = transfer.desk, transfer.briefing, transfer.dial.identity
        failures: list[str] = []

        async def talk() -> None:
            try:
                await desk.start(side, participant=identity, room_options=RoomOptions(participant_grace=0.0))
                await desk.wait_closed()
                failures.append("the session of the briefing has closed")
            except Exception as error:  # noqa: BLE001 - the application's agent: its failure leads back to the caller
                self._context.report_error(error, "telephony")
                failures.append(f"the briefing failed: {describe(error)}")

        with presence(side, identity) as person:
            await person.come(COME_LIMIT)
            self._calls.note_step("warm_transfer", "briefing", identity)
            try:
                with anyio.move_on_after(transfer.limit):
                    await _first(talk, briefing.decided, person.end)
            finally:
                with anyio.CancelScope(shield=True):  # its own limit is close_timeout
                    await desk.close()
            if briefing.is_taken and person.is_there:
                return CallOutcome(status="answered", identity=identity)
            is_gone = not person.is_there
        if briefing.is_taken is False:
            return CallOutcome(status="declined", identity=identity, reason=briefing.reason)
        if failures and not is_gone:
            return transfer.failed(failures[0])
        if is_gone:
            reason = "the person hung up before the caller was connected"
            return CallOutcome(status="declined", identity=identity, reason=reason)
        reason = f"the person did not decide within {transfer.limit:g} s"
        return CallOutcome(status="no_answer", identity=identity, reason=reason)

    async def _bridge(self, transfer: Transfer, side: rtc.Room) -> CallOutcome:
        """Carry the voices until one of the two leaves; returns as `_until_left`."""
        from vivavoce.agents.transports.livekit.bridge import bridge

        room, identity = transfer.transport.room, transfer.dial.identity
        if identity not in side.remote_participants:
            return transfer.failed("the person was lost while they were being connected")
        ended: list[CallOutcome] = []

        async def until_left() -> None:
            ended.append(await self._until_left(transfer, side, "bridged"))

        async with bridge(room, transfer.caller, side, identity, self._context.clock) as voices:
            await _first(voices.run, until_left)
        return ended[0]

    async def _move(self, transfer: Transfer, side: rtc.Room) -> bool:
        """Move the person into the caller's room; return whether they are there."""
        import aiohttp
        from livekit import api

        from vivavoce.agents.transports.livekit.hangup import disconnect
        from vivavoce.agents.transports.livekit.presence import presence

        to, identity = transfer.transport.room, transfer.dial.identity
        where = transfer.credentials
        request = api.MoveParticipantRequest(room=side.name, identity=identity, destination_room=to.name)
        try:
            with anyio.fail_after(MOVE_LIMIT):
                async with api.LiveKitAPI(where.url, where.api_key, where.api_secret) as server:
                    await server.room.move_participant(request)
        except (api.TwirpError, TimeoutError, aiohttp.ClientError, OSError) as error:
            logger.debug("the person could not be moved: %s", describe(error))
            return identity in to.remote_participants
        try:
            with presence(to, identity) as person:
                await person.come(COME_LIMIT)
        except VoiceError:
            await disconnect(where, to.name, identity, whom="participant")  # they may be there all the same
            return False
        return True

    async def _until_left(self, transfer: Transfer, where: rtc.Room, way: Literal["moved", "bridged"]) -> CallOutcome:
        """Be silent until the person leaves. The call then ends; it returns if the agent has lost the second room."""
        from vivavoce.agents.transports.livekit.presence import presence

        identity = transfer.dial.identity
        answered = CallOutcome(status="answered", identity=identity, way=way)
        emitter = self._context.log.emitter
        emitter.on(SpeechCreated, self._cut)
        try:
            with presence(where, identity) as person:
                self._host.interrupt(force=True)
                self._hold.change("connected")
                self._decide(transfer, answered)
                await person.end()
        finally:
            emitter.off(SpeechCreated, self._cut)
        if not where.isconnected() and where is not transfer.transport.room:
            return transfer.failed("the agent has lost the room of the person")
        self._host.hang_up(CloseReason.PARTICIPANT_LEFT)
        await anyio.sleep_forever()  # the close cuts it; until then the agent stays silent
        raise AssertionError("unreachable")

    def _cut(self, _: SpeechCreated) -> None:
        """Cut a speech before it sounds: the agent has no voice in the call of the two."""
        self._host.interrupt(force=True)

    def _decide(self, transfer: Transfer, outcome: CallOutcome) -> None:
        """Note the outcome: the first one that the application gets, and a later loss of the person."""
        if transfer.outcome is None or not outcome.is_answered:
            if transfer.outcome is None or not self._context.closing.is_asked:
                self._calls.note("warm_transfer", outcome)
            transfer.outcome = transfer.outcome or outcome
            transfer.decided.set()


async def _first(*waits: Callable[[], Awaitable[object]]) -> None:
    """Run all of them, until the first has ended."""

    async def run(wait: Callable[[], Awaitable[object]]) -> None:
        await wait()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        for wait in waits:
            tasks.start_soon(run, wait)

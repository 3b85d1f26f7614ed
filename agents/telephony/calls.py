"""Calls: calls out of the room of a session, and transfers of its caller, by the server's API (`livekit.SIP`)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.events import CallProgress
from vivavoce.agents.extension.extension import Host
from vivavoce.agents.states import CallKind, CallStatus
from vivavoce.agents.telephony.outcome import CallOutcome, refused, transferred, unanswered
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    RoomError,
    SessionError,
    SessionNotStartedError,
    describe,
)

if TYPE_CHECKING:
    from livekit import api, rtc

    from vivavoce.agents.server_access import Credentials
    from vivavoce.agents.transports.livekit import LiveKitTransport

logger = logging.getLogger(__name__)

ANSWER_LIMIT = 10.0
"""Seconds beyond the ringing until the server must have answered."""
KEY_SECONDS = 0.6
"""Seconds, at most, for each key of `keys`: the server answers behind the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dial:
    """A call to make; as of `Telephony.call`."""

    number: str = field(repr=False)
    identity: str = field(repr=False)
    name: str
    keys: str = field(repr=False)
    ringing: float
    longest: float | None
    headers: Mapping[str, str] = field(repr=False)


class Calls:
    """Calls out and transfers of one session.

    Args:
        host: The session.
        trunk: The id of the outbound trunk; "" for none.
        number: The number that calls come from; "" for the trunk's own.
    """

    def __init__(self, host: Host, trunk: str, number: str) -> None:
        self._host = host
        self._context = host.context
        self._trunk = trunk
        self._number = number
        self._under_way: set[str] = set()
        """The identities that are being called or transferred."""

    async def call(self, dial: Dial) -> CallOutcome:
        """Call a number, and wait until somebody has answered, or nobody will; see `Telephony.call`."""
        transport, credentials = self.line_out(dial.identity)
        with self.alone("call", dial.identity):
            outcome = await self.dial("call", dial, transport.room, credentials)
        self.note("call", outcome)
        return outcome

    def line_out(self, identity: str) -> tuple[LiveKitTransport, Credentials]:
        """Return what a call out of that identity needs, as `line()`.

        Raises:
            ConfigurationError: There is no trunk.
            SessionError: It is in the room already.
        """
        if not self._trunk:
            raise ConfigurationError(
                "a call out needs an outbound trunk, got none; give TelephonyOptions(trunk='ST_…') the id of yours"
            )
        transport, credentials = self.line()
        if identity in transport.room.remote_participants:
            raise SessionError(f"{identity!r} is in the room already, and a second call would hang it up")
        return transport, credentials

    async def dial(self, what: CallKind, dial: Dial, room: rtc.Room, credentials: Credentials) -> CallOutcome:
        """Call a number into that room, with events for its steps but not for its end. A cancelled call is hung up."""
        from livekit import api

        from vivavoce.agents.transports.livekit.hangup import disconnect

        identity = dial.identity
        request = api.CreateSIPParticipantRequest(
            sip_trunk_id=self._trunk,
            sip_call_to=dial.number,
            sip_number=self._number,
            room_name=room.name,
            participant_identity=identity,
            participant_name=dial.name,
            dtmf=dial.keys,
            headers=dict(dial.headers),
            wait_until_answered=True,
        )
        request.ringing_timeout.FromMilliseconds(round(dial.ringing * 1000))
        if dial.longest is not None:
            request.max_call_duration.FromMilliseconds(round(dial.longest * 1000))
        limit = dial.ringing + ANSWER_LIMIT + KEY_SECONDS * len(dial.keys)

        async def create(server: api.LiveKitAPI) -> CallOutcome:
            await server.sip.create_sip_participant(request, timeout=limit)
            return CallOutcome(status="answered", identity=identity)

        try:
            return await self._ask(what, identity, create, room, credentials, limit)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):  # its own limit is 5 s
                try:
                    await disconnect(credentials, room.name, identity, whom="participant")
                except RoomError as error:
                    logger.warning("the call that was given up could not be ended: %s", error)
            raise

    async def transfer(
        self, target: str, *, identity: str | None, dialtone: bool, ringing: float, headers: Mapping[str, str]
    ) -> CallOutcome:
        """Hand the caller's telephone over to another one; see `Telephony.transfer`."""
        from livekit import api

        transport, credentials = self.line()
        if identity is None and transport.caller is not None:
            identity = transport.caller.identity
        whom = self._telephone(transport.room, identity, "a transfer")
        request = api.TransferSIPParticipantRequest(
            participant_identity=whom,
            room_name=transport.room.name,
            transfer_to=target,
            play_dialtone=dialtone,
            headers=dict(headers),
        )
        request.ringing_timeout.FromMilliseconds(round(ringing * 1000))
        limit = ringing + ANSWER_LIMIT

        async def hand_over(server: api.LiveKitAPI) -> CallOutcome:
            return transferred(await server.sip.transfer_sip_participant(request, timeout=limit), whom)

        with self.alone("transfer", whom):
            outcome = await self._ask("transfer", whom, hand_over, transport.room, credentials, limit)
        self.note("transfer", outcome)
        return outcome

    async def _ask(
        self,
        what: CallKind,
        identity: str,
        ask: Callable[[api.LiveKitAPI], Awaitable[CallOutcome]],
        room: rtc.Room,
        credentials: Credentials,
        limit: float,
    ) -> CallOutcome:
        """Make one request, note its steps, and return its outcome: no answer of the server raises."""
        import aiohttp
        from livekit import api

        self.note_step(what, "dialing", identity)
        with _ringing(room, identity, lambda: self.note_step(what, "ringing", identity)) as has_rung:
            try:
                with anyio.fail_after(limit):
                    async with api.LiveKitAPI(credentials.url, credentials.api_key, credentials.api_secret) as server:
                        return await ask(server)
            except api.TwirpError as error:
                return refused(error, identity, has_rung=bool(has_rung))
            except TimeoutError:
                return unanswered(identity, has_rung=bool(has_rung))
            except (aiohttp.ClientError, OSError) as error:
                reason = f"the server's API could not be reached: {describe(error, quotes_foreign=True)}"
                return CallOutcome(status="failed", identity=identity, reason=reason)

    def note_step(self, what: CallKind, status: CallStatus, identity: str) -> None:
        """Note a step of a call or transfer."""
        self._context.log.note(CallProgress, what=what, status=status, identity=identity)

    def note(self, what: CallKind, outcome: CallOutcome) -> None:
        """Note the end of a call or transfer."""
        self._context.log.note(
            CallProgress,
            what=what,
            status=outcome.status,
            identity=outcome.identity,
            sip_code=outcome.sip_code,
            reason=outcome.reason,
        )

    @contextmanager
    def alone(self, what: CallKind, identity: str) -> Iterator[None]:
        """Refuse another call or transfer of that participant within the block.

        Raises:
            SessionError: One is under way.
        """
        if identity in self._under_way:
            raise SessionError(f"a call or transfer of {identity!r} is under way; await it before the next {what}()")
        self._under_way.add(identity)
        try:
            yield
        finally:
            self._under_way.discard(identity)

    async def send_keys(self, keys: str, identity: str) -> bool:
        """Press keys for one telephone of the room; return whether the line has a message for it."""
        from vivavoce.agents.transports.livekit import phone

        room = self._room_line("keys for one of several telephones").room
        return await phone.send_keys(room, keys, self._telephone(room, identity, "send_keys()"))

    def line(self) -> tuple[LiveKitTransport, Credentials]:
        """Return the way to the caller, and the keys for the server's API."""
        transport = self._room_line("calls out, transfers and egress")
        if transport.credentials is None:
            raise ConfigurationError(
                "calls and transfers need the server's API, but URL, API key and API secret are not all known: set "
                "LIVEKIT_URL, LIVEKIT_API_KEY and LIVEKIT_API_SECRET, or start the session in a worker's job"
            )
        return transport, transport.credentials

    def _room_line(self, what: str) -> LiveKitTransport:
        from vivavoce.agents.transports.livekit import LiveKitTransport

        self._context.check_open()
        transport = self._context.live.transport
        if transport is None:
            raise SessionNotStartedError("the session is not in its room yet; call this from on_enter on")
        if not isinstance(transport, LiveKitTransport):
            remedy = "start the session in a LiveKit room with a SIP service"
            raise CapabilityError(type(transport).__name__, what, remedy)
        return transport

    def _telephone(self, room: rtc.Room, identity: str | None, what: str) -> str:
        """Return that identity, if it is a telephone's in the room."""
        from vivavoce.agents.transports.livekit.phone import SIP

        participant = room.remote_participants.get(identity or "")
        if participant is None or participant.kind != SIP:
            missing = "nobody is on the line" if identity is None else f"{identity!r} is not there"
            found = missing if participant is None else f"{identity!r} has a LiveKit client"
            raise ConfigurationError(f"{what} needs a telephone in the room, and {found}")
        return participant.identity


@contextmanager
def _ringing(room: rtc.Room, identity: str, note: Callable[[], None]) -> Iterator[list[str]]:
    """Call `note` once when the telephone rings, within the block; the list then has an item."""
    from vivavoce.agents.transports.livekit.callbacks import callbacks
    from vivavoce.agents.transports.livekit.phone import STATUS

    rung: list[str] = []

    def look(participant: rtc.Participant) -> None:
        if participant.identity == identity and participant.attributes.get(STATUS) == "ringing" and not rung:
            rung.append(identity)
            note()

    def changed(_: dict[str, str], participant: rtc.Participant) -> None:
        look(participant)

    with callbacks(room, {"participant_connected": look, "participant_attributes_changed": changed}):
        yield rung

"""Telephony: `session.telephony`, the telephone of a session as applications use it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.extension.extension import Host
from vivavoce.agents.session_type import Session
from vivavoce.agents.states import HoldState
from vivavoce.agents.telephony.calls import Calls, Dial
from vivavoce.agents.telephony.collector import EnteredKeys
from vivavoce.agents.telephony.egress import Egress, EgressRecording
from vivavoce.agents.telephony.hold import Hold
from vivavoce.agents.telephony.key_entry import KEYS, KeyEntry
from vivavoce.agents.telephony.key_input import KeyInput
from vivavoce.agents.telephony.numbers import checked_number, checked_target
from vivavoce.agents.telephony.outcome import CallOutcome
from vivavoce.agents.telephony.tones import key_tones
from vivavoce.agents.telephony.warm_transfer import WarmTransfers
from vivavoce.pipelines.core.checks import check_flag, check_instance, check_number, check_text, shown
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    RoomError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.io import CallerInfo, Transport

if TYPE_CHECKING:
    from livekit.api import RoomCompositeEgressRequest

    from vivavoce.agents.states import BeepEnd
    from vivavoce.agents.telephony.detection.detection import AnswerDetection
    from vivavoce.agents.telephony.detection.verdict import CallVerdict

KEY_PAUSE = 0.5
"""Seconds of a "w" among keys, as LiveKit's SIP service counts it."""


class Telephony:
    """Keys of the caller and to the line, hold, calls out and transfers.

    Args:
        host: The session.
        keys: The keys that its caller presses.
        calls: Its calls out and transfers.
        hold: Its hold.
        transfers: Its warm transfers.
        egress: Its recording by LiveKit's egress.
        detection: Finds out who has answered; None without `MachineDetection`.
    """

    def __init__(
        self,
        host: Host,
        keys: KeyInput,
        calls: Calls,
        hold: Hold,
        transfers: WarmTransfers,
        egress: Egress,
        detection: AnswerDetection | None = None,
    ) -> None:
        self._host = host
        self._keys = keys
        self._calls = calls
        self._hold = hold
        self._transfers = transfers
        self._egress = egress
        self._detection = detection

    @property
    def caller(self) -> CallerInfo | None:
        """The caller as the line names them; None as long as none is there."""
        transport = self._host.context.live.transport
        return None if transport is None else transport.caller

    @property
    def hold_state(self) -> HoldState:
        """With whom the caller talks: the agent, none (on hold), or the person of a warm transfer."""
        return self._hold.state

    def hold(self) -> None:
        """Put the caller on hold, until `resume()` or the close. Call it from any thread; on hold it does nothing.

        The caller hears the music of `BackgroundAudioConfig(…, hold_only=True)`, if the session has some. Nothing that
        they say, type or show is a turn, an open turn is dropped, and no wake-up comes; keys are events, and no entries
        but for `collect_keys()`. The speech that plays goes on to its end, and the agent may speak: the music is then
        quieter. The event `hold_changed` tells it.

        Raises:
            SessionNotStartedError, SessionClosedError: There is no caller now.
            SessionError: The caller talks with the person of a warm transfer.
        """
        self._hold.ask("on_hold")

    def resume(self) -> None:
        """Talk with the caller again; fine if there is no hold. Raises as `hold()`."""
        self._hold.ask("talking")

    async def collect_keys(self, entry: KeyEntry | None = None, *, first_within: float = 10.0) -> EnteredKeys:
        """Wait for one entry of the caller, which is then no turn; ask for it before, such as by `say()`.

        The event `keys_entered` comes as well. The close of the session ends the wait, with no keys.

        Args:
            entry: How keys become the entry; None: as `KeyEntry()` says.
            first_within: Seconds for the first key.
        Raises:
            SessionError: The session takes no input now, or another call of this method waits.
            ConfigurationError: An argument is of another kind.
        """
        check_instance("entry", entry, KeyEntry, or_none=True)
        check_number("first_within", first_within, above=0, unit="s")
        self._host.context.check_open()
        return await self._keys.collect(entry or KeyEntry(), first_within)

    async def send_keys(self, keys: str, *, identity: str | None = None) -> None:
        """Press keys for the other side, such as an automatic menu.

        In a LiveKit room each telephone gets them at once, or the one of `identity`, by a message of the line.
        Elsewhere the tones are played in the agent's own audio, behind the speech that is under way.

        Args:
            keys: 0 to 9, *, #, A to D; a "w" waits for half a second.
            identity: The one telephone of a LiveKit room that gets them; None: all of the line.
        Raises:
            ConfigurationError: There are other characters, or none, or the caller, or `identity`, has no telephone.
            CapabilityError: The line needs tones, and the session has no audio, or it has no telephones with names.
            SessionError: The session is not in its room, or closes.
            RoomError: The line did not take them, or their tones were cut.
        """
        pressed = _checked_keys(keys)
        self._host.context.check_open()
        transport = self._transport
        for number, part in enumerate(pressed.split("W")):
            if number:
                await anyio.sleep(KEY_PAUSE)
            if part and identity is not None:
                await self._calls.send_keys(part, check_text("identity", identity))
            elif part and not await transport.send_keys(part):
                await self._play(part, transport)

    async def call(
        self,
        number: str,
        *,
        identity: str | None = None,
        name: str = "",
        keys: str = "",
        ringing_timeout: float = 30.0,
        max_duration: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> CallOutcome:
        """Call a number into the session's LiveKit room, and wait until somebody has answered, or nobody will.

        Call it in `on_enter`, before the greeting: the session talks to the first telephone that is answered, and all
        its timers begin then. The event `call_progress` tells the steps. Nothing that the line or the server answers
        raises; a cancelled call is hung up.

        Args:
            number: Such as `"+15550100"`.
            identity: Of the participant that it becomes; None: `sip_` and the number.
            name: Of that participant; "" for the server's choice.
            keys: Pressed when it is answered, such as an extension: `"w12#"`.
            ringing_timeout: Seconds until nobody has answered.
            max_duration: Seconds after which the server ends the call; None: the server's own limit.
            headers: SIP headers of the call.
        Raises:
            ConfigurationError: An argument is none that it needs to be, there is no trunk, or no key for the server.
            CapabilityError: The session is not in a LiveKit room.
            SessionError: A participant of that identity is in the room or is being called, or the session closes.
        """
        number = checked_number("number", number)
        return await self._calls.call(_dial(number, identity, name, keys, ringing_timeout, max_duration, headers))

    async def transfer(
        self,
        to: str,
        *,
        identity: str | None = None,
        dialtone: bool = False,
        ringing_timeout: float = 30.0,
        headers: Mapping[str, str] | None = None,
    ) -> CallOutcome:
        """Hand the caller over to another telephone (SIP REFER), and wait until it has answered.

        Once it has, the caller leaves the room, and the session closes as by a hang-up. Otherwise the caller is still
        there. The event `call_progress` tells the steps. The carrier must allow it for your trunk.

        Args:
            to: A number, or a SIP address such as `"sip:desk@example.com"`.
            identity: The telephone to hand over; None: the session's caller.
            dialtone: Whether the caller hears a dial tone meanwhile.
            ringing_timeout: Seconds until nobody has answered.
            headers: SIP headers of the transfer.
        Raises:
            ConfigurationError: An argument is none that it needs to be, there is no telephone to hand over, or no key
                for the server.
            CapabilityError: The session is not in a LiveKit room.
            SessionError: Another transfer of that telephone is under way, or the session closes.
        """
        target = checked_target("to", to)
        check_flag("dialtone", dialtone)
        check_number("ringing_timeout", ringing_timeout, above=0, unit="s")
        return await self._calls.transfer(
            target,
            identity=identity,
            dialtone=dialtone,
            ringing=ringing_timeout,
            headers=_checked_headers(headers),
        )

    async def warm_transfer(
        self,
        number: str,
        desk: Session,
        *,
        identity: str | None = None,
        name: str = "",
        keys: str = "",
        ringing_timeout: float = 30.0,
        briefing_timeout: float = 60.0,
        headers: Mapping[str, str] | None = None,
    ) -> CallOutcome:
        """Put the caller on hold, call a person into a second room, have them briefed there, and connect the two.

        It returns when they are connected (`answered`), or when the caller is back, off hold: no answer, declined,
        hung up, or a failure. Nothing that the line, the servers or the briefing does raises; the event `call_progress`
        tells the steps. Connected, the agent is silent and deaf (`hold_changed`: `connected`), until one of the two
        leaves: then the other one is hung up, and the session closes. Cancelled before, it leads back to the caller. In
        a tool, its time does not count to the tool's limit.

        Args:
            number: The person's, such as `"+15550123"`.
            desk: A session with a `Briefing` as its agent, and a pipeline of its own, which is not started; it serves
                one call that is answered.
            identity: Of the participant that the person becomes; None: `sip_` and the number.
            name: Of that participant; "" for the server's choice.
            keys: Pressed when the person's telephone is answered, such as an extension: `"w12#"`.
            ringing_timeout: Seconds until nobody has answered.
            briefing_timeout: Seconds from the answer in which the person must take the call.
            headers: SIP headers of the call.
        Raises:
            ConfigurationError: An argument is none that it needs to be, there is no caller, no trunk, or no key for
                the server.
            CapabilityError: The session is not in a LiveKit room.
            SessionError: Another transfer is under way, or the session closes.
        """
        number = checked_number("number", number)
        check_number("briefing_timeout", briefing_timeout, above=0, unit="s")
        dial = _dial(number, identity, name, keys, ringing_timeout, None, headers)
        return await self._transfers.transfer(dial, desk, briefing_timeout)

    async def start_egress(self, output: str | RoomCompositeEgressRequest) -> EgressRecording:
        """Have LiveKit's egress service record the room, and wait until the recording runs.

        It is independent of `session.recording`, which records in the agent's process. The close of the session stops
        it. The event `egress_changed` tells start, stop and failure.

        Args:
            output: The path of an Ogg file with the agent on one channel and all others on the other one, such as
                `"calls/{room_name}-{time}.ogg"`; or LiveKit's own request, for a storage, video or a layout.
        Raises:
            RoomError: The server refused it, or did not answer within 5 s, or the recording did not begin within 30 s.
            ConfigurationError: `output` is neither, or there is no key for the server.
            CapabilityError: The session is not in a LiveKit room.
            SessionError: An egress of the session runs, or the session closes.
        """
        return await self._egress.start(output)

    async def stop_egress(self) -> EgressRecording:
        """Stop that recording. Its file comes later: the status is `ending`, and the webhook `egress_ended` tells it.

        Raises:
            RoomError: The server refused it, or did not answer within 5 s.
            SessionError: No egress of the session runs.
        """
        return await self._egress.stop()

    async def answered_by(self, *, again: bool = False) -> CallVerdict:
        """Wait for the verdict on who has answered the call; the event `call_answered_by` comes as well.

        Nothing is judged before the call is answered. The agent's speech waits for the verdict, and the verdict comes
        within `MachineDetection.limit` of the answer. A hold ends the wait with reason `on_hold`, the end of the call
        with reason `hung_up`.

        Args:
            again: Whether to listen anew, since somebody else may be there now: behind a key for a menu, or behind the
                agent's name for call screening. Speech that has not begun waits again, so await it before.
        Raises:
            ConfigurationError: The session has no `MachineDetection`.
            SessionError: The session was not started, or is closed; or `again` while the caller is on hold.
        """
        check_flag("again", again)
        self._host.context.check_open()
        self._host.context.check_here("answered_by()")
        if again:
            if self._host.context.hold.is_deaf:
                raise SessionError("nothing is heard of a caller on hold; resume() before answered_by(again=True)")
            self._detects.begin()
        return await self._detects.verdict()

    async def wait_for_beep(self, limit: float = 30.0, *, silence: float = 3.0) -> BeepEnd:
        """Wait until a voicemail records: until its beep, at once if that has come.

        Args:
            limit: Seconds for the wait.
            silence: Seconds without speech and without a beep that end the wait.
        Returns:
            `beep`, `silence`, `limit`, or `hung_up`, since the call has ended.
        Raises:
            ConfigurationError: The session has no `MachineDetection`, or an argument is no such number.
            SessionError: The session was not started, or is closed.
        """
        check_number("limit", limit, above=0, unit="s")
        check_number("silence", silence, above=0, unit="s")
        self._host.context.check_open()
        self._host.context.check_here("wait_for_beep()")
        return await self._detects.beep(limit, silence)

    @property
    def _detects(self) -> AnswerDetection:
        if self._detection is None:
            raise ConfigurationError(
                "the session does not find out who has answered; give it "
                "TelephonyOptions(machine_detection=MachineDetection())"
            )
        return self._detection

    async def _play(self, keys: str, transport: Transport) -> None:
        caller = transport.caller
        if caller is not None and caller.line == "room":
            raise ConfigurationError("keys need a telephone in the room, and the caller has a LiveKit client; leave it")
        if not self._host.context.live.capabilities.speaks:
            remedy = "give the session a voice, or a line with a message for keys, such as a LiveKit telephone"
            raise CapabilityError(type(transport).__name__, "the tones of keys as audio", remedy)
        tones = self._host.context.session.say(
            "", audio=key_tones(keys), interruptible=False, add_to_history=False, priority=1
        )
        await tones
        if tones.outcome != "completed":
            raise RoomError(f"the tones of the keys were not played to their end; their speech was {tones.outcome}")

    @property
    def _transport(self) -> Transport:
        transport = self._host.context.live.transport
        if transport is None:
            raise SessionNotStartedError("the session is not in its room yet; call this from on_enter on")
        return transport


def _dial(
    number: str,
    identity: str | None,
    name: str,
    keys: str,
    ringing: float,
    longest: float | None,
    headers: Mapping[str, str] | None,
) -> Dial:
    if identity is not None and not check_text("identity", identity).strip():
        raise ConfigurationError("need identity as a name or None, got an empty one")
    check_text("name", name)
    check_number("ringing_timeout", ringing, above=0, unit="s")
    check_number("max_duration", longest, above=0, unit="s", or_none=True)
    return Dial(
        number=number,
        identity=identity or f"sip_{number}",
        name=name,
        keys=_checked_keys(keys).replace("W", "w") if keys else "",
        ringing=ringing,
        longest=longest,
        headers=_checked_headers(headers),
    )


def _checked_keys(keys: object) -> str:
    pressed = check_text("keys", keys).upper()
    if others := set(pressed) - {*KEYS, "W"}:  # the keys themselves may be a PIN
        raise ConfigurationError(f"need keys of {KEYS}, and w for a pause, got {''.join(sorted(others))!r} among them")
    if not pressed.strip("W"):
        raise ConfigurationError(f"need keys of {KEYS}, and w for a pause, got {shown(keys)}")
    return pressed


def _checked_headers(headers: object) -> Mapping[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, Mapping) or not all(isinstance(one, str) for pair in headers.items() for one in pair):
        raise ConfigurationError(f"headers must be a mapping of texts, got {shown(headers)}")
    return headers

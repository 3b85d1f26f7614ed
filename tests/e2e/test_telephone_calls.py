"""Calls out and transfers of a session in a real room, with the server's SIP service scripted as it was measured."""

from __future__ import annotations

import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from livekit import rtc
from livekit.protocol.sip import CreateSIPParticipantRequest, SIPParticipantInfo

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Peer, Watched, joined, tone
from kit.limits import LIMIT
from kit.servers.scripted_sip import Refused, ScriptedSip, scripted_sip, sip_refusal
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions
from vivavoce.agents.events import CallProgress
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telephony import CallOutcome, MachineDetection, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

EXAMPLES = Path(__file__).parents[2] / "examples"
CREATE, TRANSFER, REMOVE = "SIP/CreateSIPParticipant", "SIP/TransferSIPParticipant", "RoomService/RemoveParticipant"
PHONE = {"sip.callStatus": "active", "sip.phoneNumber": "+15550100"}


class Call(Watched):
    """A session in a room, and the progress of its calls."""

    def __init__(self, session: AgentSession[None], sip: ScriptedSip) -> None:
        super().__init__()
        self.session = session
        self.telephony = session.telephony
        self.sip = sip
        self.progress: list[tuple[str, str, int | None]] = []
        session.on(CallProgress, self._note)

    def _note(self, event: CallProgress) -> None:
        self.progress.append((event.what, event.status, event.sip_code))
        self.changed()

    async def linked(self) -> None:
        """Wait until the session talks to a caller: its playout begins then."""
        await self.session.say("Hello.")


@asynccontextmanager
async def in_room(
    room: rtc.Room, scripts: dict[str, Any], trunk: str = "ST_1", **telephony: Any
) -> AsyncIterator[Call]:
    async with scripted_sip(scripts) as sip:
        transport = LiveKitTransport(room, options=RoomOptions(), clock=LoopClock(), credentials=sip.credentials)
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
        options = SessionOptions(telephony=TelephonyOptions(trunk=trunk, number="+1 555 0199", **telephony))
        session = AgentSession(Agent("Help."), pipeline, options=options)
        call = Call(session, sip)
        await session.start(transport)
        try:
            yield call
        finally:
            await session.close()


async def test_a_call_out_is_linked_when_it_is_answered_and_its_steps_are_events(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    is_over = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def place(request: CreateSIPParticipantRequest) -> bytes:
            answered = anyio.Event()

            async def phone() -> None:
                ringing = {**PHONE, "sip.callStatus": "dialing"}
                async with joined(room_server, room_name, request.participant_identity, "sip", ringing) as peer:
                    await peer.until(lambda: "agent" in peer.room.remote_participants)
                    await peer.room.local_participant.set_attributes({"sip.callStatus": "ringing"})
                    await rings.wait()
                    await peer.room.local_participant.set_attributes({"sip.callStatus": "active"})
                    answered.set()
                    await is_over.wait()

            tasks.start_soon(phone)
            await answered.wait()
            return SIPParticipantInfo(participant_identity=request.participant_identity).SerializeToString()

        rings = anyio.Event()
        async with in_room(agent_room, {CREATE: place}) as call:

            def seen(event: CallProgress) -> None:
                if event.status == "ringing":
                    assert call.telephony.caller is None
                    rings.set()

            call.session.on(CallProgress, seen)
            with anyio.fail_after(LIMIT):
                outcome = await call.telephony.call(
                    "+1 (555) 0100", keys="w12#", ringing_timeout=20.0, max_duration=60.0, headers={"X-Case": "7"}
                )
                await call.linked()
            assert outcome == CallOutcome(status="answered", identity="sip_+15550100")
            await call.until(lambda: len(call.progress) == 3)
            assert call.progress == [("call", "dialing", None), ("call", "ringing", None), ("call", "answered", None)]
            [(_, request)] = call.sip.asked
            is_over.set()

    assert request.sip_trunk_id == "ST_1"
    assert (request.sip_call_to, request.sip_number, request.dtmf) == ("+15550100", "+15550199", "w12#")
    assert (request.ringing_timeout.seconds, request.max_call_duration.seconds) == (20, 60)
    assert dict(request.headers) == {"X-Case": "7"}
    assert request.wait_until_answered


@pytest.mark.test_all("tones in real time")
async def test_a_voicemail_is_judged_when_it_is_answered_and_the_agent_is_silent_until_its_beep(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    detection = MachineDetection(limit=60.0, no_speech=60.0)
    async with in_room(agent_room, {}, machine_detection=detection) as call:
        said = call.session.say("This is for people.")
        ringing = {**PHONE, "sip.callStatus": "ringing"}
        async with joined(room_server, room_name, "sip_1", "sip", ringing) as phone:
            await phone.until(lambda: "agent" in phone.room.remote_participants)
            assert call.session.current_speech is None
            await phone.room.local_participant.set_attributes({"sip.callStatus": "active"})
            with anyio.fail_after(LIMIT):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(beep_until_judged, phone)
                    verdict = await call.telephony.answered_by()
                    tasks.cancel_scope.cancel()
                assert await call.telephony.wait_for_beep() == "beep"
                await said
    assert (verdict.kind, verdict.reason) == ("machine", "beep")
    assert said.outcome == "cancelled"


async def beep_until_judged(phone: Peer) -> None:
    """Beep again and again: the first one may be lost while the track is being subscribed to."""
    source = await phone.microphone()
    while True:
        for hertz, seconds in ((1000.0, 0.4), (0.0, 1.0)):
            for frame in tone(hertz, seconds, PEER_RATE):
                await source.capture_frame(rtc.AudioFrame(frame.data, PEER_RATE, 1, frame.samples))


async def test_a_call_that_nobody_answers_says_why(agent_room: rtc.Room) -> None:
    def refuse(_: object) -> bytes:
        raise sip_refusal(486, "Busy Here", status=429, code="resource_exhausted")

    async with in_room(agent_room, {CREATE: refuse}) as call:
        outcome = await call.telephony.call("+15550100")
        assert outcome == CallOutcome(status="busy", identity="sip_+15550100", sip_code=486, reason="Busy Here")
        await call.until(lambda: len(call.progress) == 2)
        assert call.progress == [("call", "dialing", None), ("call", "busy", 486)]
        for number in ("", "call me"):
            with pytest.raises(ConfigurationError, match="must be a telephone number"):
                await call.telephony.call(number)
        assert len(call.sip.asked) == 1


async def test_a_call_that_is_given_up_is_hung_up(agent_room: rtc.Room) -> None:
    asked = anyio.Event()

    async def ring(_: object) -> bytes:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with in_room(agent_room, {CREATE: ring, REMOVE: lambda _: b""}) as call:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.telephony.call, "+15550100")
            with anyio.fail_after(LIMIT):
                await asked.wait()
            with pytest.raises(SessionError, match="under way"):
                await call.telephony.call("+15550100")
            tasks.cancel_scope.cancel()
        method, request = call.sip.asked[-1]
        assert (method, request.identity) == (REMOVE, "sip_+15550100")


async def test_a_transfer_hands_the_caller_over_or_leaves_the_call_as_it_is(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    answers: list[bytes | Refused] = [sip_refusal(603, "Decline", status=403, code="permission_denied"), b""]

    def hand_over(_: object) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, Refused):
            raise answer
        return answer

    async with in_room(agent_room, {TRANSFER: hand_over}) as call:
        with pytest.raises(ConfigurationError, match="nobody is on the line"):
            await call.telephony.transfer("+15550123")
        async with joined(room_server, room_name, "sip_1", "sip", PHONE):
            await call.linked()
            outcome = await call.telephony.transfer("+1 555 0123")
            assert (outcome.status, outcome.sip_code, outcome.identity) == ("declined", 603, "sip_1")
            assert call.session.agent_state == "idle"
            assert (await call.telephony.transfer("sip:desk@example.com")).is_answered
            [(_, first), (_, second)] = call.sip.asked
            assert (first.room_name, first.participant_identity, first.transfer_to) == (
                room_name,
                "sip_1",
                "tel:+15550123",
            )
            assert second.transfer_to == "sip:desk@example.com"


async def test_a_caller_with_a_browser_cannot_be_transferred_and_gets_no_keys(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    async with in_room(agent_room, {}) as call, joined(room_server, room_name, "caller"):
        await call.linked()
        with pytest.raises(ConfigurationError, match="'caller' has a LiveKit client"):
            await call.telephony.transfer("sip:desk@example.com")
        with pytest.raises(ConfigurationError, match="keys need a telephone in the room"):
            await call.telephony.send_keys("1")


async def test_keys_reach_the_telephone_by_the_room_s_message(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    got: list[tuple[int, str]] = []
    async with in_room(agent_room, {}) as call, joined(room_server, room_name, "sip_1", "sip", PHONE) as phone:

        def take(key: rtc.SipDTMF) -> None:
            got.append((key.code, key.digit))
            phone.changed()

        phone.room.on("sip_dtmf_received", take)
        await call.linked()
        await call.telephony.send_keys("1w#a")
        await phone.until(lambda: got == [(1, "1"), (11, "#"), (12, "A")])


async def test_keys_reach_only_the_telephone_that_is_named(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    got: list[tuple[str, str]] = []
    async with (
        in_room(agent_room, {}) as call,
        joined(room_server, room_name, "sip_1", "sip", PHONE) as first,
        joined(room_server, room_name, "sip_2", "sip", PHONE) as second,
    ):

        def take(name: str, key: rtc.SipDTMF) -> None:
            got.append((name, key.digit))
            first.changed()

        for name, phone in (("first", first), ("second", second)):
            phone.room.on("sip_dtmf_received", partial(take, name))
        await call.linked()
        agent_room.on("participant_connected", lambda _: call.changed())
        await call.until(lambda: len(agent_room.remote_participants) == 2)
        await call.telephony.send_keys("1#", identity="sip_2")
        await call.telephony.send_keys("9")
        await first.until(lambda: len(got) == 4)
        assert [digit for name, digit in got if name == "first"] == ["9"]
        assert [digit for name, digit in got if name == "second"] == ["1", "#", "9"]
        for nobody in ("sip_3", "agent", ""):
            with pytest.raises(ConfigurationError, match=r"send_keys\(\) needs a telephone in the room"):
                await call.telephony.send_keys("1", identity=nobody)


async def test_a_call_without_a_trunk_says_which_option_is_missing(agent_room: rtc.Room) -> None:
    async with in_room(agent_room, {}, trunk="") as call:
        with pytest.raises(ConfigurationError, match=r"TelephonyOptions\(trunk="):
            await call.telephony.call("+15550100")


async def test_the_example_closes_a_call_that_nobody_takes(agent_room: rtc.Room) -> None:
    example: dict[str, Any] = runpy.run_path(str(EXAMPLES / "telephone_call_out.py"))

    def refuse(_: object) -> bytes:
        raise sip_refusal(486, "Busy Here", status=429, code="resource_exhausted")

    async with scripted_sip({CREATE: refuse}) as sip:
        transport = LiveKitTransport(agent_room, options=RoomOptions(), clock=LoopClock(), credentials=sip.credentials)
        options = SessionOptions(telephony=TelephonyOptions(trunk="ST_1"))
        session = AgentSession(example["Reminder"]("+15550100"), options=options)
        with anyio.fail_after(LIMIT):
            await session.start(transport)
            report = await session.wait_closed()
    assert report.is_clean
    [(_, request)] = sip.asked
    assert request.sip_call_to == "+15550100"


@pytest.mark.real_server
async def test_a_server_without_a_sip_service_says_so_and_the_session_goes_on(
    room_server: RoomEndpoint, agent_room: rtc.Room
) -> None:
    credentials = Credentials(url=room_server.url, api_key=room_server.api_key, api_secret=room_server.api_secret)
    transport = LiveKitTransport(agent_room, options=RoomOptions(), clock=LoopClock(), credentials=credentials)
    async with AgentSession(
        Agent("Help."), options=SessionOptions(telephony=TelephonyOptions(trunk="ST_1"))
    ) as session:
        await session.start(transport)
        outcome = await session.telephony.call("+15550100")
        assert outcome.status == "failed"
        assert outcome.reason
        assert session.agent_state == "idle"

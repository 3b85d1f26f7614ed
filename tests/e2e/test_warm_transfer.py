"""Warm transfers in real rooms, with stand-ins for the telephones and the server's SIP service scripted."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest
from livekit import api, rtc
from livekit.protocol.room import MoveParticipantResponse, RemoveParticipantResponse
from livekit.protocol.sip import CreateSIPParticipantRequest, SIPParticipantInfo

from kit.e2e.examples import has_said, worker_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Peer, Watched, joined, tone
from kit.e2e.working import Working
from kit.limits import LIMIT
from kit.servers.scripted_sip import sip_refusal
from kit.servers.sip_before_room import SipBeforeRoom, sip_before_room
from vivavoce.agents import Agent, AgentSession, BackgroundAudioConfig, RoomOptions, SessionOptions
from vivavoce.agents.events import CallProgress, HoldChanged
from vivavoce.agents.records import CloseReport
from vivavoce.agents.telephony import Briefing, CallOutcome, TelephonyOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SLOW = pytest.mark.test_all("make test has the bridge, and the errors of bad input")

CREATE = "SIP/CreateSIPParticipant"
MOVE = "RoomService/MoveParticipant"
PHONE = {"sip.callStatus": "active", "sip.phoneNumber": "+15550100"}
DESK = "+1 555 0123"
PERSON = "sip_+15550123"


def pipeline() -> CascadingPipeline:
    return CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())


class Call(Watched):
    """A session with a caller in its room, and the events of its transfers."""

    def __init__(self, session: AgentSession[None], sip: SipBeforeRoom, caller: Peer) -> None:
        super().__init__()
        self.session = session
        self.telephony = session.telephony
        self.sip = sip
        self.caller = caller
        self.steps: list[str] = []
        self.reasons: list[str] = []
        session.on(CallProgress, lambda event: self.reasons.append(event.reason))
        session.on(CallProgress, lambda event: self._note(event.status))
        session.on(HoldChanged, lambda event: self._note(event.state))

    def _note(self, step: str) -> None:
        self.steps.append(step)
        self.changed()

    async def warm(self, desk: AgentSession[None], **options: Any) -> CallOutcome:
        with anyio.fail_after(LIMIT):
            return await self.telephony.warm_transfer(DESK, desk, **options)

    async def end(self) -> CloseReport:
        with anyio.fail_after(LIMIT):
            return await self.session.wait_closed()


class Person:
    """The person that the transfer calls: joins the second room as a telephone does, and acts.

    Args:
        act: What they do in the call; None: they stay.
    """

    def __init__(self, room: RoomEndpoint, act: Callable[[Peer], Any] | None = None) -> None:
        self._room = room
        self._act = act
        self.peer: Peer | None = None
        self.room_name = ""
        self.is_over = anyio.Event()
        self.has_left = anyio.Event()

    async def answers(self, request: CreateSIPParticipantRequest) -> bytes:
        """The script of the server's method."""
        is_there = anyio.Event()
        self.room_name = request.room_name
        self.tasks.start_soon(self._be_there, request.participant_identity, is_there)
        await is_there.wait()
        return SIPParticipantInfo(participant_identity=request.participant_identity).SerializeToString()

    async def _be_there(self, identity: str, is_there: anyio.Event) -> None:
        async with joined(self._room, self.room_name, identity, "sip", PHONE) as peer:
            self.peer = peer

            def hung_up(_: object) -> None:
                self.is_over.set()
                peer.changed()

            peer.room.on("disconnected", hung_up)
            is_there.set()
            await peer.until(lambda: bool(peer.audio_from) or self.is_over.is_set())
            if self._act is not None and not self.is_over.is_set():
                await self._act(peer)
            await self.is_over.wait()
        self.has_left.set()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Person]:
        async with anyio.create_task_group() as self.tasks:
            yield self
            self.is_over.set()


async def was_hung_up(peer: Peer) -> None:
    peer.room.on("disconnected", lambda _: peer.changed())
    await peer.until(lambda: not peer.room.isconnected())


async def presses(peer: Peer, code: int) -> None:
    await peer.room.local_participant.publish_dtmf(code=code, digit=str(code))


@asynccontextmanager
async def a_call(server: RoomEndpoint, room_name: str, room: rtc.Room, scripts: dict[str, Any]) -> AsyncIterator[Call]:
    """A session in that room, with a caller on the telephone."""
    async with sip_before_room(scripts, server) as sip, joined(server, room_name, "sip_1", "sip", PHONE) as caller:
        transport = LiveKitTransport(room, options=RoomOptions(), clock=LoopClock(), credentials=sip.credentials)
        session: AgentSession[None] = AgentSession(
            Agent("Help."), pipeline(), options=SessionOptions(telephony=TelephonyOptions(trunk="ST_1"))
        )
        call = Call(session, sip, caller)
        await session.start(transport)
        try:
            await session.say("Hello.")
            yield call
        finally:
            await session.close()


def heard_pitches(peer: Peer) -> set[int]:
    """The pitches of the loud pieces that a client has heard, by 100 Hz."""
    found = set()
    for piece in peer.samples:
        if np.abs(piece.astype(np.int32)).max() > 3000:
            spectrum = np.abs(np.fft.rfft(piece * np.hanning(len(piece))))
            found.add(round(float(np.argmax(spectrum)) * PEER_RATE / len(piece) / 100) * 100)
    return found


async def hums(peer: Peer, hertz: float, until: Callable[[], bool]) -> None:
    """Speak a tone until the other side has heard it."""
    source = await peer.microphone()
    with anyio.fail_after(LIMIT):
        while not until():
            for frame in tone(hertz, 0.2, PEER_RATE):
                await source.capture_frame(rtc.AudioFrame(frame.data, PEER_RATE, 1, frame.samples))
    await source.aclose()


async def test_the_caller_hears_music_and_then_the_agent_bridges_the_rooms_where_nobody_can_be_moved(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    callers: list[Peer] = []

    async def takes_the_call(peer: Peer) -> None:
        await callers[0].until(lambda: 800 in heard_pitches(callers[0]))
        await presses(peer, 1)

    music = tmp_path / "music.wav"
    write_wav(music, AudioFrame(b"".join(frame.data for frame in tone(800.0, 1.0, PEER_RATE)), PEER_RATE))
    person = Person(room_server, takes_the_call)
    async with (
        person(),
        a_call(room_server, room_name, agent_room, {CREATE: person.answers}) as call,
    ):
        callers.append(call.caller)
        call.session.play_background_audio(BackgroundAudioConfig(music, volume=1.0, hold_only=True))
        desk: AgentSession[None] = AgentSession(Briefing("A caller. Press 1 to take the call."), pipeline())
        outcome = await call.warm(desk)
        assert outcome == CallOutcome(status="answered", identity=PERSON, way="bridged")
        await call.until(lambda: len(call.steps) >= 5)
        assert call.steps == ["on_hold", "dialing", "briefing", "connected", "answered"]
        assert desk.agent_state == "closed"
        assert person.peer is not None
        other, caller = person.peer, call.caller
        other.samples.clear()
        caller.samples.clear()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hums, caller, 500.0, lambda: 500 in heard_pitches(other))
            tasks.start_soon(hums, other, 1200.0, lambda: 1200 in heard_pitches(caller))
        assert call.session.user_state == "idle"
        with pytest.raises(SessionError, match="talks with a person"):
            call.telephony.resume()
        person.is_over.set()
        report = await call.end()
        assert (report.reason, report.is_clean) == ("participant_left", True)
        await was_hung_up(call.caller)


@SLOW
async def test_a_caller_who_leaves_ends_the_call_of_the_person(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    person = Person(room_server, lambda peer: presses(peer, 1))
    async with person(), a_call(room_server, room_name, agent_room, {CREATE: person.answers}) as call:
        assert (await call.warm(AgentSession(Briefing("A caller."), pipeline()))).is_answered
        await call.caller.room.local_participant.set_attributes({"sip.callStatus": "hangup"})
        await call.caller.aclose()
        assert (await call.end()).is_clean
        with anyio.fail_after(LIMIT):
            await person.has_left.wait()


@SLOW
async def test_the_person_is_moved_where_the_server_can_do_that(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    person = Person(room_server, lambda peer: presses(peer, 1))
    async with anyio.create_task_group() as tasks, person():
        moved_over = anyio.Event()

        async def move(request: Any) -> bytes:
            assert (request.room, request.identity, request.destination_room) == (person.room_name, PERSON, room_name)

            async def be_in_the_other_room() -> None:
                async with joined(room_server, room_name, PERSON, "sip", PHONE):
                    await moved_over.wait()

            person.is_over.set()
            tasks.start_soon(be_in_the_other_room)
            return MoveParticipantResponse().SerializeToString()

        async with a_call(room_server, room_name, agent_room, {CREATE: person.answers, MOVE: move}) as call:
            outcome = await call.warm(AgentSession(Briefing("A caller."), pipeline()))
            assert (outcome.status, outcome.way) == ("answered", "moved")
            assert call.telephony.hold_state == "connected"
            moved_over.set()
            assert (await call.end()).reason == "participant_left"


@SLOW
async def test_a_person_who_was_moved_and_is_not_seen_is_hung_up_and_the_caller_is_back(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    person, removed = Person(room_server, lambda peer: presses(peer, 1)), list[tuple[str, str]]()

    async def move(_: Any) -> bytes:
        person.is_over.set()
        return MoveParticipantResponse().SerializeToString()

    async def remove(request: Any) -> bytes:
        removed.append((request.room, request.identity))
        return RemoveParticipantResponse().SerializeToString()

    scripts = {CREATE: person.answers, MOVE: move, "RoomService/RemoveParticipant": remove}
    async with person(), a_call(room_server, room_name, agent_room, scripts) as call:
        outcome = await call.warm(AgentSession(Briefing("A caller."), pipeline()))
        assert outcome.status == "failed"
        assert removed == [(room_name, PERSON)]
        assert call.telephony.hold_state == "talking"


@SLOW
async def test_the_caller_is_back_when_the_agent_loses_the_person_s_room(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    person = Person(room_server, lambda peer: presses(peer, 1))
    async with person(), a_call(room_server, room_name, agent_room, {CREATE: person.answers}) as call:
        assert (await call.warm(AgentSession(Briefing("A caller."), pipeline()))).is_answered
        speech = call.session.say("You do not hear this.")
        await speech
        assert speech.outcome == "cancelled"
        where = call.sip.credentials
        async with api.LiveKitAPI(where.url, where.api_key, where.api_secret) as server:
            await server.room.delete_room(api.DeleteRoomRequest(room=person.room_name))
        await call.until(lambda: call.steps[-2:] == ["talking", "failed"])
        await call.session.say("I am sorry, the line was lost.")


@SLOW
@pytest.mark.parametrize("code", [2, 486])
async def test_a_person_who_does_not_take_the_call_leads_back_to_the_caller(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, code: int
) -> None:
    person = Person(room_server, lambda peer: presses(peer, 2))

    def busy(_: object) -> bytes:
        raise sip_refusal(486, "Busy Here", status=429, code="resource_exhausted")

    scripts = {CREATE: busy if code == 486 else person.answers}
    async with person(), a_call(room_server, room_name, agent_room, scripts) as call:
        outcome = await call.warm(AgentSession(Briefing("A caller."), pipeline()))
        assert call.telephony.hold_state == "talking"
        await call.session.say("Nobody is free.")
        if code == 486:
            assert (outcome.status, outcome.sip_code) == ("busy", 486)
            assert call.steps == ["on_hold", "dialing", "talking", "busy"]
        else:
            assert (outcome.status, outcome.reason) == ("declined", "declined by a key")
            with anyio.fail_after(LIMIT):
                await person.has_left.wait()


@SLOW
@pytest.mark.parametrize("way", ["hangs up", "says nothing"])
async def test_a_person_who_hangs_up_or_says_nothing_leads_back_to_the_caller(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, way: str
) -> None:
    async def hang_up(peer: Peer) -> None:
        person.is_over.set()

    person = Person(room_server, hang_up if way == "hangs up" else None)
    async with person(), a_call(room_server, room_name, agent_room, {CREATE: person.answers}) as call:
        desk: AgentSession[None] = AgentSession(Briefing("A caller."), pipeline())
        outcome = await call.warm(desk, briefing_timeout=1.5 if way == "says nothing" else 60.0)
        assert outcome.status == ("no_answer" if way == "says nothing" else "declined")
        assert call.telephony.hold_state == "talking"
        with anyio.fail_after(LIMIT):
            await person.has_left.wait()


@SLOW
async def test_a_briefing_that_fails_leads_back_to_the_caller(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    class Broken(Briefing):
        async def on_enter(self) -> None:
            raise ValueError("no briefing")

    person = Person(room_server)
    async with person(), a_call(room_server, room_name, agent_room, {CREATE: person.answers}) as call:
        outcome = await call.warm(AgentSession(Broken(), pipeline()))
        assert outcome.status == "failed"
        assert call.telephony.hold_state == "talking"


@SLOW
async def test_a_transfer_that_is_given_up_leads_back_to_the_caller(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    asked = anyio.Event()

    async def ring(_: object) -> bytes:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with a_call(room_server, room_name, agent_room, {CREATE: ring}) as call:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call.warm, AgentSession(Briefing("A caller."), pipeline()))
            with anyio.fail_after(LIMIT):
                await asked.wait()
            with pytest.raises(SessionError, match="under way"):
                await call.warm(AgentSession(Briefing("A caller."), pipeline()))
            with pytest.raises(SessionError, match="under way"):
                await call.telephony.transfer("+15550124")
            tasks.cancel_scope.cancel()
        await call.until(lambda: call.steps[-2:] == ["talking", "failed"])
        assert call.reasons[-1] == "the transfer was given up"


@SLOW
async def test_a_close_ends_a_transfer_that_rings(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    asked, outcomes = anyio.Event(), list[CallOutcome]()

    async def ring(_: object) -> bytes:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with a_call(room_server, room_name, agent_room, {CREATE: ring}) as call:

        async def transfer() -> None:
            outcomes.append(await call.warm(AgentSession(Briefing("A caller."), pipeline())))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transfer)
            with anyio.fail_after(LIMIT):
                await asked.wait()
            assert (await call.session.close()).is_clean
        assert (outcomes[0].status, outcomes[0].reason) == ("failed", "the session was closed meanwhile")


async def test_a_warm_transfer_needs_a_caller_and_a_second_session(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    async with a_call(room_server, room_name, agent_room, {}) as call:
        for wrong in (call.session, AgentSession(Agent("Help."), pipeline()), None):
            with pytest.raises(ConfigurationError, match=r"AgentSession\(Briefing"):
                await call.warm(wrong)  # type: ignore[arg-type]
        used = Briefing("A caller.")
        used.take()  # of the transfer before: nobody would be asked in this one
        with pytest.raises(ConfigurationError, match="has not decided yet"):
            await call.warm(AgentSession(used, pipeline()))
        with pytest.raises(ConfigurationError, match="must be a telephone number"):
            await call.telephony.warm_transfer("desk", AgentSession(Briefing("A caller."), pipeline()))
        with pytest.raises(ConfigurationError, match="take_key must be one of"):
            Briefing("A caller.", take_key="yes")


@SLOW
@pytest.mark.parametrize("code", [1, 2])
async def test_the_example_connects_its_caller_with_a_person_or_says_that_nobody_is_free(
    room_server: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setenv("SIP_TRUNK", "ST_1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)

    async def decide(peer: Peer) -> None:
        await peer.until(lambda: any("a person please" in "".join(stream.chunks) for stream in peer.streams))
        await presses(peer, code)

    person = Person(room_server, decide)
    async with person(), sip_before_room({CREATE: person.answers}, room_server) as sip:
        where = replace(room_server, url=sip.credentials.url)
        async with (
            Working(worker_of("warm_transfer.py", where)),
            api.LiveKitAPI(where.url, where.api_key, where.api_secret) as server,
            joined(room_server, room_name, "sip_1", "sip", PHONE) as caller,
        ):
            await server.agent_dispatch.create_dispatch(
                api.CreateAgentDispatchRequest(agent_name="shop", room=room_name)
            )
            await caller.until(lambda: has_said(caller, "Bicycle shop, hello! How can I help you?"))
            await caller.room.local_participant.send_text("a person please", topic="lk.chat")
            if code == 2:
                await caller.until(lambda: has_said(caller, "Nobody is free. Shall we call you back?"))
                return
            await caller.until(lambda: any(voice(caller, identity) for identity in caller.room.remote_participants))
            assert has_said(caller, "One moment, please.")
            person.is_over.set()
            await was_hung_up(caller)


def voice(peer: Peer, identity: str) -> bool:
    """Whether that participant carries the person's voice."""
    tracks = peer.room.remote_participants[identity].track_publications.values()
    return any(track.name == f"voice of {PERSON}" for track in tracks)

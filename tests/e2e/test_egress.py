"""Recordings by LiveKit's egress: the server's service scripted, and the real server without one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from livekit import api, rtc
from livekit.protocol.egress import EgressInfo, ListEgressRequest, ListEgressResponse

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Watched
from kit.servers.scripted_sip import Refused, ScriptedSip, scripted_sip
from vivavoce.agents import Agent, AgentSession, RoomOptions, SessionOptions
from vivavoce.agents.events import EgressChanged
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telephony import Telephony, TelephonyOptions, egress
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, SessionError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

SLOW = pytest.mark.test_all("make test has a recording that is started and stopped")
START, STOP, LIST = "Egress/StartRoomCompositeEgress", "Egress/StopEgress", "Egress/ListEgress"
FILE = "calls/{room_name}-{time}.ogg"


class Service:
    """An egress service: its recordings go through the given states, one more with each look.

    Args:
        states: From the answer to the start on.
        hangs: Whether the start gets no answer, and begins all the same.
    """

    def __init__(self, *states: str, error: str = "", hangs: bool = False) -> None:
        self._states = list(states)
        self._error = error
        self._hangs = hangs
        self._request = api.RoomCompositeEgressRequest()
        self.scripts = {START: self.start, STOP: self.stop, LIST: self.list}

    def _info(self, status: str) -> EgressInfo:
        info = EgressInfo(egress_id="EG_1", status=f"EGRESS_{status}", error=self._error)
        info.room_composite.CopyFrom(self._request)
        return info

    async def start(self, request: api.RoomCompositeEgressRequest) -> bytes:
        self._request = request
        if self._hangs:
            await anyio.sleep_forever()
        return self._info(self._states.pop(0)).SerializeToString()

    def list(self, request: ListEgressRequest) -> bytes:
        status = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return ListEgressResponse(items=[self._info(status)]).SerializeToString()

    def stop(self, _: object) -> bytes:
        return self._info("ENDING").SerializeToString()


class Recorded(Watched):
    """A session in a room, and its events of the egress."""

    def __init__(self, session: AgentSession[None], asked: list[tuple[str, Any]]) -> None:
        super().__init__()
        self.session = session
        self.asked = asked
        self.seen: list[tuple[str, str]] = []
        session.on(EgressChanged, self._note)

    def _note(self, event: EgressChanged) -> None:
        self.seen.append((event.status, event.egress_id))
        self.changed()

    @property
    def telephony(self) -> Telephony:
        return self.session.telephony

    @property
    def methods(self) -> list[str]:
        return [method for method, _ in self.asked]


@asynccontextmanager
async def in_room(room: rtc.Room, scripts: dict[str, Any]) -> AsyncIterator[Recorded]:
    async with scripted_sip(scripts) as sip:
        async with _session(room, sip.credentials) as session:
            yield Recorded(session, sip.asked)
        assert isinstance(sip, ScriptedSip)


@asynccontextmanager
async def _session(room: rtc.Room, credentials: Credentials) -> AsyncIterator[AgentSession[None]]:
    transport = LiveKitTransport(room, options=RoomOptions(), clock=LoopClock(), credentials=credentials)
    options = SessionOptions(telephony=TelephonyOptions())
    async with AgentSession[None](Agent("Help."), options=options) as session:
        await session.start(transport)
        yield session


async def test_a_recording_has_started_when_it_is_active_and_is_ending_when_it_was_stopped(
    agent_room: rtc.Room, room_name: str
) -> None:
    async with in_room(agent_room, Service("STARTING", "STARTING", "ACTIVE").scripts) as call:
        with pytest.raises(SessionError, match="no egress"):
            await call.telephony.stop_egress()
        recording = await call.telephony.start_egress(FILE)
        assert (recording.egress_id, recording.status) == ("EG_1", "active")
        assert call.methods == [START, LIST, LIST]
        [_, request] = call.asked[0]
        assert (request.room_name, request.audio_only) == (room_name, True)
        assert request.file_outputs[0].filepath == FILE
        with pytest.raises(SessionError, match="runs already"):
            await call.telephony.start_egress(FILE)
        assert (await call.telephony.stop_egress()).status == "ending"
        await call.until(lambda: call.seen == [("started", "EG_1"), ("stopping", "EG_1")])


@SLOW
async def test_a_recording_that_fails_to_begin_says_why(agent_room: rtc.Room) -> None:
    async with in_room(agent_room, Service("STARTING", "FAILED", error="no disk").scripts) as call:
        with pytest.raises(RoomError, match="no disk"):
            await call.telephony.start_egress(FILE)
        await call.until(lambda: call.seen == [("failed", "EG_1")])
        assert STOP not in call.methods


@SLOW
async def test_a_refused_recording_says_why_and_is_not_looked_for(agent_room: rtc.Room) -> None:
    def refuse(_: object) -> bytes:
        raise Refused(400, "invalid_argument", "request has no output")

    async with in_room(agent_room, {START: refuse}) as call:
        with pytest.raises(RoomError, match="invalid_argument: request has no output"):
            await call.telephony.start_egress(api.RoomCompositeEgressRequest(audio_only=True))
    assert call.methods == [START]


@SLOW
async def test_a_recording_whose_start_got_no_answer_is_found_by_its_room(
    agent_room: rtc.Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(egress, "REQUEST_LIMIT", 1.0)
    async with in_room(agent_room, Service("STARTING", "ACTIVE", hangs=True).scripts) as call:
        assert (await call.telephony.start_egress(FILE)).status == "active"


@SLOW
async def test_the_close_stops_a_recording(agent_room: rtc.Room) -> None:
    async with in_room(agent_room, Service("ACTIVE").scripts) as call:
        await call.telephony.start_egress(FILE)
        assert (await call.session.close()).is_clean
    assert call.methods == [START, STOP]


async def test_an_output_that_is_none_is_refused(agent_room: rtc.Room) -> None:
    async with in_room(agent_room, {}) as call:
        for wrong in ("", 3, api.RoomCompositeEgressRequest(room_name="another")):
            with pytest.raises(ConfigurationError):
                await call.telephony.start_egress(wrong)  # type: ignore[arg-type]
    assert call.methods == []


@SLOW
@pytest.mark.real_server
async def test_a_server_without_an_egress_service_says_so_within_the_limit(
    room_server: RoomEndpoint, agent_room: rtc.Room
) -> None:
    credentials = Credentials(url=room_server.url, api_key=room_server.api_key, api_secret=room_server.api_secret)
    async with _session(agent_room, credentials) as session:
        with pytest.raises(RoomError, match="the egress could not be started"):
            await session.telephony.start_egress(FILE)
        assert session.agent_state == "idle"

"""A real telephone (Debian's baresip) in a room with an agent of ours: the line is LiveKit's SIP service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import rtc
from livekit.protocol.sip import CreateSIPParticipantRequest, SIPParticipantInfo, TransferSIPParticipantRequest

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import loud
from kit.line.answering import (
    GREETING,
    GREETING_HERTZ,
    QUESTION_HERTZ,
    Answering,
    pitch_of,
    question,
    seconds_of_sound,
)
from kit.line.baresip import NOTHING, RATE, Baresip, telephone
from kit.line.in_room import hold_in_room, in_room
from kit.line.sip_line import Leg, SipLine, sip_line
from kit.servers.scripted_sip import Script, scripted_sip, sip_refusal
from vivavoce.agents import RoomOptions
from vivavoce.agents.transports.livekit import LiveKitTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.io import CallerInfo

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("seconds of real time, and measured sound; one call of a telephone is in make test"),
]

NUMBER = "+15550199"
PHONE = "+15550100"
PITCH = 15.0
"""Hz by which a room's jitter buffers may move a tone; they stretch it too."""
LOST = 0.2
"""Seconds of sound that may be lost in them."""
CREATE, TRANSFER, REMOVE = "SIP/CreateSIPParticipant", "SIP/TransferSIPParticipant", "RoomService/RemoveParticipant"


class Place(Answering):
    """A room with an agent, a line to it, and a telephone.

    Args:
        server: Has the room.
        name: The room's.
    """

    def __init__(self, folder: Path, server: RoomEndpoint, name: str, line: SipLine, phone: Baresip) -> None:
        super().__init__(folder)
        self.server, self.name, self.line, self.phone = server, name, line, phone
        self.legs: list[Leg] = []
        self.tasks = anyio.create_task_group()

    async def hold(self, leg: Leg) -> None:
        if leg.called_number != NUMBER:
            return  # it is refused
        self.legs.append(leg)
        await in_room(self.server, self.name)(leg)

    async def dial(self) -> None:
        await self.phone.dial(self.line.address(NUMBER))
        await self.phone.until_event("CALL_ESTABLISHED")

    async def greeted(self) -> None:
        await self.until(lambda: self.session.agent_state == "idle" and len(self.history()) == 1)

    # --- LiveKit's SIP service

    async def create(self, request: CreateSIPParticipantRequest) -> bytes:
        """Place a call, as the service does: the answer comes when the telephone answers."""
        limit = request.ringing_timeout.seconds or 30
        try:
            leg = await self.line.call(self.phone.address, request.sip_number or NUMBER, ringing_timeout=limit)
        except RuntimeError as error:
            code = int(str(error).split()[2])
            raise sip_refusal(code, "Refused", status=429, code="resource_exhausted") from error
        except TimeoutError as error:
            raise sip_refusal(408, "Request Timeout", status=408, code="canceled") from error
        self.legs.append(leg)
        self.tasks.start_soon(hold_in_room, leg, self.server, self.name, request.participant_identity, "dialing")
        return SIPParticipantInfo(participant_identity=request.participant_identity).SerializeToString()

    async def transfer(self, request: TransferSIPParticipantRequest) -> bytes:
        """Send REFER, as the service does, and end the call after a success."""
        [leg] = self.legs
        if (code := await leg.transfer(request.transfer_to)) != 200:
            raise sip_refusal(code, "Refused", status=403, code="permission_denied")
        leg.hang_up()
        return b""

    def remove(self, _: Any) -> bytes:
        for leg in self.legs:
            leg.hang_up()
        return b""


@asynccontextmanager
async def place(
    folder: Path,
    server: RoomEndpoint,
    name: str,
    room: rtc.Room,
    *,
    says: npt.NDArray[np.int16] = NOTHING,
    answers: bool = True,
) -> AsyncIterator[Place]:
    async with sip_line() as line, telephone(folder, says=says, answers=answers) as phone:
        it = Place(folder, server, name, line, phone)
        line.on_call = it.hold
        scripts: dict[str, Script] = {CREATE: it.create, TRANSFER: it.transfer, REMOVE: it.remove}
        async with it.tasks, scripted_sip(scripts) as sip:
            options, clock = RoomOptions(), LoopClock()
            transport = LiveKitTransport(room, options=options, clock=clock, credentials=sip.credentials)
            it.tasks.start_soon(it.session.start, transport)  # it waits for the greeting, and so for a caller
            await it.until(lambda: it.is_entered)
            yield it
            await it.session.close()
            it.tasks.cancel_scope.cancel()


async def test_a_telephone_rings_until_the_agent_is_there_and_both_hear_each_other(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    async with place(tmp_path, room_server, room_name, agent_room, says=question(after=3.0)) as it:
        await it.dial()
        await it.until(lambda: len(it.history()) == 3)
        assert it.session.telephony.caller == CallerInfo(
            number="alice",
            called_number=NUMBER,
            parameters={"sip.callStatus": "active", "sip.phoneNumber": "alice", "sip.trunkPhoneNumber": NUMBER},
            line="sip",
            identity="sip_alice",
        )
        await it.legs[0].settle()
        await it.phone.do("hangup")
        await it.until(lambda: it.closed is not None)
    assert (it.errors, it.closed) == ([], "participant_left")
    assert pitch_of(it.question()) == pytest.approx(QUESTION_HERTZ, abs=PITCH)
    heard = it.phone.heard()
    assert pitch_of(loud(heard)[: RATE // 2]) == pytest.approx(GREETING_HERTZ, abs=PITCH)
    assert seconds_of_sound(heard) > GREETING + 2.0 - LOST


async def test_keys_go_both_ways_between_telephone_and_agent(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    async with place(tmp_path, room_server, room_name, agent_room) as it:
        await it.dial()
        await it.greeted()
        await it.phone.press("19*0#AD")
        await it.until(lambda: it.keys == "19*0#AD")
        await it.session.telephony.send_keys("5")
        await it.session.telephony.send_keys("#")
        await it.phone.until(lambda: it.phone.keys() == "5#")
    assert it.errors == []


async def test_a_telephone_that_is_called_answers_and_is_hung_up_by_the_agent(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    async with place(tmp_path, room_server, room_name, agent_room) as it:
        outcome = await it.session.telephony.call(PHONE, ringing_timeout=20.0)
        assert outcome.status == "answered"
        await it.greeted()
        await it.legs[0].settle()
        await it.session.hangup()
        await it.phone.until_event("CALL_CLOSED")
        await it.until(lambda: it.closed is not None)
    assert seconds_of_sound(it.phone.heard()) > GREETING - LOST
    assert it.errors == []


async def test_a_telephone_that_refuses_or_rings_on_is_an_outcome_and_the_call_is_given_up(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    async with place(tmp_path, room_server, room_name, agent_room, answers=False) as it:
        async with anyio.create_task_group() as tasks:

            async def decline() -> None:
                await it.phone.until_event("CALL_INCOMING")
                await it.phone.do("hangup")

            tasks.start_soon(decline)
            refused = await it.session.telephony.call(PHONE, ringing_timeout=20.0)
        assert (refused.status, refused.sip_code) in (("declined", 603), ("busy", 486))
        no_answer = await it.session.telephony.call(PHONE, ringing_timeout=1.0)
        assert no_answer.status in ("no_answer", "no_route")  # nothing was in the room that could be seen ringing
        await it.phone.until_event("CALL_CLOSED", times=2)
    assert it.closed == "user_initiated"


async def test_a_telephone_is_transferred_to_another_one_or_stays_where_that_refuses(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    async with (
        telephone(tmp_path, "bob", answers=True) as bob,
        place(tmp_path, room_server, room_name, agent_room) as it,
    ):
        await it.dial()
        await it.greeted()
        nowhere = await it.session.telephony.transfer(it.line.address("nobody"))
        assert (nowhere.is_answered, nowhere.sip_code) == (False, 480)
        assert it.session.agent_state == "idle"
        outcome = await it.session.telephony.transfer(bob.address)
        assert outcome.is_answered
        await bob.until_event("CALL_ESTABLISHED")
        await it.until(lambda: it.closed is not None)
        assert bob.is_in_call
    assert it.closed == "participant_left"

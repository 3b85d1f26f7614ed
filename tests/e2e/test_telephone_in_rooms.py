"""A telephone in a room, by a stand-in for LiveKit's SIP participant: who calls, its keys, its hang-up."""

from __future__ import annotations

import anyio
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Heard, joined, transport_in
from kit.e2e.working import Working
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.job import JobContext
from vivavoce.agents.records import CloseReport
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.io import CallerInfo

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

PHONE = {
    "sip.callStatus": "active",
    "sip.phoneNumber": "+15550100",
    "sip.trunkPhoneNumber": "+15550199",
    "sip.h.X-Campaign": "spring",
}


async def test_a_telephone_is_linked_when_it_is_answered_and_is_gone_for_good_when_it_hangs_up(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    heard, transport = Heard(), transport_in(agent_room)
    ringing = {**PHONE, "sip.callStatus": "ringing"}
    async with joined(room_server, room_name, "sip_1", "sip", ringing) as phone, anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        async with joined(room_server, room_name, "bot", "agent") as bot:
            await bot.until(lambda: "agent" in bot.audio_from)  # the agent's track is there while it rings
        assert heard.log == []
        assert transport.caller is None
        await phone.room.local_participant.set_attributes({"sip.callStatus": "active"})
        await heard.until(lambda: heard.log == ["linked sip_1"])
        assert transport.caller == CallerInfo(
            number="+15550100", called_number="+15550199", parameters=PHONE, line="sip", identity="sip_1"
        )
        for code, digit in enumerate("abcd", 12):  # as LiveKit's SIP server spells them
            await phone.room.local_participant.publish_dtmf(code=code, digit=digit)
        await heard.until(lambda: heard.log[1:] == ["key A", "key B", "key C", "key D"])
        await phone.room.local_participant.set_attributes({"sip.callStatus": "hangup"})
        await phone.aclose()
        await heard.until(lambda: heard.log[-1] == "left sip_1 for good")
        await transport.aclose()


async def test_a_session_ends_at_once_when_its_telephone_hangs_up(room_server: RoomEndpoint, room_name: str) -> None:
    callers: list[CallerInfo | None] = []
    reports: list[CloseReport] = []
    has_begun, has_closed = anyio.Event(), anyio.Event()

    async def entrypoint(ctx: JobContext) -> None:
        callers.append(ctx.caller)
        await ctx.wait_for_participant()
        callers.append(ctx.caller)
        pipeline = CascadingPipeline(vad=ScriptedVAD(), stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS())
        session = AgentSession(Agent("Help."), pipeline)
        await session.start()
        has_begun.set()
        reports.append(await session.wait_closed())
        has_closed.set()

    options = WorkerOptions(
        url=room_server.url,
        api_key=room_server.api_key,
        api_secret=room_server.api_secret,
        executor=TaskExecution(),
    )
    async with (
        Working(Worker(entrypoint, options=options)),
        joined(room_server, room_name, "sip_1", "sip", PHONE) as phone,
    ):
        with anyio.fail_after(LIMIT):
            await has_begun.wait()
        await phone.room.local_participant.set_attributes({"sip.callStatus": "hangup"})
        left_at = anyio.current_time()
        await phone.aclose()
        with anyio.fail_after(LIMIT):
            await has_closed.wait()

    assert callers[0] is None
    assert callers[1] is not None
    assert (callers[1].number, callers[1].line) == ("+15550100", "sip")
    [report] = reports
    assert report.reason == "participant_left"
    assert anyio.current_time() - left_at < 10.0  # not the grace of one that may come back

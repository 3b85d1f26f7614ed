"""A helper process follows the transcript of a call in a room, through Redis: real ears, a real voice, real audio."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from livekit import rtc

from kit.e2e.calls import OPTIONS, caller_and_agent
from kit.e2e.room_endpoint import RoomEndpoint
from kit.servers.redis_server import running_redis_server
from vivavoce.agents import MemoryOptions, RedisStore

pytestmark = [pytest.mark.real_server, pytest.mark.e2e, pytest.mark.timeout(60)]

PROCESS = Path(__file__).parents[1] / "kit" / "stream_process.py"
ASKS = "table for friday please"
ANSWER = "We have a table for you on friday by the window"


def reader_of(url: str, session_id: str) -> subprocess.Popen[str]:
    arguments = [sys.executable, str(PROCESS), "reader", url, "vivavoce", session_id, "transcript"]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


async def test_a_helper_process_follows_the_transcript_of_a_call_as_it_is_spoken(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    with running_redis_server() as redis:
        store = RedisStore(redis.url)
        async with caller_and_agent(room_server, room_name, agent_room) as start:
            call = await start(ANSWER, options=replace(OPTIONS, memory=MemoryOptions(store=store)))
            helper = reader_of(redis.url, call.session.id)
            assert helper.stdout is not None
            assert await anyio.to_thread.run_sync(helper.stdout.readline) == '"ready"\n'
            call.talker.say(ASKS)
            assert json.loads(await anyio.to_thread.run_sync(helper.stdout.readline)) == ["user_transcript", ASKS]
            assert not call.session.turns, "the words are there before the answer is over"
            await call.turns(1)
            report = await call.session.close()
            rest, _ = await anyio.to_thread.run_sync(helper.communicate)
        assert [json.loads(line) for line in rest.splitlines()] == [["agent_transcript", ANSWER]]
        assert (helper.returncode, report.lost_writes) == (0, 0)
        assert call.messages == [("user", ASKS), ("assistant", ANSWER)]
        await store.aclose()

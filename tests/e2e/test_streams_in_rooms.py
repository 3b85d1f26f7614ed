"""Calls in a room with a memory in Redis: real ears, a real voice, real audio."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from livekit import rtc

from kit.e2e.calls import OPTIONS, caller_and_agent, seconds_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.servers.redis_server import running_redis_server
from vivavoce.agents import MemoryOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import RedisStore, SessionMemory, StoreUnavailable

pytestmark = [
    pytest.mark.real_server,
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("real ears and voices: a recogniser may mishear a word on a busy machine"),
]

PROCESS = Path(__file__).parents[1] / "kit" / "stream_process.py"
ASKS = "table for friday please"
ANSWER = "We have a table for you on friday by the window"
SOUND = 0.35
"""Seconds by which a sound's length may differ."""


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


async def test_redis_is_killed_and_started_again_while_the_agent_speaks_and_the_caller_hears_no_gap(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room
) -> None:
    with running_redis_server() as redis:
        store = RedisStore(redis.url)
        async with caller_and_agent(room_server, room_name, agent_room) as start:
            call = await start(ANSWER, options=replace(OPTIONS, memory=MemoryOptions(store=store)))
            call.talker.say(ASKS)
            await call.talker.hears_the_agent(for_seconds=0.2)
            killed_at = call.talker.now
            await anyio.to_thread.run_sync(lambda: redis.stop(by=signal.SIGKILL))
            with pytest.raises(StoreUnavailable):
                await call.session.memory.data.set("key", 1)
            await anyio.to_thread.run_sync(redis.start)
            await call.turns(1)
            assert await call.session.memory.data.set("key", 2)
            report = await call.session.close()
        ((begin, end),) = call.talker.heard()
        assert begin < killed_at < end
        assert end - begin == pytest.approx(await seconds_of(ANSWER), abs=SOUND)
        assert [(event.source, event.is_recovered) for event in call.recording.of(ErrorOccurred)] == [("memory", True)]
        assert report.lost_writes == 0
        async with SessionMemory.attach(store, call.session.id) as memory:
            said = [(message.role, message.content) for message in await memory.get_chat_history()]
        assert said == [("user", ASKS), ("assistant", ANSWER)]
        await store.aclose()

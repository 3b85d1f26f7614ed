"""The page, the agent and the conversation come back when the room server is killed and started again in a call."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from aiohttp import ClientSession
from livekit import api
from livekit.protocol import models

from kit.e2e.command import running
from kit.e2e.dev_app import seen
from kit.page.caller import Caller, calling
from kit.page.voice import speech_file
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET, RoomProcess, RoomServerOptions

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(175),
    pytest.mark.test_all("a spoken call: behind a browser's noise filter a recogniser mishears"),
]

WORDS_OF_USER = """
(words) => window.seen.some((s) => s[0] === 'user' && s[2] && s[1].toLowerCase().replace(/[^a-z ]/g, '') === words)
"""
"""The user is shown to have said exactly these words; the recogniser writes capitals and points too."""
HELLO = Path(__file__).resolve().parents[2] / "examples" / "hello.py"
BOOKED = "Your table is booked for friday at"
"""The time was said before the restart. If the caller unmutes within a word, another one may be heard."""


@asynccontextmanager
async def restarted(room: RoomProcess, caller: Caller) -> AsyncIterator[RoomProcess]:
    """Kill the server, wait until the page says that it is gone, and start it on the same port."""
    room.kill()
    await caller.until("document.getElementById('banner-title').textContent === 'The server cannot be reached'")
    assert "tries again" in await caller.text("#banner-text")
    assert await caller.page.evaluate("document.body.dataset.state") == "reconnecting"
    # The agent's client needs longer on a busy machine; its return ends the wait.
    async with RoomProcess(RoomServerOptions(port=int(room.url.rpartition(":")[2]), restart_wait=30.0)) as anew:
        yield anew


async def agents_in(room: RoomProcess, name: str) -> list[str]:
    async with ClientSession() as http:
        url = room.url.replace("ws", "http", 1)
        server = api.LiveKitAPI(url, DEV_API_KEY, DEV_API_SECRET, session=http)
        found = await server.room.list_participants(api.ListParticipantsRequest(room=name))
        return [one.identity for one in found.participants if one.kind == models.ParticipantInfo.AGENT]


async def test_a_call_goes_on_when_the_server_is_killed_and_started_again(tmp_path: Path, room_name: str) -> None:
    # Muted until after the restart: the first ten seconds are for getting that far.
    voice = await speech_file(tmp_path / "voice.wav", "on friday", before=10.0, after=4.0)
    async with RoomProcess(RoomServerOptions(port=0)) as room:
        account = {"LIVEKIT_URL": room.url, "LIVEKIT_API_KEY": DEV_API_KEY, "LIVEKIT_API_SECRET": DEV_API_SECRET}
        page = f"{room.url.replace('ws', 'http', 1)}/?room={room_name}"
        with running(tmp_path, "start", str(HELLO), **account) as worker:
            await seen(worker, "registered")
            async with calling(page, voice, loops=True) as caller:
                await caller.click("join")
                await caller.in_call()
                await caller.click("mute")
                await caller.caption("agent", "Hello! For which day?")
                await caller.type("at seven")
                await caller.until("document.querySelectorAll('#log .agent').length === 2")
                (before,) = await agents_in(room, room_name)
                async with restarted(room, caller) as anew:
                    await caller.in_call()
                    await caller.until("document.getElementById('orb').dataset.agent !== 'none'")
                    await caller.until("document.getElementById('banner').hidden")
                    assert await caller.page.get_attribute("#mute", "aria-pressed") == "true"
                    await caller.click("mute")
                    await caller.until(WORDS_OF_USER, "on friday")
                    await caller.audible()
                    await caller.until("(said) => window.seen.some((s) => s[1].startsWith(said) && s[2])", BOOKED)
                    assert await agents_in(anew, room_name) == [before]
                    titles = await caller.titles()
                    assert titles[:2] == ["The connection was lost", "The server cannot be reached"]
                    assert set(titles[2:]) <= {"You are back in the call"}
                    assert "The server was restarted" in await caller.text("#log .note")
                    await caller.click("leave")
                    await caller.until("document.body.dataset.state === 'closed'")
            assert await anyio.to_thread.run_sync(worker.end) == 0
            assert "Traceback" not in worker.seen, worker.seen

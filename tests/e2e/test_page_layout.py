"""The browser page on screens from a telephone to a desktop, light and dark: every control can be seen and clicked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.page.caller import Caller, calling
from kit.page.layout import misplaced, misplaced_between
from kit.wanted import all_are_wanted
from vivavoce.agents.page.server import PageServer

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]

WIDTHS = range(320, 1500, 40)
RECORD = {
    "turn_id": "t", "kind": "turn", "user_text": "a table on friday at seven for four people, please", "outcome":
    "completed", "e2e_latency": 0.84, "stages": [
        {"name": "vad_silence", "owner": "config", "seconds": 0.2},
        {"name": "model_first_token", "owner": "provider", "seconds": 0.4},
        {"name": "tts_first_byte", "owner": "provider", "seconds": 0.24},
    ], "tools": [{"name": "book", "arguments": '{"day": "friday", "people": 4}', "output": "booked", "is_error": False,
                  "seconds": 0.1}],
}  # fmt: skip
WORDS = "I have booked a table on friday at seven for four people. Is there anything else that I can do for you?"


BANNER = """
(action) => import('./view.js').then(({ View }) => new View().banner({
    title: 'No agent has come yet', text: 'Is one running for this server? You can stay: it is heard soon.',
}, { action }))
"""
NO_MICROPHONE = """
() => import('./view.js').then(({ View }) => new View().microphone(
    { isMuted: false, isPushToTalk: false, isTalking: false, isThere: false }))
"""
LOBBY_PROBLEM = """
() => import('./view.js').then(({ View }) => new View().lobbyProblem({
    title: 'The browser keeps your microphone from this page', text: 'Allow it: click the icon at the left of the bar.',
}))
"""


@asynccontextmanager
async def talking(server: RoomEndpoint, room_name: str, caller: Caller) -> AsyncIterator[None]:
    """Join with a microphone: an agent with a long name says something, takes files and sends its turn records."""
    room = rtc.Room()
    await room.connect(server.url, server.token("agent-x", room_name, agent=True))
    try:
        await caller.click("join")
        await caller.in_call()
        agent = room.local_participant
        await agent.set_name("The corner table’s friendly host for reservations")
        interim = {"lk.segment_id": "1", "lk.transcription_final": "false"}
        await agent.send_text(WORDS, topic="lk.transcription", attributes=interim)
        await agent.send_text(WORDS, topic="lk.chat")
        await agent.send_text(json.dumps(RECORD), topic="vivavoce.turns")
        await caller.until("document.querySelectorAll('.turn').length === 1")
        await caller.until("document.getElementById('agent-name').textContent.startsWith('The corner')")
        await caller.page.evaluate("document.getElementById('attach').hidden = false")
        yield
    finally:
        await room.disconnect()


async def test_no_control_is_covered_or_overflows_on_any_screen(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path
) -> None:
    found: list[str] = []
    async with (
        PageServer(embedded_room.url, embedded_room.api_key, embedded_room.api_secret) as server,
        calling(f"{server.address}?room={room_name}") as caller,
    ):
        page = caller.page

        async def look(face: str, *, has_pictures: bool = all_are_wanted()) -> None:
            found.extend(await misplaced(page, face, tmp_path if has_pictures else None))
            found.extend(await misplaced_between(page, face, WIDTHS))

        await look("lobby", has_pictures=True)
        await page.evaluate(LOBBY_PROBLEM)
        await look("lobby-problem")
        async with talking(embedded_room, room_name, caller):
            await look("call", has_pictures=True)
            await page.click("#mute")
            await look("muted")
            await page.evaluate(NO_MICROPHONE)
            await look("no-microphone")
            for action in ("", "unblock"):
                await page.evaluate(BANNER, action)
                await look(f"banner-{action}")
            await page.evaluate("document.getElementById('banner').hidden = true")
            await page.click("#health summary")
            await look("health")
            await page.click("#health summary")
            await page.evaluate("document.getElementById('push-to-talk').disabled = false")
            await page.click("#menu summary")
            await page.check("#push-to-talk")
            await look("settings")
            await page.keyboard.press("Escape")
            await look("push-to-talk")
            await page.set_viewport_size({"width": 360, "height": 640})
            await page.click("#show-turns")
            await look("latency")
            await page.set_viewport_size({"width": 360, "height": 640})
            await page.click("#leave")
        await look("over")
    print(f"pictures in {tmp_path}", *found, sep="\n")
    assert found == []

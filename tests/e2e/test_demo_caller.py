"""The demo's caller in a real room, against an agent that greets as soon as the caller is there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import token
from kit.limits import LIMIT
from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.agents.caller.process import run_caller
from vivavoce.agents.caller.voice import speak_all
from vivavoce.agents.cli.demo.agent import GREETING, booking
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.script import free_script
from vivavoce.agents.cli.demo.speech import Speech
from vivavoce.pipelines.core.words import words_of

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(150),
    pytest.mark.test_all("a recogniser may mishear a word on a busy machine"),
]

SPEECH = Speech(voice="hibari", ears="moonshine")
WHOLE = "hello this is the corner table for which day would you like a table"
TRIES = 3
"""A busy machine may garble a word for one caller; a beginning that the ears miss is missed by each."""

FRAME_BYTES = 2 * FRAME_SAMPLES


@asynccontextmanager
async def greeting_agent(server: RoomEndpoint, room_name: str) -> AsyncIterator[None]:
    """An agent whose voice is in the room before the caller, and who greets at once when the caller joins."""
    text = f"{GREETING} {booking().slots[0].ask}"
    async with SPEECH.tts("host") as tts:
        pcm = (await speak_all(tts, [text]))[text] + bytes(SAMPLE_RATE)
    room, source, joined = rtc.Room(), rtc.AudioSource(SAMPLE_RATE, 1), anyio.Event()

    async def greet() -> None:
        await joined.wait()
        for start in range(0, len(pcm), FRAME_BYTES):
            frame = pcm[start : start + FRAME_BYTES].ljust(FRAME_BYTES, b"\0")
            await source.capture_frame(rtc.AudioFrame(frame, SAMPLE_RATE, 1, FRAME_SAMPLES))

    room.on("track_subscribed", lambda *_: joined.set())  # the caller's microphone: it is there
    await room.connect(server.url, token(server, room_name, "agent", "agent"))
    await room.local_participant.publish_track(rtc.LocalAudioTrack.create_audio_track("voice", source))
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(greet)
            yield
            tasks.cancel_scope.cancel()
    finally:
        await room.disconnect()
        await source.aclose()


async def heard_by_caller(server: RoomEndpoint, room_name: str, folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a caller up to its first answer."""
    events: list[tuple[str, dict[str, Any]]] = []
    has_answered = anyio.Event()

    def note(event: str, data: dict[str, Any]) -> None:
        events.append((event, data))
        if event == "says":
            has_answered.set()

    request = CallRequest(
        url=server.url,
        token=token(server, room_name, "caller"),
        wav=str(folder / "call.wav"),
        voice=SPEECH.voice,
        ears=SPEECH.ears,
    )
    async with greeting_agent(server, room_name), anyio.create_task_group() as tasks:
        tasks.start_soon(run_caller, "kit.e2e.slow_ears", asdict(request), note)
        with anyio.fail_after(LIMIT):
            await has_answered.wait()
        tasks.cancel_scope.cancel()
    return events


async def test_a_caller_whose_ears_open_slowly_hears_the_greeting_whole(
    embedded_room: RoomEndpoint, room_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    tried = []
    for number in range(TRIES):
        *events, last = await heard_by_caller(embedded_room, f"{room_name}-{number}", tmp_path)
        heard = " ".join(data["text"] for event, data in events if event == "heard")
        tried.append(" ".join(words_of(heard)))
        if (tried[-1], last) == (WHOLE, ("says", {"text": dict(free_script(0).answers)["which day"]})):
            return
    pytest.fail(f"no caller heard the whole greeting: {tried}")

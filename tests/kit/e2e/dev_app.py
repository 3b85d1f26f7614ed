"""An app for `vivavoce dev`, its folder, and checks of the command and of its callers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np

from kit.e2e.booking_app import BOOKING
from kit.e2e.command import Running
from kit.e2e.listener import Listener, listening
from kit.e2e.room_endpoint import RoomEndpoint
from kit.limits import LIMIT
from vivavoce.agents.dev_room import DEV_API_KEY, DEV_API_SECRET
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav

APP = """
from vivavoce.agents import Agent, AgentSession, JobContext, function_tool


class Host(Agent):
    def __init__(self):
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str, time: str) -> str:
        "Book a table."
        self.session.userdata["booked"] = f"{{day}} {{time}}"
        return "booked"

    async def on_enter(self):
        self.session.userdata["entered"] = True
        log("{version} enter")
        await self.session.say("Hello! For which day?")

    async def on_exit(self):
        log("{version} exit")


async def entrypoint(ctx: JobContext):
    pipeline = pipeline_of(ctx, "{words} {{day}} at {{time}}.")
    session = AgentSession(Host(), pipeline, userdata={{}}, background_audio=HERE / "tone.wav")
    await session.start()
    log(f"{version} started {{sorted(session.userdata)}}")
"""


def write_app(folder: Path, version: str, words: str, *, before: str = "") -> None:
    """Save the app; `words` begin its text about a booking, `before` is at its top."""
    (folder / "app.py").write_text(before + BOOKING + APP.format(version=version, words=words))


def write_folder(folder: Path) -> None:
    """Save the app, and a tone that sounds for as long as anybody has the call."""
    times = np.arange(16000 * 2) / 16000
    tone = (3000 * np.sin(2 * np.pi * 300 * times)).astype(np.int16)
    write_wav(folder / "tone.wav", AudioFrame(tone.tobytes(), 16000))
    write_app(folder, "v1", "The old code booked")


def url_of(command: Running) -> str:
    (url,) = re.findall(r"^room +(\S+)", command.seen, re.MULTILINE)
    return str(url)


def token_for(command: Running, room: str = "kitchen") -> str:
    server = RoomEndpoint(url=url_of(command), api_key=DEV_API_KEY, api_secret=DEV_API_SECRET, kind="embedded")
    return server.token("caller", room)


async def seen(command: Running, text: str, *, times: int = 1) -> None:
    await asyncio.to_thread(command.read_until, text, times=times)


async def hears(caller: Listener, words: str, *, limit: float = LIMIT) -> None:
    await caller.until(lambda: any(words in text for text in caller.texts.values()), limit=limit)


DAYS = {"kitchen": "friday", "hall": "saturday"}


@asynccontextmanager
async def two_calls(dev: Running) -> AsyncIterator[dict[str, Listener]]:
    """Two callers in rooms of their own, each of which has named its day; by their rooms."""
    async with (
        listening(url_of(dev), token_for(dev, "kitchen")) as kitchen,
        listening(url_of(dev), token_for(dev, "hall")) as hall,
    ):
        callers = {"kitchen": kitchen, "hall": hall}
        for room, caller in callers.items():
            await hears(caller, "For which day?")
            await caller.room.local_participant.send_text(f"on {DAYS[room]}", topic="lk.chat")
            await hears(caller, "At what time?")
        yield callers

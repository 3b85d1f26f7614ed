"""A spoken call with the README's agent, on both servers: real ears, a real voice, real audio in a room.

The caller says what the agent asks for, and says it again until it is understood, as people do. So a misheard word
costs seconds and never the verdict.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Peer, joined
from kit.e2e.talker import RATE, record
from kit.e2e.working import Working
from vivavoce.agents.cli.app_file import load_app, with_options

pytestmark = [pytest.mark.both_servers, pytest.mark.e2e, pytest.mark.timeout(180)]

HELLO = Path(__file__).parents[2] / "examples" / "hello.py"
DAY, TIME = "on friday", "at seven"
BOOKED = "Your table is booked for friday at seven."
PATIENCE = 5.0
"""Seconds of silence after which the caller says a line again."""


class Caller:
    """A caller with a voice: its lines, and the sentences that the agent was heard saying."""

    def __init__(self, peer: Peer, microphone: rtc.AudioSource, lines: dict[str, bytes]) -> None:
        self._peer = peer
        self._microphone = microphone
        self._lines = lines

    @property
    def heard(self) -> list[str]:
        return ["".join(s.chunks) for s in self._peer.streams if s.sender != "anna" and s.is_final]

    async def hears_more(self, than: int) -> None:
        """Wait until the agent has said something new, or for as long as the caller is patient."""
        with anyio.move_on_after(PATIENCE):
            await self._peer.until(lambda: len(self.heard) > than)

    async def says(self, line: str) -> None:
        """Say a line, and be silent for a second."""
        pcm = self._lines[line] + bytes(2 * RATE)
        for at in range(0, len(pcm), RATE // 25):
            frame = pcm[at : at + RATE // 25].ljust(RATE // 25, b"\0")
            await self._microphone.capture_frame(rtc.AudioFrame(frame, RATE, 1, RATE // 50))
        await self._microphone.wait_for_playout()


async def test_a_caller_books_a_table_by_voice(room_server: RoomEndpoint, room_name: str) -> None:
    worker = with_options(
        load_app(HELLO).worker,
        url=room_server.url,
        api_key=room_server.api_key,
        api_secret=room_server.api_secret,
        agent_name=None,
        health_port=None,
        health_host=None,
    )
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        microphone = await anna.microphone(RATE)
        caller = Caller(anna, microphone, await record((DAY, TIME)))
        await anna.until(lambda: "Hello! For which day?" in caller.heard)
        while not any(BOOKED in sentence for sentence in caller.heard):
            count = len(caller.heard)
            await caller.says(TIME if caller.heard[-1].endswith("At what time?") else DAY)
            await caller.hears_more(than=count)
        await microphone.aclose()

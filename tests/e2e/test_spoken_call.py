"""A spoken call with the README's agent, on both servers: real ears, a real voice, real audio in a room.

The caller says what the agent asks for, and says it again until it is understood, as people do. So a misheard word
costs seconds and never the verdict.
"""

from __future__ import annotations

import anyio
import numpy as np
import pytest
from livekit import rtc

from kit.e2e.examples import agent_said, worker_of
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Peer, joined
from kit.e2e.talker import RATE, record
from kit.e2e.working import Working
from vivavoce.plugins import hibari

pytestmark = [pytest.mark.both_servers, pytest.mark.e2e, pytest.mark.timeout(180)]

DAY, TIME = "on friday", "at seven"
BOOKED = "Your table is booked for friday at seven."
SPOKEN = 3.0
"""Seconds of sound at least; the greeting, the question and the booked sentence have five together."""
LOUD = 1000
"""Of 32768: a sample of a voice, not of noise."""
PATIENCE = 5.0
"""Seconds of silence after which the caller says a line again."""


class Caller:
    """A caller with a voice, who says lines and waits for what the agent says."""

    def __init__(self, peer: Peer, microphone: rtc.AudioSource, lines: dict[str, bytes]) -> None:
        self._peer = peer
        self._microphone = microphone
        self._lines = lines

    async def hears_more(self, than: int) -> None:
        """Wait until the agent has said something new, or for as long as the caller is patient."""
        with anyio.move_on_after(PATIENCE):
            await self._peer.until(lambda: len(agent_said(self._peer)) > than)

    async def says(self, line: str) -> None:
        """Say a line, and be silent for a second."""
        pcm = self._lines[line] + bytes(2 * RATE)
        for at in range(0, len(pcm), RATE // 25):
            frame = pcm[at : at + RATE // 25].ljust(RATE // 25, b"\0")
            await self._microphone.capture_frame(rtc.AudioFrame(frame, RATE, 1, RATE // 50))
        await self._microphone.wait_for_playout()


def seconds_of_sound(peer: Peer) -> float:
    """How much of what came from the agent was sound, in stretches of 20 ms."""
    samples, step = np.abs(peer.audio().astype(np.int32)), PEER_RATE // 50
    stretches = samples[: len(samples) // step * step].reshape(-1, step)
    return float(np.count_nonzero(stretches.max(axis=1) > LOUD)) / 50


async def test_a_caller_books_a_table_by_voice(room_server: RoomEndpoint, room_name: str) -> None:
    worker = worker_of("hello.py", room_server)
    async with Working(worker), joined(room_server, room_name, "anna") as anna:
        microphone = await anna.microphone(RATE)
        caller = Caller(anna, microphone, await record((DAY, TIME), hibari.TTS()))
        await anna.until(lambda: "Hello! For which day?" in agent_said(anna))
        while not any(BOOKED in sentence for sentence in agent_said(anna)):
            count = len(agent_said(anna))
            await caller.says(TIME if agent_said(anna)[-1].endswith("At what time?") else DAY)
            await caller.hears_more(than=count)
        await anna.until(lambda: seconds_of_sound(anna) >= SPOKEN)  # the agent is heard, not only read
        await microphone.aclose()

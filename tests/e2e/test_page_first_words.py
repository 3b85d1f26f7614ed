"""A visitor of the page who speaks before the agent has come, in real Chromium: the agent hears every word, once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Heard, pcm, transport_in
from kit.page.caller import calling
from kit.page.voice import speech_file
from kit.recordings import RATE
from kit.speech import spoken
from vivavoce.agents.page.server import PageServer
from vivavoce.agents.transports.livekit.agent_room import AgentRoom

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(170)]

OPENING = 1.5
"""Seconds of silence at the beginning of the file: a busy machine is slow to open the page's parts."""
WORDS = "a table on friday at seven for four people"
STEP = round(0.02 * RATE)


def envelope(samples: npt.NDArray[np.int16]) -> npt.NDArray[np.float64]:
    """The loudness of each 20 ms in decades; the floor hides a codec's noise."""
    pieces = samples[: len(samples) // STEP * STEP].reshape(-1, STEP).astype(np.float64)
    loudness: npt.NDArray[np.float64] = np.log10(np.sqrt((pieces**2).mean(axis=1)) + 30.0)
    return loudness


def sounding(samples: npt.NDArray[np.int16]) -> float:
    """The seconds from the first loud sound to the last one."""
    loud = np.flatnonzero(np.abs(samples.astype(np.int32)) > 0.04 * np.abs(samples.astype(np.int32)).max())
    return float(loud[-1] - loud[0]) / RATE


@pytest.mark.test_all("spoken in real time in a browser; tests of the parts prove the seam")
@pytest.mark.parametrize("comes_after", [5.5, 2.5], ids=["when all was said", "in the middle"])
async def test_words_that_are_spoken_while_the_agent_is_still_joining_are_heard_once(
    room_server: RoomEndpoint, room_name: str, tmp_path: Path, comes_after: float
) -> None:
    (said,) = await spoken(WORDS)
    voice = await speech_file(tmp_path / "voice.wav", WORDS, before=OPENING, after=0.1)
    heard, room = Heard(), AgentRoom(asyncio.get_running_loop())
    async with (
        PageServer(room_server.url, room_server.api_key, room_server.api_secret) as server,
        calling(f"{server.address}?room={room_name}", voice) as caller,
    ):
        await caller.click("join")
        await caller.in_call()
        await anyio.sleep(comes_after)
        await room.connect(room_server.url, room_server.token("agent-x", room_name, agent=True))
        transport = transport_in(room)
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, heard)
            await heard.until(lambda: len(heard.frames) > 50 * 6.5)
            await transport.aclose()
            tasks.cancel_scope.cancel()
        later = rtc.Room()
        await later.connect(room_server.url, room_server.token("observer", room_name))
        (guest,) = (each for each in later.remote_participants.values() if each.identity.startswith("guest"))
        (microphone,) = guest.track_publications.values()
        features = list(microphone.audio_features)
        await later.disconnect()
        await room.disconnect()
    assert not [entry for entry in heard.log if entry.startswith("failed")]
    assert features == [], "the next agent of the call is not kept waiting for a recording"
    audio, words = pcm(heard.frames), pcm([said])
    assert sounding(audio) == pytest.approx(sounding(words), abs=0.5), "no word is missing, and none is doubled"
    pattern, whole = envelope(words), envelope(audio)
    alike = [np.corrcoef(pattern, whole[at : at + len(pattern)])[0, 1] for at in range(len(whole) - len(pattern))]
    assert np.nanmax(alike) > 0.35, "the words are in their order"

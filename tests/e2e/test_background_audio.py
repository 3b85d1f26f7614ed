"""Background audio in a real room: heard at its level alone, quieter under speech, and gone when it is stopped."""

from __future__ import annotations

from pathlib import Path

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from livekit import rtc

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import PEER_RATE, Peer, agent_state, joined, loud, tone
from vivavoce.agents import Agent, AgentSession, BackgroundAudioConfig
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(120),
    pytest.mark.test_all("real sound is judged by its level, which a busy machine may change"),
]

RATE = 24000
AMPLITUDE = 8000.0
AMBIENCE, SPEECH = 440.0, 1000.0
VOLUME, DUCKED = 0.5, 0.2
TOLERANCE = 1.5
"""dB; Opus and the receiver's jitter buffer."""


def whole(frames: list[AudioFrame]) -> AudioFrame:
    return AudioFrame(b"".join(frame.data for frame in frames), RATE)


def dbfs(amplitude: float) -> float:
    return float(20 * np.log10(amplitude / np.sqrt(2) / 32768))


def level_at(samples: npt.NDArray[np.int16], hertz: float) -> float:
    """The level within 40 Hz of a frequency, in dB of full scale (RMS)."""
    window = np.hanning(len(samples))
    power = np.abs(np.fft.rfft(samples * window)) ** 2
    at = np.fft.rfftfreq(len(samples), 1 / PEER_RATE)
    band = power[np.abs(at - hertz) < 40].sum() * 2 / len(samples) / (window**2).sum()
    return float(10 * np.log10(max(band, 1e-3)) - 20 * np.log10(32768))


async def next_second(peer: Peer, skip: float) -> npt.NDArray[np.int16]:
    """Return a second of audio from now on, `skip` seconds later."""
    peer.samples.clear()
    await peer.until(lambda: len(peer.audio()) >= (skip + 1.0) * PEER_RATE)
    return peer.audio()[round(skip * PEER_RATE) :][:PEER_RATE]


async def test_ambience_is_heard_at_its_level_and_quieter_under_speech(
    room_server: RoomEndpoint, room_name: str, agent_room: rtc.Room, tmp_path: Path
) -> None:
    write_wav(tmp_path / "ambience.wav", whole(tone(AMBIENCE, 1.0, RATE, AMPLITUDE)))
    ambience = BackgroundAudioConfig(tmp_path / "ambience.wav", volume=VOLUME, duck_volume=DUCKED)
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())
    session: AgentSession[None] = AgentSession(Agent("x"), pipeline, background_audio=ambience)
    async with joined(room_server, room_name, "caller") as caller:
        await session.start(agent_room)
        await caller.until(lambda: len(loud(caller.audio())) > PEER_RATE / 2)  # it is there
        alone = await next_second(caller, 0.5)
        assert level_at(alone, AMBIENCE) == pytest.approx(dbfs(AMPLITUDE * VOLUME), abs=TOLERANCE)
        assert level_at(alone, SPEECH) < -60
        assert agent_state(caller) == "listening"  # the room's name of idle

        speech = session.say("a tone", audio=whole(tone(SPEECH, 3.0, RATE, AMPLITUDE)))
        under = await next_second(caller, 1.0)
        assert level_at(under, SPEECH) == pytest.approx(dbfs(AMPLITUDE), abs=TOLERANCE)
        assert level_at(under, AMBIENCE) == pytest.approx(dbfs(AMPLITUDE * DUCKED), abs=TOLERANCE)
        assert agent_state(caller) == "speaking"
        await speech
        assert speech.outcome == "completed"
        assert speech.played_seconds == pytest.approx(3.0)

        again = await next_second(caller, 1.0)
        assert level_at(again, AMBIENCE) == pytest.approx(dbfs(AMPLITUDE * VOLUME), abs=TOLERANCE)
        assert level_at(again, SPEECH) < -55
        session.stop_background_audio()
        await anyio.sleep(1.0)  # the fade, and audio on its way
        caller.samples.clear()
        await anyio.sleep(1.0)
        rest = caller.audio()
        assert not len(rest) or np.abs(rest).max() < 300
        report = await session.close()
        assert not any(step.error for step in report.steps)

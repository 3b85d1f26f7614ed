"""say(text, audio=...): frames, frames as they come, files; heard text by played/total; failures."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest

from vivavoce.agents import Agent, SessionOptions, SpeechLimits
from vivavoce.agents.audio.utterance import LOOKAHEAD_SECONDS
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import SessionHarness
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.errors import AudioFileError, CapabilityError, ConfigurationError
from vivavoce.pipelines.media.audio_file import AudioFileReader
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.pipelines.pipeline import PipelineCapabilities
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel

RATE = 24000
TEN_WORDS = "one two three four five six seven eight nine ten"


def numbered(samples: int, rate: int = RATE) -> AudioFrame:
    """Audio in which every sample identifies its position."""
    return AudioFrame((np.arange(samples) % 30000 + 1).astype(np.int16).tobytes(), rate)


def heard_by(harness: SessionHarness) -> bytes:
    assert isinstance(harness.room.sink, VirtualSink)
    return harness.room.sink.played()


async def in_frames(audio: AudioFrame, seconds: float = 0.02, wait: float = 0.0) -> AsyncIterator[AudioFrame]:
    step = 2 * round(seconds * audio.sample_rate)
    for at in range(0, len(audio.data), step):
        await anyio.sleep(wait)
        yield AudioFrame(audio.data[at : at + step], audio.sample_rate)


def test_frames_that_come_as_they_are_made_are_one_speech_exact_to_the_sample() -> None:
    audio = numbered(RATE + 77)
    played: list[bytes] = []

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("hello there", audio=in_frames(audio, wait=0.005))
        await speech
        assert (speech.outcome, speech.heard_text) == ("completed", "hello there")
        played.append(heard_by(harness))

    SessionHarness(Agent("x")).run(scenario).expect_history(("assistant", "hello there"))
    assert played == [audio.data]


def test_a_stereo_frame_is_mixed_into_one_channel() -> None:
    stereo = AudioFrame(np.array([[100, 300]] * 480, np.int16).tobytes(), RATE, 2)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("beep", audio=stereo)
        assert set(np.frombuffer(heard_by(harness), np.int16)) == {200}

    SessionHarness(Agent("x")).run(scenario)


def test_a_file_is_played_whole_and_exact(tmp_path: Path) -> None:
    path, audio = tmp_path / "jingle.wav", numbered(3 * RATE + 11)
    write_wav(path, audio)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("a jingle", audio=path)
        await speech
        assert speech.outcome == "completed"
        assert speech.played_seconds == pytest.approx(audio.duration)
        assert heard_by(harness) == audio.data
        second = harness.session.say("a jingle", audio=str(path))
        await second
        assert second.outcome == "completed"

    harness = SessionHarness(Agent("x")).run(scenario)
    assert harness.tts.texts == []


class Mute(RealtimePipeline):
    @property
    def capabilities(self) -> PipelineCapabilities:
        return replace(super().capabilities, can_say=False)


def test_a_file_needs_no_voice(tmp_path: Path) -> None:
    path, audio = tmp_path / "jingle.wav", numbered(RATE)
    write_wav(path, audio)
    harness = SessionHarness(Agent("x"), pipeline=Mute(ScriptedRealtimeModel()))

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError):
            await harness.session.say("hello")
        await harness.session.say("a jingle", audio=path)
        assert heard_by(harness) == audio.data

    harness.run(scenario)


@pytest.mark.parametrize(("after", "words"), [(3.1, 1), (15.0, 5), (27.1, 9)])
def test_what_is_heard_of_a_long_file_goes_by_its_whole_length_although_it_is_read_bit_by_bit(
    tmp_path: Path, after: float, words: int
) -> None:
    path = tmp_path / "story.wav"
    write_wav(path, numbered(30 * 8000, 8000))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(TEN_WORDS, audio=path)
        await harness.until(after)
        await harness.session.interrupt()
        await speech
        assert speech.outcome == "interrupted"
        assert speech.played_seconds == pytest.approx(after)
        assert abs(len(speech.heard_text.split()) - words) <= 1

    SessionHarness(Agent("x")).run(scenario)


def test_a_long_file_is_not_loaded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "story.wav"
    read: list[float] = []
    write_wav(path, numbered(60 * 8000, 8000))
    original = AudioFileReader.read

    def counting(self: AudioFileReader) -> AudioFrame | None:
        frame = original(self)
        read.append(0.0 if frame is None else frame.duration)
        return frame

    monkeypatch.setattr(AudioFileReader, "read", counting)

    async def scenario(harness: SessionHarness) -> None:
        story = harness.session.say("a story", audio=path)
        await harness.until(5.0)
        assert 5.0 < sum(read) <= 5.0 + LOOKAHEAD_SECONDS + 1.0
        await harness.session.interrupt()
        assert story.played_seconds == pytest.approx(5.0)

    SessionHarness(Agent("x")).run(scenario)


def test_a_file_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match=r"nowhere\.wav"):
            await harness.session.say("a jingle", audio=tmp_path / "nowhere.wav")

    SessionHarness(Agent("x")).run(scenario)


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_broken_or_empty_file_fails_its_speech_and_the_next_one_works(tmp_path: Path, is_empty: bool) -> None:
    path = tmp_path / "broken.wav"
    path.write_bytes(b"RIFF\0\0\0\0WAVEjunk")
    if is_empty:
        write_wav(path, AudioFrame(b"", RATE))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("a jingle", audio=path)
        await speech
        assert speech.outcome == "failed"
        assert isinstance(speech.exception(), AudioFileError)
        assert speech.heard_text == ""
        await harness.session.say("hello")

    harness = SessionHarness(Agent("x")).run(scenario)
    harness.expect_history(("assistant", "hello")).expect_outcomes("failed", "completed")
    assert [event.source for event in harness.recording.of(ErrorOccurred)] == ["audio"]


async def test_a_file_that_does_not_come_fails_its_speech_at_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, goes_on = tmp_path / "slow.wav", threading.Event()
    write_wav(path, numbered(RATE))
    monkeypatch.setattr(AudioFileReader, "read", lambda self: goes_on.wait(60) and None)
    options = SessionOptions(speech=SpeechLimits(tts_stall=0.1))
    try:
        async with SessionHarness(Agent("x"), options=options) as harness:  # in real time, which no thread holds
            speech = harness.session.say("a jingle", audio=path)
            await speech
            assert speech.outcome == "failed"
            assert isinstance(speech.exception(), AudioFileError)
    finally:
        goes_on.set()


def test_frames_that_raise_fail_the_speech_with_what_was_heard_kept() -> None:
    async def breaking() -> AsyncIterator[AudioFrame]:
        async for frame in in_frames(numbered(RATE)):
            yield frame
        await anyio.sleep(0.5)
        raise ZeroDivisionError

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("one two three four five six seven", audio=breaking())
        await speech
        assert speech.outcome == "failed"
        assert isinstance(speech.exception(), ZeroDivisionError)
        assert speech.played_seconds == pytest.approx(0.5)
        assert speech.heard_text.startswith("one")

    SessionHarness(Agent("x")).run(scenario)


def test_interrupting_ends_the_frames_generator() -> None:
    ended: list[bool] = []

    async def endless() -> AsyncIterator[AudioFrame]:
        try:
            while True:
                yield numbered(480)
        finally:
            ended.append(True)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("music", audio=endless())
        await harness.until(1.0)
        await harness.session.interrupt()
        await speech
        assert speech.outcome == "interrupted"
        assert ended == [True]

    SessionHarness(Agent("x")).run(scenario)

"""Ready audio for `say(text, audio=...)`: a frame, frames as they come, or a file, as pieces for an utterance."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio
import anyio.lowlevel

from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import AudioFileError, ConfigurationError
from vivavoce.pipelines.media.audio_file import AudioFileReader
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.mixer import downmix
from vivavoce.pipelines.tts.base import AudioChunk

GivenAudio = AudioFrame | AsyncIterator[AudioFrame] | str | os.PathLike[str]
"""Audio that `say` plays instead of a synthesis; channels are mixed into one, and rates are converted."""


async def play_given(audio: GivenAudio, text: str, utterance: Utterance, clock: Clock, *, limit: float) -> None:
    """Push `audio`, which says `text`, into `utterance` until its end; long audio is never in memory as a whole.

    Args:
        limit: Seconds for each read of a file. The application's own frames have no limit: they end with the speech.
    Raises:
        AudioFileError: The file is broken, empty or takes too long, or no frame came.
        ConfigurationError: The file needs the extra `audio`, or an item is no frame.
    """
    utterance.heard.add_text(text)
    if isinstance(audio, AudioFrame):
        _push(audio, text, utterance)
        return
    if isinstance(audio, str | os.PathLike):
        frames = _read_file(os.fspath(audio), utterance, clock, limit)
    else:
        frames = _closing(audio)
    async with aclosing(frames):
        async for frame in frames:
            _push(frame, text if not utterance.heard.has_segments else "", utterance)
            await utterance.room()
            await anyio.lowlevel.checkpoint()  # frames that never wait must not block the loop or outlive the speech
    if not utterance.total and text.strip():
        raise AudioFileError("needed audio to play, got none: it ended before its first sample")


def _push(frame: AudioFrame, text: str, utterance: Utterance) -> None:
    if not isinstance(frame, AudioFrame):
        raise ConfigurationError(f"say(text, audio=...) needs AudioFrames, got {type(frame).__name__}")
    if frame.data:
        utterance.push(AudioChunk(downmix(frame), text=text))


async def _read_file(path: str, utterance: Utterance, clock: Clock, limit: float) -> AsyncGenerator[AudioFrame, None]:
    reader, threads = AudioFileReader(path), ThreadPool(1, name="audio file")
    try:
        while True:
            try:
                with anyio.fail_after(limit), clock.hold():
                    frame = await threads.run(reader.read)
            except TimeoutError as error:
                raise AudioFileError(f"reading the audio file {path!r} took more than {limit:g} s") from error
            if frame is None:
                return
            if reader.duration is not None:
                utterance.heard.expect(round(reader.duration * utterance.rate))
            yield frame
    finally:
        reader.close()


async def _closing(frames: AsyncIterator[AudioFrame]) -> AsyncGenerator[AudioFrame, None]:
    try:
        async for frame in frames:
            yield frame
    finally:
        aclose = getattr(frames, "aclose", None)
        if aclose is not None:
            await aclose()

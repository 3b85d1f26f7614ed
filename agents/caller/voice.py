"""The caller's voice: its lines, spoken or read from WAV files before the call, so that the call does not wait."""

from __future__ import annotations

import wave
from collections.abc import Iterable
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.caller.line import SAMPLE_RATE
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.gain import ramp
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.media.wav import read_wav

if TYPE_CHECKING:
    from vivavoce.pipelines.tts.base import TTS


async def speak_all(tts: TTS, lines: Iterable[str], *, pitch: float = 1.0, gain: float = 1.0) -> dict[str, bytes]:
    """Return each line as PCM of `SAMPLE_RATE`, mono.

    Args:
        pitch: Factor of the voice's pitch and pace, as of a tape that plays at another speed.
        gain: Factor of its loudness.
    Raises:
        ProviderError: The voice failed.
    """
    spoken: dict[str, bytes] = {}
    rate = round(tts.capabilities.sample_rate * pitch)
    for text in lines:
        resampler = Resampler(rate, SAMPLE_RATE)
        async with aclosing(tts.synthesize(text)) as chunks:
            pieces = [resampler.push(AudioFrame(chunk.frame.data, rate)).data async for chunk in chunks]
        spoken[text] = ramp(b"".join(pieces) + resampler.flush().data, gain, gain)
    return spoken


async def read_recording(path: Path) -> bytes:
    """Return a WAV file as PCM of `SAMPLE_RATE`; of several channels, the first counts.

    Raises:
        ConfigurationError: There is no such file, or it is no WAV file of 16-bit PCM.
    """
    try:
        frame = await anyio.to_thread.run_sync(read_wav, path)
    except OSError as error:
        raise ConfigurationError(f"cannot read the recording {str(path)!r}: {error.strerror or error}") from error
    except (ValueError, wave.Error, EOFError) as error:
        raise ConfigurationError(f"the recording {str(path)!r} is no WAV file of 16-bit PCM: {error}") from error
    if frame.num_channels > 1:
        frame = AudioFrame(frame.to_numpy()[:, 0].tobytes(), frame.sample_rate)
    resampler = Resampler(frame.sample_rate, SAMPLE_RATE)
    return resampler.push(frame).data + resampler.flush().data

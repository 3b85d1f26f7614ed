"""WAV files for a browser's microphone: sentences of the espeak voice, with silence around them."""

from __future__ import annotations

from pathlib import Path

from kit.speech import RATE, spoken
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.media.wav import write_wav

BROWSER_RATE = 48000


async def speech_file(path: Path, text: str, *, before: float, after: float) -> Path:
    """Write `text` with seconds of silence before and after it, 48 kHz mono."""
    (speech,) = await spoken(text)
    resampler = Resampler(RATE, BROWSER_RATE)
    pieces = [
        AudioFrame.silence(before, BROWSER_RATE).data,
        resampler.push(speech).data,
        resampler.flush().data,
        AudioFrame.silence(after, BROWSER_RATE).data,
    ]
    write_wav(path, AudioFrame(b"".join(pieces), BROWSER_RATE))
    return path

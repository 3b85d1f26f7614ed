"""Reading and writing WAV files of 16-bit PCM."""

from __future__ import annotations

import wave
from pathlib import Path

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame


def read_wav(path: Path) -> AudioFrame:
    """Return a whole WAV file as one frame.

    Raises:
        ValueError: It is not 16-bit PCM.
    """
    with wave.open(str(path), "rb") as file:
        if file.getsampwidth() != BYTES_PER_SAMPLE:
            raise ValueError(f"needed 16-bit PCM, got {8 * file.getsampwidth()}-bit in {str(path)!r}; convert it first")
        return AudioFrame(file.readframes(file.getnframes()), file.getframerate(), file.getnchannels())


def write_wav(path: Path, frame: AudioFrame) -> None:
    """Write one frame, mono or stereo, as a WAV file."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(frame.num_channels)
        file.setsampwidth(BYTES_PER_SAMPLE)
        file.setframerate(frame.sample_rate)
        file.writeframes(frame.data)

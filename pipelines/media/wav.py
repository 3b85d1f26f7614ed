"""Reading and writing WAV files of PCM."""

from __future__ import annotations

import io
import os
import wave
from pathlib import Path

from vivavoce.pipelines.core.private_file import write_private
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
    """Write one frame, mono or stereo, as a WAV file that only its owner may read, in place of an existing file.

    Raises:
        OSError: It cannot be written.
    """
    with io.BytesIO() as whole:
        with wave.open(whole, "wb") as file:
            file.setnchannels(frame.num_channels)
            file.setsampwidth(BYTES_PER_SAMPLE)
            file.setframerate(frame.sample_rate)
            file.writeframes(frame.data)
        write_private(path, whole.getvalue())


class WavDecoder:
    """Reads a WAV file of 8- to 32-bit PCM piece by piece, as 16 bit.

    Raises:
        wave.Error, EOFError: It is broken, or its samples are not PCM.
        OSError: It cannot be opened.
    """

    def __init__(self, path: str) -> None:
        self._file = wave.open(path, "rb")
        self.sample_rate = self._file.getframerate()
        self._channels = self._file.getnchannels()
        self._width = self._file.getsampwidth()
        # The length in the header of a file that was written to a pipe is wrong.
        there = os.path.getsize(path) // (self._channels * self._width)
        self.duration: float | None = min(self._file.getnframes(), there) / self.sample_rate

    def read(self, samples: int) -> AudioFrame:
        """Return up to `samples` samples of each channel; an empty frame at the end."""
        data = self._file.readframes(samples)
        whole = len(data) - len(data) % (self._channels * self._width)  # the file may end in mid sample
        return AudioFrame(_to_16_bit(data[:whole], self._width), self.sample_rate, self._channels)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _to_16_bit(data: bytes, width: int) -> bytes:
    if width == BYTES_PER_SAMPLE:
        return data
    from vivavoce.pipelines.core.native_threads import numpy as np

    raw = np.frombuffer(data, dtype=np.uint8)
    if width == 1:  # unsigned, unlike the others
        return ((raw.astype(np.int16) - 128) << 8).tobytes()
    return raw.reshape(-1, width)[:, -BYTES_PER_SAMPLE:].tobytes()  # the two high bytes

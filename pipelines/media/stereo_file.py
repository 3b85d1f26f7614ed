"""Writing stereo audio piece by piece, to WAV or, by PyAV (the extra `audio`), Ogg Opus. It blocks: use a thread.

A WAV file is valid after every piece, so that it can be played even if the process dies.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from vivavoce.pipelines.core.private_file import create_private
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE

if TYPE_CHECKING:
    import av

CHANNELS = 2
_HEADER = struct.Struct("<4sI4s4sIHHIIHH4sI")
_MOST = 0xFFFFFFFF - _HEADER.size
"""Bytes of sound that a WAV file can hold: twelve hours at 24 kHz."""


class StereoFile(Protocol):
    """A file being written."""

    path: Path

    def write(self, data: bytes) -> None:
        """Append interleaved 16-bit PCM.

        Raises:
            OSError: The disk is full, or gone.
        """

    def close(self) -> None:
        """End the file."""


def create(path: Path, sample_rate: int) -> StereoFile:
    """Create a new file, `path` or a free name beside it; only its owner may read it.

    Raises:
        OSError: It cannot be made.
        ImportError: It needs the extra `audio`.
    """
    if path.suffix != ".wav":
        import av  # noqa: F401 - before anything is made
    descriptor, free = create_private(path)
    if path.suffix == ".wav":
        return WavWriter(free, descriptor, sample_rate)
    os.close(descriptor)
    return OpusWriter(free, sample_rate)


class WavWriter:
    """16-bit PCM, two channels."""

    def __init__(self, path: Path, descriptor: int, sample_rate: int) -> None:
        self.path = path
        self._rate = sample_rate
        self._bytes = 0
        self._file = os.fdopen(descriptor, "wb", buffering=0)
        self._put(self._header())

    def write(self, data: bytes) -> None:
        """Append the samples, and update the length in the header."""
        if self._bytes + len(data) > _MOST:
            raise OSError(errno.EFBIG, "a WAV file holds no more than 4 GiB")
        self._put(data)
        self._bytes += len(data)
        os.pwrite(self._file.fileno(), self._header(), 0)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _put(self, data: bytes) -> None:
        view = memoryview(data)
        while view:  # an unbuffered file may take less
            view = view[self._file.write(view) or 0 :]

    def _header(self) -> bytes:
        align = CHANNELS * BYTES_PER_SAMPLE
        return _HEADER.pack(
            *(b"RIFF", _HEADER.size - 8 + self._bytes, b"WAVE", b"fmt ", 16, 1, CHANNELS, self._rate),
            *(self._rate * align, align, 8 * BYTES_PER_SAMPLE, b"data", self._bytes),
        )


class OpusWriter:
    """Opus in Ogg, 24 kbit/s a channel."""

    def __init__(self, path: Path, sample_rate: int) -> None:
        import av

        self.path = path
        self._rate = sample_rate
        with _as_os_error():
            self._container = av.open(str(path), "w", format="ogg")
            self._stream: av.AudioStream = self._container.add_stream("libopus", rate=sample_rate, layout="stereo")
        self._stream.bit_rate = 48_000
        self._samples = 0

    def write(self, data: bytes) -> None:
        """Encode and append."""
        import av

        from vivavoce.pipelines.core.native_threads import numpy as np
        from vivavoce.pipelines.core.native_threads import on_one_core

        frame = av.AudioFrame.from_ndarray(np.frombuffer(data, np.int16).reshape(1, -1), format="s16", layout="stereo")
        frame.sample_rate = self._rate
        frame.pts = self._samples
        is_first = self._samples == 0  # the encoder starts its threads with it
        self._samples += frame.samples
        encode = partial(self._stream.encode, frame)
        with _as_os_error():
            self._container.mux(on_one_core(encode) if is_first else encode())

    def close(self) -> None:
        """Write the samples that the encoder holds, and close the file."""
        with _as_os_error():
            self._container.mux(self._stream.encode(None))
            self._container.close()


@contextmanager
def _as_os_error() -> Iterator[None]:
    """Turn PyAV's errors, some of which have no built-in base, into one kind."""
    import av

    try:
        yield
    except av.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise OSError(str(error)) from error

"""Decoding audio files of any kind (mp3, ogg, flac, m4a …) by PyAV, the extra `audio`; PyAV is loaded on first use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO

import av
from av.audio.resampler import AudioResampler

from vivavoce.pipelines.core.native_threads import (
    numpy,  # noqa: F401 - PyAV's arrays
    on_one_core,
)
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame


class AvDecoder:
    """Reads the first audio stream of a file piece by piece, as 16-bit mono at its own rate.

    Args:
        source: The file's path, or its content.
    Raises:
        ValueError: It is broken, of no known kind, or has no audio in it.
        OSError: It cannot be opened.
    """

    def __init__(self, source: str | bytes) -> None:
        # A playlist must not make the decoder fetch things from elsewhere.
        with _as_value_error():
            file = BytesIO(source) if isinstance(source, bytes) else source
            self._container = av.open(file, mode="r", options={"protocol_whitelist": "file"})
        if not self._container.streams.audio:
            self._container.close()
            raise ValueError("it has no audio stream")
        stream = self._container.streams.audio[0]
        self.sample_rate: int = stream.codec_context.sample_rate
        self.duration: float | None = None
        if self._container.duration is not None:
            self.duration = self._container.duration / av.time_base
        self._pieces = self._read(stream)

    def read(self, samples: int) -> AudioFrame:
        """Return about `samples` samples; an empty frame at the end."""
        data = bytearray()
        with _as_value_error():
            for piece in self._pieces:
                data += piece
                if len(data) >= BYTES_PER_SAMPLE * samples:
                    break
        return AudioFrame(bytes(data), self.sample_rate)

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def _read(self, stream: av.AudioStream) -> Iterator[bytes]:
        pieces = self._decode(stream)
        yield on_one_core(lambda: next(pieces, b""))  # the decoder starts its threads with it
        yield from pieces

    def _decode(self, stream: av.AudioStream) -> Iterator[bytes]:
        resampler = AudioResampler(format="s16", layout="mono", rate=self.sample_rate)
        for frame in self._container.decode(stream):
            frame.pts = None  # samples without times: gaps in the file's times must not be filled
            for out in resampler.resample(frame):
                yield out.to_ndarray().tobytes()
        for out in resampler.resample(None):
            yield out.to_ndarray().tobytes()


@contextmanager
def _as_value_error() -> Iterator[None]:
    """Turn PyAV's errors, some of which have no built-in base, into one kind."""
    try:
        yield
    except av.FFmpegError as error:
        if isinstance(error, OSError):
            raise
        raise ValueError(str(error)) from error

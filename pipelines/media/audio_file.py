"""AudioFileReader: an audio file as mono frames, read piece by piece in a thread.

WAV files of PCM are read by the standard library; every other kind needs PyAV, the extra `audio`.
"""

from __future__ import annotations

import os
import threading
import wave
from typing import Protocol

from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import AudioFileError, ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.mixer import downmix

PIECE_SECONDS = 1.0
"""How much audio one read returns, about."""


class Decoder(Protocol):
    """An open file."""

    sample_rate: int
    duration: float | None
    """Seconds, if the file says so; an estimate."""

    def read(self, samples: int) -> AudioFrame:
        """Return about `samples` samples; an empty frame at the end."""

    def close(self) -> None:
        """Close the file."""


def check_audio_file(path: str | os.PathLike[str]) -> str:
    """Return `path` as text if there is such a file.

    Raises:
        ConfigurationError: There is none.
    """
    name = os.fspath(path)
    if not isinstance(name, str) or not os.path.isfile(name):
        raise ConfigurationError(
            f"needed the path of an audio file, got {shown(name)}, where no file is; mend the path"
        )
    return str.__str__(name)  # a plain str, without a subclass's methods


class AudioFileReader:
    """Reads one file, once or repeatedly. `read` and `rewind` block and are meant for one thread at a time.

    `close` does not block and may be called during a read in a thread, which then closes the file.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._decoder: Decoder | None = None
        self._lock = threading.Lock()
        self.is_closed = False

    @property
    def duration(self) -> float | None:
        """Length in seconds by the file's header, from the first read on; an estimate for some kinds."""
        return None if self._decoder is None else self._decoder.duration

    def read(self) -> AudioFrame | None:
        """Return the next second or so, mono; None at the end, and after `close()`.

        Raises:
            AudioFileError: The file is gone, broken or of no known kind.
            ConfigurationError: It is no PCM WAV, and the extra `audio` is not installed.
        """
        try:
            with self._lock:
                return self._read()
        finally:
            if self.is_closed:
                self.close()

    def rewind(self) -> None:
        """Start again from the beginning with the next read."""
        with self._lock:
            self._drop()

    def close(self) -> None:
        """Close the file; allowed at any time."""
        self.is_closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._drop()
            finally:
                self._lock.release()

    def _read(self) -> AudioFrame | None:
        if self.is_closed:
            return None
        try:
            if self._decoder is None:
                self._decoder = _open(self._path)
            frame = self._decoder.read(round(PIECE_SECONDS * self._decoder.sample_rate))
        except ConfigurationError:  # a ValueError too, whose text has a remedy
            raise
        except (OSError, EOFError, ValueError, wave.Error) as error:
            raise AudioFileError(f"cannot read the audio file {self._path!r}: {error}") from error
        return downmix(frame) if frame.data else None

    def _drop(self) -> None:
        decoder, self._decoder = self._decoder, None
        if decoder is not None:
            decoder.close()


def _open(path: str) -> Decoder:
    from vivavoce.pipelines.media.wav import WavDecoder

    with open(path, "rb") as file:
        head = file.read(12)
    if head[:4] == b"RIFF" and head[8:] == b"WAVE":
        try:
            return WavDecoder(path)
        except wave.Error as error:
            if "unknown format" not in str(error):  # floats and the like are for PyAV
                raise
    try:
        from vivavoce.pipelines.media.av_file import AvDecoder
    except ImportError as error:
        raise ConfigurationError(
            f"without the extra 'audio' only WAV files of PCM are read, and {path!r} is none: "
            "run pip install 'vivavoce[audio]', or convert it"
        ) from error
    return AvDecoder(path)

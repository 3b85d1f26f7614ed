"""Reading a recording of the caller's client from its byte stream: its format, its size, and its audio."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import anyio
import anyio.to_thread
from livekit import rtc

from vivavoce.pipelines.core.errors import PreConnectOutcome
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.mixer import downmix
from vivavoce.pipelines.media.resample import Resampler

MAX_SECONDS = 30.0
"""A longer recording is heard from there to its end. Clients record 10 s."""
MAX_FILE_SECONDS = 120.0
"""A longer recording in a file of another kind than PCM is refused: few bytes may hold hours."""
MAX_BYTES = 10 * 1024 * 1024
"""A larger recording is refused, as clients keep no larger one."""
PCM_TYPES = ("", "application/octet-stream", "audio/pcm", "audio/x-pcm")
"""MIME types of 16-bit PCM, little-endian; LiveKit's clients name none for it."""
RATES_HZ = range(8000, 192_001)
CHANNELS = range(1, 9)


class RecordingProblem(Exception):
    """A recording that cannot be heard."""

    def __init__(self, outcome: PreConnectOutcome, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Format:
    """The format of a recording.

    Args:
        rate, channels: Of PCM; a file of another kind names its own.
        mime_type: Empty for PCM.
    """

    rate: int
    channels: int
    mime_type: str = ""


def format_of(info: rtc.ByteStreamInfo) -> Format:
    """Return the format that a stream's attributes name.

    Raises:
        RecordingProblem: They name none, or an impossible one.
    """
    kind = info.mime_type.split(";")[0].strip().lower()
    if kind not in PCM_TYPES:
        return Format(rate=0, channels=0, mime_type=info.mime_type[:100])
    attributes = info.attributes or {}
    return Format(
        rate=_number("sampleRate", attributes, RATES_HZ),
        channels=_number("channels", attributes, CHANNELS),
    )


def _number(name: str, attributes: Mapping[str, str], allowed: range) -> int:
    text = attributes.get(name, "")
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else -1
    if number not in allowed:
        raise RecordingProblem(
            "malformed",
            f"the attribute {name!r} must be a whole number from {allowed.start} to {allowed.stop - 1}, "
            f"got {text[:40]!r}; mend the client",
        )
    return number


async def pieces_of(reader: rtc.ByteStreamReader, into: bytearray, on_piece: Callable[[], None]) -> None:
    """Read the stream to its end; `on_piece` is called for each piece.

    Raises:
        RecordingProblem: It broke off (`into` has the part that came), or is too large.
    """
    try:
        async for piece in reader:
            into += piece
            on_piece()
            if len(into) > MAX_BYTES:
                raise RecordingProblem(
                    "malformed", f"it has more than {MAX_BYTES} bytes; send at most {MAX_SECONDS:g} s"
                )
    except ConnectionError as error:
        raise RecordingProblem("incomplete", f"its sending broke off ({error})") from error


async def audio_of(data: bytes, kind: Format, rate: int) -> bytes:
    """Return the recording as 16-bit mono PCM at `rate`; decoded in a thread.

    Raises:
        RecordingProblem: It cannot be decoded.
    """
    return await anyio.to_thread.run_sync(_audio_of, data, kind, rate)


def _audio_of(data: bytes, kind: Format, rate: int) -> bytes:
    if kind.mime_type:
        frame = _decoded(data, kind.mime_type)
    else:
        size = BYTES_PER_SAMPLE * kind.channels
        frame = downmix(AudioFrame(data[: len(data) // size * size], kind.rate, kind.channels))
    resampler = Resampler(frame.sample_rate, rate)
    return resampler.push(frame).data + resampler.flush().data


def _decoded(data: bytes, mime_type: str) -> AudioFrame:
    try:
        from vivavoce.pipelines.media.av_file import AvDecoder
    except ImportError as error:
        raise RecordingProblem(
            "unreadable",
            f"only PCM is read without the extra 'audio', and it is {mime_type!r}: run pip install 'vivavoce[audio]'",
        ) from error
    try:
        decoder = AvDecoder(data)
        try:
            frame = decoder.read(round(MAX_FILE_SECONDS * decoder.sample_rate))
            is_longer = bool(decoder.read(1).data)
        finally:
            decoder.close()
    except (ValueError, OSError) as error:
        raise RecordingProblem("malformed", f"it is no readable {mime_type!r}: {error}; mend the client") from error
    if is_longer:
        raise RecordingProblem("malformed", f"it has more than {MAX_FILE_SECONDS:g} s; send at most {MAX_SECONDS:g} s")
    return frame

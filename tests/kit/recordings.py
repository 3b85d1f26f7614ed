"""Recordings that a caller's client sends: sounds like speech, a room of scripted facts, and streams that arrive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
from livekit.protocol.models import AudioTrackFeature

from vivavoce.agents.transports.livekit.agent_room import PRE_CONNECT_TOPIC
from vivavoce.pipelines.core.errors import PreConnectAudioError, VoiceError
from vivavoce.pipelines.media.frame import AudioFrame

RATE = 16000
JOINED = datetime(2030, 1, 1, tzinfo=UTC)


def babble(seconds: float, *, rate: int = RATE, seed: int = 1, level: float = 4000.0) -> npt.NDArray[np.int16]:
    """Return a sound that is nowhere alike to itself: filtered noise in syllables."""
    random = np.random.default_rng(seed)
    samples = round(seconds * rate)
    noise = np.convolve(random.standard_normal(samples), np.hanning(rate // 1000), mode="same")
    syllables = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * np.arange(samples) / rate)
    sound = noise * syllables
    scaled: npt.NDArray[np.int16] = (level * sound / np.sqrt(np.mean(sound**2))).clip(-32768, 32767).astype(np.int16)
    return scaled


SAID = babble(6.0)
"""What the caller says: the recording is its begin, the live audio its end."""


def part(begin: float, end: float) -> npt.NDArray[np.int16]:
    return SAID[round(begin * RATE) : round(end * RATE)]


def coded(samples: npt.NDArray[np.int16], *, seed: int = 9) -> npt.NDArray[np.int16]:
    """The samples as a codec may leave them: quieter, and with noise."""
    noise = np.random.default_rng(seed).standard_normal(len(samples)) * 800
    return (0.8 * samples + noise).clip(-32768, 32767).astype(np.int16)


def frames(samples: npt.NDArray[np.int16], rate: int = RATE) -> list[AudioFrame]:
    """Return the samples as frames of 20 ms; an incomplete one is left out."""
    step = rate // 50
    return [AudioFrame(samples[at : at + step].tobytes(), rate) for at in range(0, len(samples) - step + 1, step)]


class Stream:
    """Stands for the SDK's reader of a byte stream.

    Args:
        pieces: (seconds after the piece before, bytes).
        breaks_off: Whether it ends by an error.
        attributes: Of the stream; by default those of mono PCM of track `TR_1`.
    """

    def __init__(
        self, *pieces: tuple[float, bytes], breaks_off: bool = False, mime_type: str = "", **attributes: str
    ) -> None:
        self.info: Any = SimpleNamespace(
            mime_type=mime_type,
            attributes={"trackId": "TR_1", "sampleRate": str(RATE), "channels": "1"} | attributes,
        )
        self._pieces = pieces
        self._breaks_off = breaks_off
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for wait, piece in self._pieces:
            await anyio.sleep(wait)
            yield piece
        if self._breaks_off:
            raise ConnectionError("the sender left")

    def close(self) -> None:
        self.is_closed = True


class ScriptedRoom:
    """Stands for the SDK's room."""

    def __init__(self) -> None:
        self.local_participant = SimpleNamespace(joined_at=JOINED + timedelta(seconds=2))
        self.handlers: dict[str, Callable[..., None]] = {}

    def register_byte_stream_handler(self, topic: str, handler: Callable[..., None]) -> None:
        if topic in self.handlers:
            raise ValueError("taken")
        self.handlers[topic] = handler

    def unregister_byte_stream_handler(self, topic: str) -> None:
        del self.handlers[topic]

    def sends(self, stream: Stream, sender: str = "caller") -> None:
        """Let a stream begin to arrive."""
        self.handlers[PRE_CONNECT_TOPIC](stream, sender)


def publication(sid: str = "TR_1", *, announces: bool = True) -> Any:
    """Return what the SDK shows of a track."""
    features = [int(AudioTrackFeature.TF_PRECONNECT_BUFFER)] if announces else []
    return SimpleNamespace(sid=sid, audio_features=features)


def participant(identity: str = "caller", *, joined: float = 0.0) -> Any:
    """Return what the SDK shows of a participant, who joined so many seconds after the begin."""
    return SimpleNamespace(identity=identity, joined_at=JOINED + timedelta(seconds=joined))


class Ears:
    """The session's side: what it hears, and what it is told."""

    def __init__(self) -> None:
        self.frames: list[AudioFrame] = []
        self.lates: list[float] = []
        self.stops = 0
        self.errors: list[PreConnectAudioError] = []

    def audio(self, frame: AudioFrame, late: float = 0.0) -> None:
        self.frames.append(frame)
        self.lates.append(round(late, 3))

    def audio_stopped(self) -> None:
        self.stops += 1

    def failed(self, error: VoiceError, *, is_fatal: bool) -> None:
        assert isinstance(error, PreConnectAudioError)
        assert not is_fatal
        self.errors.append(error)

    @property
    def outcomes(self) -> list[str]:
        return [error.outcome for error in self.errors]

    @property
    def samples(self) -> npt.NDArray[np.int16]:
        return np.concatenate([frame.to_numpy() for frame in self.frames] or [np.zeros(0, np.int16)])

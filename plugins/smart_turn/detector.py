"""TurnDetector and its stream: the caller's newest 8 s, cut at the turn's beginning, judged in a thread."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.core.checks import check_number, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.turn_detector import base
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetectorCapabilities
from vivavoce.plugins.smart_turn.features import SAMPLE_RATE, SAMPLES
from vivavoce.plugins.smart_turn.network import Network, check_onnxruntime
from vivavoce.plugins.smart_turn.weights import WEIGHTS, shared_network

WINDOW_BYTES = BYTES_PER_SAMPLE * SAMPLES
THREAD = BoundedThread("smart_turn")
"""Loads and judges, for all sessions of an event loop."""


class TurnDetector(base.TurnDetector):
    """Smart Turn v3 on audio; share one between sessions, which then share its weights.

    Making one with a path loads the file (some 0.1 s): do it in the process's preparation, not in a call. Without one
    it is loaded at the first verdict, in its thread, once a process.

    Args:
        model_path: An ONNX file of smart-turn-v3; None takes the one of `vivavoce models get smart_turn`.
        threshold: The least probability of a complete turn.
        threads: CPU threads of one verdict.
    Raises:
        ConfigurationError: onnxruntime is not installed, the file is not there, is damaged or is not such a network, or
            a number is out of range.
    """

    provider = "smart_turn"

    def __init__(self, model_path: str | Path | None = None, *, threshold: float = 0.5, threads: int = 1) -> None:
        check_number("threshold", threshold, above=0)
        if threshold >= 1:
            raise ConfigurationError(f"need 0 < threshold < 1, got {threshold!r}")
        check_whole("threads", threads, at_least=1)
        check_onnxruntime()
        self._path = WEIGHTS.checked() if model_path is None else Path(model_path)
        self._threshold = threshold
        load = partial(shared_network if model_path is None else Network, self._path, threads)
        self._network: Callable[[], Network] = cache(load)
        if model_path is not None:
            self._network()

    @property
    def model(self) -> str:
        return self._path.name

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        return TurnDetectorCapabilities(needs_audio=True, needs_transcript=False, sample_rate=SAMPLE_RATE)

    def open(self) -> TurnDetectorStream:
        return TurnDetectorStream(self._network, self._threshold)


class TurnDetectorStream(base.TurnDetectorStream):
    """One session's audio.

    The network must hear the open turn only. No call marks the beginning of a turn, but the questions show it: within a
    turn the text grows and the agent says nothing new. At the first question of another turn, audio from before the
    previous question is forgotten.
    """

    def __init__(self, network: Callable[[], Network], threshold: float) -> None:
        self._network = network
        self._threshold = threshold
        self._heard = bytearray()
        self._asked: TurnContext | None = None
        self._asked_at = 0

    def push(self, frame: AudioFrame) -> None:
        """Take one mono frame of 16 kHz.

        Raises:
            ValueError: It has another rate or more channels.
        """
        if frame.sample_rate != SAMPLE_RATE or frame.num_channels != 1:
            raise ValueError(
                f"smart_turn.TurnDetector needs mono frames of {SAMPLE_RATE} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample first"
            )
        self._heard += frame.data
        if len(self._heard) >= 2 * WINDOW_BYTES:
            del self._heard[:WINDOW_BYTES]
            self._asked_at = max(0, self._asked_at - WINDOW_BYTES)

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        """Judge the turn that has just paused, in a thread: some 10 ms for the features, then the network.

        Raises:
            ProviderError: No verdict.
        """
        if self._asked is not None and not _is_same_turn(self._asked, context):
            del self._heard[: self._asked_at]
        self._asked, self._asked_at = context, len(self._heard)
        pcm = bytes(self._heard[-WINDOW_BYTES:])
        probability = await THREAD.run(self._judge, pcm)  # the thread has its own copy
        return EndOfTurnPrediction(complete=probability >= self._threshold, probability=probability)

    def _judge(self, pcm: bytes) -> float:
        return self._network().probability(pcm)

    def close(self) -> None:
        """Forget the audio."""
        self._heard.clear()
        self._asked, self._asked_at = None, 0


def _is_same_turn(before: TurnContext, now: TurnContext) -> bool:
    return now.agent_text == before.agent_text and now.text.startswith(before.text)

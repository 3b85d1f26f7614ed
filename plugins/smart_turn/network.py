"""The network on onnxruntime: loading and checking the file, and one verdict from PCM."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderProtocolError
from vivavoce.plugins.smart_turn.features import BANDS, FRAMES, log_mel, mel_filters

INPUT = "input_features"


class Network:
    """One set of weights, for all sessions and from any thread.

    Args:
        path: The ONNX file.
        threads: Threads of one verdict.
    Raises:
        ConfigurationError: The file is not there, or it is not such a network.
    """

    def __init__(self, path: Path, threads: int) -> None:
        if not path.is_file():
            raise ConfigurationError(
                f"model_path must name an ONNX file of smart-turn-v3, got {str(path)!r}: no such file; "
                "get one from pipecat-ai/smart-turn-v3, or by `vivavoce models get smart_turn`"
            )
        self._session = _load(path, threads)
        _check(self._session, path)
        self._filters = mel_filters()

    def probability(self, pcm: bytes) -> float:
        """Return the probability that the turn is over, from mono 16-bit PCM of 16 kHz.

        Raises:
            ProviderError: The network failed.
            ProviderProtocolError: Its output is not a probability.
        """
        features = log_mel(pcm, self._filters)
        try:
            answers = self._session.run(None, {INPUT: features[None]})
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
            raise ProviderError(f"the network failed: {error}", provider="smart_turn") from error
        if answers[0].size != 1 or not 0 <= (probability := float(answers[0].item())) <= 1 or math.isnan(probability):
            raise ProviderProtocolError(
                f"needed one probability from 0 to 1, got shape {answers[0].shape} with {answers[0].ravel()[:3]}; "
                "is it a smart-turn-v3 file, with its sigmoid?",
                provider="smart_turn",
            )
        return probability


def check_onnxruntime() -> None:
    """Refuse a machine without onnxruntime.

    Raises:
        ConfigurationError: It is not installed.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        raise ConfigurationError(
            "smart_turn.TurnDetector needs onnxruntime, which is missing: `pip install 'vivavoce[smart-turn]'`"
        )


def _load(path: Path, threads: int) -> Any:
    try:
        return native_threads.open_network(path, threads=threads)
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
        raise ConfigurationError(
            f"model_path must be an ONNX file of smart-turn-v3, got {str(path)!r}, which onnxruntime refuses: {error}"
        ) from error


def _check(session: Any, path: Path) -> None:
    inputs = {one.name: list(one.shape) for one in session.get_inputs()}
    if list(inputs) != [INPUT] or inputs[INPUT][1:] != [BANDS, FRAMES]:
        raise ConfigurationError(
            f"model_path must be an ONNX file of smart-turn-v3, with the one input {INPUT!r} of shape (batch, {BANDS}, "
            f"{FRAMES}), got {str(path)!r} with {inputs!r}; versions 1 and 2 of smart-turn do not fit"
        )

"""Network: Moonshine's encoder and decoder on onnxruntime, and the words of a piece of audio."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.stt.by_utterance import SAMPLE_RATE, Heard
from vivavoce.plugins.moonshine import weights

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PROVIDER = "moonshine"
START, END = 1, 2
"""Tokens around a text."""
FIRST_SPECIAL = 32000
"""From here on tokens are no text."""
TOKENS_PER_SECOND = 6.5
"""The most of English; its makers stop the decoder there, since it may repeat words for ever."""
SPARE_TOKENS = 6
SHORTEST = SAMPLE_RATE // 10
"""Samples; the encoder yields nothing for less."""
HEADS, WIDTH = 8, 36
"""Shape of an attention's keys and values."""
SPACE = "\u2581"
THREAD = BoundedThread(PROVIDER)
"""Loads and computes, for all sessions of an event loop."""
_LOADING = threading.Lock()


class Network:
    """One set of weights, for all sessions and from any thread.

    Args:
        folder: The folder of the three files.
    Raises:
        ConfigurationError: A file is damaged, or onnxruntime refuses it.
    """

    def __init__(self, folder: Path) -> None:
        self._encoder = _open(folder, weights.ENCODER)
        self._decoder = _open(folder, weights.DECODER)
        self._pieces = read_pieces(weights.read(folder, weights.TOKENIZER))
        self._outputs = [one.name for one in self._decoder.get_outputs()]
        self._past = [one.name for one in self._decoder.get_inputs() if one.name.startswith("past_key_values")]

    def recognise(self, pcm: bytes) -> Heard:
        """Return the words of mono 16-bit PCM of 16 kHz; some 30 ms of computing for a second of speech.

        Raises:
            ProviderError: The network failed.
        """
        from vivavoce.pipelines.core.native_threads import numpy as np

        samples = np.frombuffer(pcm, dtype=np.int16).astype(np.float32) / np.float32(32768)
        if len(samples) < SHORTEST:
            return Heard()
        try:
            tokens, probability = self._decode(samples)
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
            raise ProviderError(f"the network failed: {error}", provider=PROVIDER, retryable=True) from error
        return Heard(self._text(tokens), probability)

    def _decode(self, samples: npt.NDArray[np.float32]) -> tuple[list[int], float]:
        """Return the tokens, each the likeliest one, and the mean of their probabilities."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        mask = np.ones((1, len(samples)), dtype=np.int64)
        (states,) = self._encoder.run(None, {"input_values": samples[None], "attention_mask": mask})
        fixed = {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        past = {name: np.zeros((1, HEADS, 0, WIDTH), dtype=np.float32) for name in self._past}
        tokens, logs, newest = list[int](), list[float](), START
        for step in range(int(len(samples) / SAMPLE_RATE * TOKENS_PER_SECOND) + SPARE_TOKENS):
            feed = {"input_ids": np.array([[newest]]), "use_cache_branch": np.array([step > 0]), **fixed, **past}
            answers = dict(zip(self._outputs, self._decoder.run(None, feed), strict=True))
            logits = answers["logits"][0, -1]
            newest = int(logits.argmax())
            logs.append(-float(np.log(np.exp(logits - logits[newest]).sum())))
            if newest == END:
                break
            tokens.append(newest)
            for name in self._past:
                if step == 0 or ".decoder." in name:  # the encoder's do not change
                    past[name] = answers[name.replace("past_key_values", "present")]
        return tokens, float(np.exp(np.mean(logs)))

    def _text(self, tokens: list[int]) -> str:
        spelt = b"".join(self._pieces[token] for token in tokens if token < FIRST_SPECIAL)
        return " ".join(spelt.decode("utf-8", errors="replace").replace(SPACE, " ").split())


def read_pieces(data: bytes) -> list[bytes]:
    """Return the spelling of each token: a length of one byte, or of two from 128 on, and then that many bytes."""
    pieces, at = list[bytes](), 0
    while at < len(data):
        length, at = data[at], at + 1
        if length >= 128:
            length, at = data[at] * 128 + length - 128, at + 1
        pieces.append(data[at : at + length])
        at += length
    return pieces


def shared_network(folder: Path) -> Network:
    """Return the network of this process, which is loaded once; 0.2 s, and some 100 MB.

    Raises:
        ConfigurationError: As `Network`.
    """
    with _LOADING:
        return _loaded(folder)


@lru_cache(maxsize=1)
def _loaded(folder: Path) -> Network:
    return Network(folder)


def _open(folder: Path, name: str) -> Any:
    data = weights.read(folder, name)
    try:
        return native_threads.open_network(data)
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
        raise ConfigurationError(f"onnxruntime refuses {str(folder / name)!r}: {error}") from error

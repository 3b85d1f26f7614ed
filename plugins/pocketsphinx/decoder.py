"""Decoder: one pocketsphinx decoder with a grammar or the general model, and the recognition of an utterance."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.pocketsphinx.dictionary import cut
from vivavoce.plugins.pocketsphinx.grammar import FILLER_SUFFIX, Grammar

SEARCH = "vivavoce"
BYTES_PER_SECOND = 32000
FRAMES_PER_SECOND = 100
"""Number of cepstra."""
MEAN_WEIGHT = 500
"""Cepstra that the mean at an utterance's start counts for (`CMN_WIN` in pocketsphinx). The decoder's mean afterwards
is the weighted one of both; from it follows the utterance's own."""
MAX_SECOND_PASS = 15.0
"""Seconds of the longest utterance with a second pass; later the mean is known, and the pass would take too long."""
_LOADING = threading.Lock()
"""Guards pocketsphinx's own log file, of which a process has one."""


class DecoderModel:
    """The common settings of one STT's decoders.

    Args:
        grammar: None for the general language model.
        pronunciations: Words that the dictionary lacks.
    """

    def __init__(self, grammar: Grammar | None, pronunciations: Mapping[str, str]) -> None:
        self._grammar = grammar
        self._pronunciations = pronunciations
        self._dictionary: str | None = None

    def load(self) -> Decoder:
        """Return a decoder. Blocks, for some 10 ms with a grammar (the first time 40), 270 ms without.

        Raises:
            ConfigurationError: The grammar is wrong; the text has the decoder's reason.
        """
        import pocketsphinx

        with _LOADING, tempfile.TemporaryDirectory(prefix="vivavoce-") as folder:
            log = Path(folder, "decoder.log")
            common = {"logfn": str(log), "loglevel": "ERROR", "bestpath": False}
            try:
                if self._grammar is None:
                    return Decoder(pocketsphinx.Decoder(**common))
                small = Path(folder, "words.dict")
                small.write_text(self._words(self._grammar), encoding="utf-8")
                engine = pocketsphinx.Decoder(lm=None, dict=str(small), **common)
                try:
                    engine.add_jsgf_string(SEARCH, self._grammar.text)
                    engine.activate_search(SEARCH)
                except ValueError as error:
                    raise ConfigurationError(f"grammar does not parse: {_complaints(log) or error}") from error
                if said := _complaints(log):  # an undefined rule is no failure for pocketsphinx
                    raise ConfigurationError(f"grammar does not parse: {said}")
                return Decoder(engine)
            finally:
                pocketsphinx.set_loglevel("FATAL")  # else it goes on writing to the deleted file

    def _words(self, grammar: Grammar) -> str:
        import pocketsphinx

        if self._dictionary is None:
            with open(pocketsphinx.get_model_path("en-us/cmudict-en-us.dict"), encoding="utf-8") as lines:
                self._dictionary = cut(lines, grammar, self._pronunciations)
        return self._dictionary


class Decoder:
    """A loaded decoder, for one thread at a time.

    Recognition depends on the mean of the audio's cepstra, which the decoder learns over seconds: in the first
    utterance it knows little. So the words of the first pass are only provisional, and `end()` makes a second pass with
    the utterance's own mean, with which the next one starts. (Of 120 booking phrases, each the first of its session,
    21 … 33 are wrong in the first pass and 0 … 4 in the second.) There is no rescoring of the lattice: it made more
    errors, took up to 1.8 s, and its confidence separates nothing.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._mean = self._current_mean()
        self._frames: list[bytes] = []
        self._seconds = 0.0

    @property
    def seconds(self) -> float:
        """Of the utterance so far."""
        return self._seconds

    def begin(self) -> None:
        """Begin an utterance."""
        self._frames = []
        self._seconds = 0.0
        self._start(self._mean)

    def feed(self, pcm: bytes) -> str:
        """Decode more of it (16 kHz mono) and return its present words; 0.2 ms for 20 ms with a grammar."""
        self._seconds += len(pcm) / BYTES_PER_SECOND
        if self._seconds <= MAX_SECOND_PASS:
            self._frames.append(pcm)
        self._engine.process_raw(pcm)
        return self._text()

    def abandon(self) -> None:
        """End the utterance without a result."""
        self._engine.end_utt()
        self._frames = []

    def end(self, between: Callable[[], None]) -> str:
        """End the utterance and return its words; empty if the grammar does not allow it to stop there.

        Args:
            between: Called between two pieces of the second pass, which takes some 10 ms for each second of speech.
        """
        self._engine.end_utt()
        frames, self._frames = self._frames, []
        voiced = FRAMES_PER_SECOND * sum(len(pcm) for pcm in frames if any(pcm)) / BYTES_PER_SECOND
        if self._seconds > MAX_SECOND_PASS or not voiced:
            return self._text()
        learnt = self._current_mean()
        pull = MEAN_WEIGHT / voiced
        self._mean = [after + (after - before) * pull for before, after in zip(self._mean, learnt, strict=True)]
        self._start(self._mean)
        for pcm in frames:
            self._engine.process_raw(pcm)
            between()
        self._engine.end_utt()
        return self._text()

    def _start(self, mean: list[float]) -> None:
        self._engine.set_cmn(",".join(f"{value:.4f}" for value in mean))
        self._engine.start_utt()

    def _current_mean(self) -> list[float]:
        return [float(value) for value in self._engine.get_cmn(True).split(",")]

    def _text(self) -> str:
        found = self._engine.hyp()
        words = [] if found is None else found.hypstr.split()
        return " ".join(word for word in words if not word.endswith(FILLER_SUFFIX))


def _complaints(log: Path) -> str:
    """Return pocketsphinx's messages, without its source file names and line numbers."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "; ".join(line.rpartition('", line ')[2].partition(": ")[2] or line for line in lines)

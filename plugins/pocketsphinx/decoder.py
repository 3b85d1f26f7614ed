"""Decoder: one pocketsphinx decoder, loaded with a grammar (or the general model) and fed with an utterance at a time."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.pocketsphinx.dictionary import cut
from vivavoce.plugins.pocketsphinx.grammar import FILLER_SUFFIX, Grammar

SEARCH = "vivavoce"
_LOADING = threading.Lock()
"""Guards pocketsphinx's own log file, of which a process has one."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """What the decoder makes of the utterance.

    Args:
        text: Words, fillers dropped.
        confidence: Posterior probability of the final hypothesis.
    """

    text: str
    confidence: float | None = None


class DecoderModel:
    """What the decoders of one STT have in common.

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
            ConfigurationError: The grammar is wrong; the decoder's words say how.
        """
        import pocketsphinx

        with _LOADING, tempfile.TemporaryDirectory(prefix="vivavoce-") as folder:
            log = Path(folder, "decoder.log")
            common = {"logfn": str(log), "loglevel": "ERROR"}
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
                pocketsphinx.set_loglevel("FATAL")  # or it goes on writing to the file just deleted

    def _words(self, grammar: Grammar) -> str:
        import pocketsphinx

        if self._dictionary is None:
            with open(pocketsphinx.get_model_path("en-us/cmudict-en-us.dict"), encoding="utf-8") as lines:
                self._dictionary = cut(lines, grammar, self._pronunciations)
        return self._dictionary


class Decoder:
    """A loaded decoder. Not for two threads at a time."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine

    def begin(self) -> None:
        """Begin an utterance."""
        self._engine.start_utt()

    def feed(self, pcm: bytes) -> Hypothesis:
        """Decode more of it (16 kHz mono) and return what it sounds like so far; 0.2 ms for 20 ms with a grammar."""
        self._engine.process_raw(pcm)
        return self._hypothesis()

    def end(self) -> Hypothesis:
        """End the utterance; the text is empty where the grammar does not allow what was heard to stop there."""
        self._engine.end_utt()
        return self._hypothesis(final=True)

    def _hypothesis(self, *, final: bool = False) -> Hypothesis:
        found = self._engine.hyp()
        if found is None:
            return Hypothesis("")
        text = " ".join(word for word in found.hypstr.split() if not word.endswith(FILLER_SUFFIX))
        return Hypothesis(text, min(1.0, max(0.0, found.prob)) if final and text else None)


def _complaints(log: Path) -> str:
    """Return what pocketsphinx wrote, without its source file names and line numbers."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "; ".join(line.rpartition('", line ')[2].partition(": ")[2] or line for line in lines)

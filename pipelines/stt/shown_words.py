"""ShownWords: the words of interims, for the finals that a fallback makes of their text or of a part of it."""

from __future__ import annotations

from dataclasses import replace

from vivavoce.pipelines.stt.base import STTFinal, STTInterim
from vivavoce.pipelines.stt.recognised import last_words

MOST_KEPT = 32
"""Transcripts that are kept; a fallback makes finals of the newest ones."""


class ShownWords:
    """Knows the newest transcripts with words."""

    def __init__(self) -> None:
        self._shown: dict[str, STTInterim | STTFinal] = {}

    def note(self, heard: STTInterim | STTFinal) -> None:
        """Keep a transcript with words."""
        self._shown.pop(heard.text, None)
        self._shown[heard.text] = heard
        if len(self._shown) > MOST_KEPT:
            del self._shown[next(iter(self._shown))]

    def completed(self, final: STTFinal) -> STTFinal:
        """Return a final with the words of its text: those of the interim that it was made of, or those of its own that
        were left in it."""
        shown = self._shown.get(final.text)
        if not final.words:
            return final if shown is None else replace(final, **shown.recognised())
        return final if shown is not None else replace(final, words=last_words(final.words, final.text))

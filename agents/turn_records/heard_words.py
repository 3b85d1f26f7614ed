"""HeardWords: the recogniser's report of a user's turn beside its text: words with times, speakers, languages."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.pipelines.core.words import count_words
from vivavoce.pipelines.events import UserFinal
from vivavoce.pipelines.stt.recognised import STTWord


@dataclass(slots=True)
class HeardWords:
    """The sum of the finals of one turn.

    Args:
        words: With times of the session clock.
        speakers: The names of the voices, in the order of their first words.
        languages: Each language with its number of words.
        confidence: The sum of the words' confidence, and the number of these words.
    """

    words: list[STTWord] = field(default_factory=list, repr=False)
    speakers: list[str] = field(default_factory=list)
    languages: dict[str, int] = field(default_factory=dict)
    confidence: tuple[float, int] = (0.0, 0)
    _last: UserFinal | None = field(default=None, repr=False)

    def add(self, final: UserFinal) -> None:
        """Add a final; the one that came last is not added again."""
        if final is self._last or not final.text:
            return
        self._last = final
        self.words += final.words
        self.speakers += [name for name in final.speakers if name not in self.speakers]
        count = max(1, count_words(final.text))
        for language in final.languages:
            self.languages[language] = self.languages.get(language, 0) + (count if language == final.language else 0)
        if final.confidence is not None:
            total, words = self.confidence
            self.confidence = (total + final.confidence * count, words + count)

    def forget(self) -> None:
        """Drop the words: the application or the guard has written others."""
        self.words, self._last = [], None

    @property
    def most_spoken(self) -> tuple[str, ...]:
        """The languages, the one of most words first."""
        return tuple(sorted(self.languages, key=lambda language: -self.languages[language]))

    @property
    def mean_confidence(self) -> float | None:
        """The confidence of a word; None if unknown."""
        total, words = self.confidence
        return total / words if words else None

"""Recognised words: their text, and as far as the recogniser reports them times, confidence, speaker and languages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypedDict

from vivavoce.pipelines.core.characters import make_whole
from vivavoce.pipelines.core.words import letters_of


@dataclass(frozen=True, slots=True, kw_only=True)
class STTWord:
    """One recognised word.

    Args:
        text: As in the transcript, with its punctuation.
        start: Seconds of the stream's audio, counted from the first frame that was pushed. A connection that the stream
            opens again goes on counting.
        end: Likewise.
        confidence: 0 … 1, or None if the provider has none.
        speaker: The recogniser's name for the voice, such as "0" or "A"; empty if it does not tell voices apart.
        language: As in a language tag, such as "en-US"; empty if it is that of the transcript.
    Raises:
        ValueError: It ends before it starts, or one of the times is no number of seconds.
    """

    text: str = field(repr=False)
    start: float
    end: float
    confidence: float | None = None
    speaker: str = ""
    language: str = ""

    def __post_init__(self) -> None:
        make_whole(self, "text", "speaker", "language")
        if not 0 <= self.start <= self.end < float("inf"):
            raise ValueError(f"a word needs 0 <= start <= end (s), got {self.start!r} and {self.end!r}")


class RecognisedFields(TypedDict):
    """The fields of `Recognised`, to make one kind of it from another one."""

    text: str
    words: tuple[STTWord, ...]
    speaker: str
    language: str
    languages: tuple[str, ...]
    confidence: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """Words of the user, as a recogniser reports them.

    Args:
        words: The words of `text`, in their order; empty if the recogniser has no times.
        speaker: The one speaker of all words; empty if there are several, whom `words` tell apart, or it is unknown.
            Taken from the words if they have one speaker.
        language: The main language of the words; empty if unknown. The first of `languages` if these alone are given.
        languages: All languages of the words, the one of most words first.
        confidence: 0 … 1, or None if the provider has none.
    """

    text: str = field(repr=False)
    words: tuple[STTWord, ...] = field(default=(), repr=False)
    speaker: str = ""
    language: str = ""
    languages: tuple[str, ...] = ()
    confidence: float | None = None

    def __post_init__(self) -> None:
        make_whole(self, "text", "speaker", "language")
        if self.words:
            self._check_words()
        if self.languages and not self.language:
            object.__setattr__(self, "language", self.languages[0])
        elif self.language and not self.languages:
            object.__setattr__(self, "languages", (self.language,))

    def _check_words(self) -> None:
        for word in self.words:
            if not isinstance(word, STTWord):
                raise TypeError(f"words need to be STTWord, got {type(word).__name__}")
        if not self.speaker and len(found := {word.speaker for word in self.words}) == 1:
            object.__setattr__(self, "speaker", found.pop())

    @property
    def speakers(self) -> tuple[str, ...]:
        """The names of all voices, in the order of their first words."""
        return tuple(dict.fromkeys(filter(None, [self.speaker, *(word.speaker for word in self.words)])))

    def recognised(self) -> RecognisedFields:
        """Return what all kinds of it have."""
        return RecognisedFields(
            text=self.text,
            words=self.words,
            speaker=self.speaker,
            language=self.language,
            languages=self.languages,
            confidence=self.confidence,
        )


def earlier(words: Iterable[STTWord], seconds: float) -> tuple[STTWord, ...]:
    """Return the words with times that count from `seconds` on."""
    moved = ((word, max(0.0, word.start - seconds), max(0.0, word.end - seconds)) for word in words)
    return tuple(replace(word, start=start, end=end) for word, start, end in moved)


def last_words(words: tuple[STTWord, ...], text: str) -> tuple[STTWord, ...]:
    """Return the words at the end of `words` that `text` consists of; none if it has other letters."""
    wanted, spelt = letters_of(text), ""
    for at in range(len(words) - 1, -1, -1):
        if spelt == wanted:
            return words[at + 1 :]
        spelt = letters_of(words[at].text) + spelt
    return words if spelt == wanted else ()


def joined_words(text: str, words: Iterable[STTWord]) -> str:
    """Return these words of a transcript as it joins them: some languages have no spaces."""
    return (" " if " " in text else "").join(word.text for word in words)

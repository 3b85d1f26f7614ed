"""Recognised words: their text, and as far as the recogniser reports them times, confidence, speaker and languages."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.pipelines.core.characters import make_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class STTWord:
    """One recognised word.

    Args:
        text: As in the transcript, with its punctuation.
        start: Seconds of the stream's audio, all frames that were pushed from its opening. A connection that was
            opened again goes on counting.
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
        if self.words and not self.speaker and len(found := {word.speaker for word in self.words}) == 1:
            object.__setattr__(self, "speaker", found.pop())
        if self.languages and not self.language:
            object.__setattr__(self, "language", self.languages[0])
        elif self.language and not self.languages:
            object.__setattr__(self, "languages", (self.language,))

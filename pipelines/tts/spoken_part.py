"""SpokenPart: from where another voice goes on, if a voice breaks off in a text.

| the voice that broke off | the other one goes on |
|---|---|
| sent no audio | from the beginning |
| gives word times | behind the last word whose audio is complete; the word that was begun is spoken again |
| gives none | from the beginning of the sentence in which it broke off |

So each word is spoken, and no sentence that was heard in full comes again. Of a text of one sentence, the usual case,
the beginning is certain. In a longer one the sentence is found by the pace of the voice.
"""

from __future__ import annotations

from vivavoce.pipelines.core.words import count_words, is_letter, is_spaceless, word_end
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions

CHARS_PER_SECOND = 15.0
"""The assumed pace of a voice whose own pace is unknown."""
SPACELESS_WORDS_PER_SECOND = 2.5
"""The same for scripts without spaces, with fewer and longer signs."""
_WHOLE = SentenceOptions(max_first_length=1_000_000, max_length=1_000_000)

TOLERANCE = 0.02
"""Seconds of a word's end that may be missing."""


class Pace:
    """The pace of a voice, learned from the texts that it has spoken to the end."""

    def __init__(self) -> None:
        self._assumed = 0.0
        self._seconds = 0.0

    def learn(self, text: str, seconds: float) -> None:
        """Take a whole text and the length of its audio."""
        if seconds > 0:
            self._assumed += assumed_seconds(text)
            self._seconds += seconds

    def seconds(self, text: str) -> float:
        """Return the expected length of the audio of a text."""
        assumed = assumed_seconds(text)
        return assumed * self._seconds / self._assumed if self._assumed > 0 else assumed


class SpokenPart:
    """Follows the audio of one text of one voice."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.seconds = 0.0
        """Audio so far."""
        self._words: list[tuple[str, float]] = []

    def take(self, chunk: AudioChunk) -> None:
        """Take the next chunk."""
        self.seconds += chunk.frame.duration
        self._words += [(word.text, word.end) for word in chunk.words]

    def finish(self, text: str) -> None:
        """All of `text` was spoken: learn the voice's pace from it."""
        self._pace.learn(text, self.seconds)

    def rest(self, text: str) -> str:
        """Return the part of `text` behind the words whose audio is complete; empty if no word is left.

        By word times, if the voice gives them; else by its sentences.
        """
        if self.seconds <= 0:
            return text
        if self._words:
            at = self._end_of_words(text)
        else:
            expected = self._pace.seconds(text)
            at = _sentence_start(text, 0 if expected <= 0 else int(len(text) * self.seconds / expected))
        left = text[at:].lstrip()
        return left if any(map(is_letter, left)) else ""

    def _end_of_words(self, text: str) -> int:
        at = 0
        for word, end in self._words:
            if end > self.seconds + TOLERANCE:
                break
            core = word.strip()
            found = text.find(core, at, at + len(core) + 60)
            # A voice may spell a word in another way: then as many characters count.
            at = found + len(core) if found >= 0 else max(at, word_end(text, min(at + len(core) + 1, len(text))))
        return at


def whole_sentences(text: str) -> list[str]:
    """Return the sentences of a text; none is cut for its length."""
    cutter = SentenceCutter(_WHOLE)
    return [*cutter.push(text), *cutter.finish()]


def _sentence_start(text: str, place: int) -> int:
    """Return the beginning of the sentence that holds that place; of the last one, if the place is behind all."""
    start = end = 0
    for sentence in whole_sentences(text):
        start = text.index(sentence, end)
        end = start + len(sentence)
        if place < end:
            break
    return start


def assumed_seconds(text: str) -> float:
    """Return the length of the audio of `text` at an ordinary pace."""
    spaceless = [part for part in text.split() if is_spaceless(part)]
    spaced = len(text) - sum(len(part) for part in spaceless)
    return spaced / CHARS_PER_SECOND + sum(map(count_words, spaceless)) / SPACELESS_WORDS_PER_SECOND

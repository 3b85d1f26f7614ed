"""SpokenPart: from where another voice goes on, if a voice breaks off in a text.

| the voice that broke off | the other one goes on |
|---|---|
| sent no audio | from the beginning |
| has marked the end of the audio (`is_end`) | not at all |
| gives word times | behind the last word whose audio is complete; the word that was begun is spoken again |
| gives none | from the beginning |

So each word is spoken. A voice may spell words in another way than the text ("five" for 5), so its words are compared
with the whole beginning of the text, and not each with the next equal one. Where the last of them are spelt otherwise,
it is open how many words of the text they are: those are spoken again.
"""

from __future__ import annotations

import math

from vivavoce.pipelines.core.words import EDGE_PUNCTUATION, is_letter, pieces
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions

_WHOLE = SentenceOptions(max_first_length=1_000_000, max_length=1_000_000)

TOLERANCE = 0.02
"""Seconds of a word's end that may be missing."""
MOST_APART = 64
"""How many words a voice may speak more, or fewer, than the text has."""


class SpokenPart:
    """Follows the audio of one text of one voice."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Audio so far."""
        self._words: list[tuple[str, float]] = []
        self._is_complete = False

    def take(self, chunk: AudioChunk) -> None:
        """Take the next chunk."""
        self.seconds += chunk.frame.duration
        self._is_complete = self._is_complete or chunk.is_end
        self._words += [(word.text, word.end) for word in chunk.words]

    def rest(self, text: str) -> str:
        """Return the part of `text` behind the words whose audio is complete; empty if no word is left."""
        if self._is_complete and self.seconds:
            return ""
        spoken: list[str] = []
        for word, end in self._words:
            if end > self.seconds + TOLERANCE:
                break
            spoken += [bare for bare, _ in _bare_words(word)]
        words = _bare_words(text)
        count = _spoken_words(spoken, [bare for bare, _ in words])
        left = text[words[count - 1][1] :].lstrip() if count else text
        return left if any(map(is_letter, left)) else ""


def whole_sentences(text: str) -> list[str]:
    """Return the sentences of a text; none is cut for its length."""
    cutter = SentenceCutter(_WHOLE)
    return [*cutter.push(text), *cutter.finish()]


def _bare_words(text: str) -> list[tuple[str, int]]:
    """Return the words of a text without case and punctuation, each with its end in the text."""
    found = ((text[start:end].casefold().strip(EDGE_PUNCTUATION), end) for start, end in pieces(text))
    return [(bare, end) for bare, end in found if bare]


def _spoken_words(spoken: list[str], words: list[str]) -> int:
    """Return how many of the first `words` are the spoken ones, with the fewest differences; if in doubt, fewer.

    A difference is a word that is missing, that is added, or that is spelt in another way.
    """
    costs: list[float] = [*map(float, range(len(words) + 1))]
    for number, word in enumerate(spoken, start=1):
        before, costs = costs, [math.inf] * (len(words) + 1)
        first, last = max(0, number - MOST_APART), min(len(words), number + MOST_APART)
        for count in range(first, last + 1):
            costs[count] = before[count] + 1  # it is added
            if count:
                is_other = word != words[count - 1]
                costs[count] = min(costs[count], before[count - 1] + is_other, costs[count - 1] + 1)
    return costs.index(min(costs))

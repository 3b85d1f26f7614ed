"""Voicing: the sentences of a streamed text of which a voice has spoken no word.

The words of the voice are compared with those of the text, one by one. A sentence counts as left out once the voice
goes on with the beginning of a later one, or ends, without a word in the place of the sentence. A voice that spells a
word in another way has spoken it: in doubt a sentence is spoken.
"""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.pipelines.core.words import letters_of, pieces
from vivavoce.pipelines.tts.base import Word
from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions

_WHOLE = SentenceOptions(max_first_length=1_000_000, max_length=1_000_000)
_CERTAIN = 2
"""Words at the beginning of a sentence that show that the voice speaks it; fewer if it is shorter."""
_MOST_SKIPPED = 400
"""Words of the text among which the voice's next ones are searched."""


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the text, and its words."""

    start: int
    end: int
    keys: tuple[str, ...]


class Voicing:
    """Follows the text and the words of one stream."""

    def __init__(self) -> None:
        self.text = ""
        """The text so far."""
        self._cutter = SentenceCutter(_WHOLE)
        self._whole: list[_Sentence] = []
        self._sentence = 0
        self._word = 0
        """The next word is number `_word` of sentence number `_sentence`."""
        self._others: list[str] = []
        """Words that the voice has spoken since, and that are not in that place of the text."""

    def add_text(self, piece: str) -> None:
        """Take more text."""
        self.text += piece
        for sentence in self._cutter.push(piece):
            self._add(sentence)

    def take(self, word: Word) -> list[tuple[int, int]]:
        """Take the voice's next word; return where the sentences are that it has left out before that word."""
        sentences, skipped = self._sentences(), list[tuple[int, int]]()
        for key in _keys(word.text):
            skipped += self._take(key, sentences)
        return skipped

    def rest(self) -> list[tuple[int, int]]:
        """Return where the sentences are of which no word was spoken at the end; call it when the text is over."""
        for sentence in self._cutter.finish():
            self._add(sentence)
        if self._others:
            return []
        self._move_on(self._whole)
        first = self._sentence + (self._word > 0)
        return [(sentence.start, sentence.end) for sentence in self._whole[first:]]

    def _add(self, sentence: str) -> None:
        found = self._found(sentence)
        if found.keys:
            self._whole.append(found)

    def _found(self, sentence: str) -> _Sentence:
        start = self.text.find(sentence, self._whole[-1].end if self._whole else 0)
        return _Sentence(start, start + len(sentence), tuple(_keys(sentence)))

    def _sentences(self) -> list[_Sentence]:
        pending = self._cutter.pending.strip()
        last = [self._found(pending)] if pending else []
        return [*self._whole, *(sentence for sentence in last if sentence.keys)]

    def _move_on(self, sentences: list[_Sentence]) -> None:
        while self._sentence + 1 < len(sentences) and self._word >= len(sentences[self._sentence].keys):
            self._word -= len(sentences[self._sentence].keys)
            self._sentence += 1

    def _take(self, key: str, sentences: list[_Sentence]) -> list[tuple[int, int]]:
        self._move_on(sentences)
        keys = sentences[self._sentence].keys if sentences else ()
        if not self._others and self._word < len(keys) and keys[self._word] == key:
            self._word += 1
            return []
        self._others.append(key)
        first, words = self._sentence + (self._word > 0), 0
        for number in range(first, len(sentences)):
            keys = sentences[number].keys
            if tuple(self._others) == keys[: min(_CERTAIN, len(keys))]:
                self._go_to(number, len(self._others))
                return [(skipped.start, skipped.end) for skipped in sentences[first:number]]
            words += len(keys)
            if words > _MOST_SKIPPED:
                break
        self._find_again(sentences)
        return []

    def _find_again(self, sentences: list[_Sentence]) -> None:
        """Go behind the voice's latest words, if they are in the text: those before them stand for others."""
        latest, words, word = tuple(self._others[-_CERTAIN:]), 0, self._word
        for number in range(self._sentence, len(sentences)):
            keys = sentences[number].keys
            for place in range(word, len(keys) - _CERTAIN + 1):
                if keys[place : place + _CERTAIN] == latest:
                    self._go_to(number, place + _CERTAIN)
                    return
            words, word = words + len(keys), 0
            if words > _MOST_SKIPPED:
                return

    def _go_to(self, sentence: int, word: int) -> None:
        self._others.clear()
        self._sentence, self._word = sentence, word


def _keys(text: str) -> list[str]:
    keys = (letters_of(text[start:end]) for start, end in pieces(text))
    return [key for key in keys if key]

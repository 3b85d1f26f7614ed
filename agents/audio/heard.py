"""HeardText: the part of a text that the caller has heard at a position of its audio."""

from __future__ import annotations

import sys
from bisect import bisect_right
from dataclasses import dataclass, field

from vivavoce.pipelines.core.words import count_words, is_spaceless, word_end
from vivavoce.pipelines.speaking.reported_words import ReportedWords
from vivavoce.pipelines.speaking.spoken_text import SpokenText
from vivavoce.pipelines.tts.base import Word

DEFAULT_CHARS_PER_SECOND = 15.0
"""The assumed pace of a voice before word times or its whole audio are known."""
SPACELESS_WORDS_PER_SECOND = 2.5
"""The assumed pace of a voice for scripts without spaces: five Han signs a second, two to a word."""
TOLD_NEAR = 60.0
"""Letters by which a text that a voice tells may differ in its place, as `NEAR` of the words that it reports."""


@dataclass(slots=True)
class _Segment:
    """A piece of text whose audio begins at `sample`, with the word times that the voice reported."""

    sample: int
    char_start: int
    char_end: int
    word_ends: list[int]
    word_chars: list[int]
    said_before: int = 0
    """Characters of the filtered text that the voice received before it."""
    said_length: int = 0
    end: int | None = None
    """Where its audio ends, once it is complete."""
    reported: ReportedWords = field(default_factory=ReportedWords)
    said: SpokenText | None = None
    """The text that the voice received, if text filters changed it."""


class HeardText:
    """Maps samples to text: by the voice's word times, or without them by proportion, rounded down to a whole word.

    A word counts as heard when it has been played to its end.

    Args:
        sample_rate: Hz of the positions.
    """

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._text = ""
        self._segments: list[_Segment] = []
        self._unvoiced: list[tuple[int, int]] = []
        """The texts that have no audio, as ranges of characters, in order."""
        self._told: tuple[int, int] | None = None
        """A position, and the characters of the text that were heard there, as the voice told."""
        self._total: int | None = None
        self._expected: int | None = None

    @property
    def has_segments(self) -> bool:
        return bool(self._segments)

    @property
    def text(self) -> str:
        """The whole text so far."""
        return self._text

    def add_text(self, text: str) -> None:
        """Append text that the voice received."""
        self._text += text

    def begin_segment(self, text: str, sample: int, said: str = "") -> None:
        """Note that the audio of `text`, a part of the added text, begins at `sample`; `said` if filters changed it."""
        last = self._segments[-1] if self._segments else None
        start_from = max(last.char_end if last else 0, self._unvoiced_end)
        stripped = text.strip()
        found = self._text.find(stripped, start_from)
        # A voice may report a changed text: the segment then takes as many of the next characters.
        start = found if found >= 0 else start_from
        if last is not None and self._is_rest(stripped, last, start_from):
            # Another voice goes on in the middle of a sentence.
            last.char_end = start = last.char_end - len(stripped)
        segment = _Segment(sample, start, min(start + len(stripped), len(self._text)), [], [])
        if last is not None and start < start_from:
            last.said_length -= len(stripped)
        segment.said_before = last.said_before + last.said_length if last else start - self._unvoiced_end
        segment.said_length = len(said or stripped)
        if said:
            segment.said = SpokenText()
            segment.said.add(stripped, said)
        self._segments.append(segment)

    def _is_rest(self, text: str, last: _Segment, behind: int) -> bool:
        """Return whether `text` is the end of the newest segment, and not the text from `behind` on."""
        follows = self._text[behind : behind + len(text) + 8].lstrip()
        return bool(text) and not follows.startswith(text) and self._text[: last.char_end].endswith(text)

    def end_segment(self, sample: int) -> None:
        """Note that the audio of the newest segment is complete at `sample`."""
        if self._segments:
            self._segments[-1].end = sample

    def leave_out(self, text: str) -> None:
        """Note that `text`, a part of the added text behind the audio so far, has no audio: it is never heard."""
        begin = self._unvoiced_end
        if self._segments:
            last = self._segments[-1]
            begin = max(begin, last.word_chars[-1] if last.word_chars else last.char_start)
            if last.char_end <= len(self._text):
                begin = max(begin, last.char_end)
        stripped = text.strip()
        start = self._text.find(stripped, begin)
        if start >= 0:
            self._unvoiced.append((start, start + len(stripped)))

    @property
    def has_unvoiced(self) -> bool:
        """Whether some of the text has no audio."""
        return bool(self._unvoiced)

    @property
    def _unvoiced_end(self) -> int:
        return self._unvoiced[-1][1] if self._unvoiced else 0

    def add_words(self, words: tuple[Word, ...]) -> None:
        """Add word times, in seconds from the start of the audio, in order."""
        if not self._segments:
            self._segments.append(_Segment(0, 0, sys.maxsize, [], []))  # all the text, later text included
        for word in words:
            segment = self._segment_of(round(word.start * self._rate))
            segment.reported.skip_to(segment.char_start)
            if segment is self._segments[-1]:
                segment.reported.skip_to(min(self._unvoiced_end, segment.char_end))
            ends = segment.reported.take(word, self._text, segment.char_end)
            segment.word_ends.append(round(word.end * self._rate))
            segment.word_chars[len(segment.word_ends) - len(ends) :] = ends

    def tell(self, sample: int, text: str) -> None:
        """Note that `text`, the beginning of the text in the voice's form, is what was heard at that position."""
        told = ReportedWords(near=TOLD_NEAR).take(Word(text, 0.0, 0.0), self._text, len(self._text))
        self._told = sample, told[-1]

    def expect(self, total_samples: int) -> None:
        """Note the approximate length of the audio before it is complete."""
        self._expected = total_samples

    def finish(self, total_samples: int) -> None:
        """Note that the audio is complete."""
        self._total = self._expected = total_samples

    def at(self, sample: int) -> str:
        """Return the text heard when `sample` samples have been played."""
        end = self.reached(sample)
        heard, begin = "", 0
        for start, stop in self._unvoiced:
            if start >= end:
                break
            heard += self._text[begin:start]
            begin = min(stop, end)
            begin += len(self._text[begin:end]) - len(self._text[begin:end].lstrip())
        return (heard + self._text[begin:end]).strip()

    def reached(self, sample: int) -> int:
        """Return how many characters of the text belong to the first `sample` samples, unvoiced ones included."""
        if sample <= 0:
            return 0
        if self._told is not None and self._told[0] == sample:
            return self._told[1]
        if self._total is not None and sample >= self._total:
            return len(self._text)
        if not self._segments:
            return self._cut(0, len(self._text), self._text_samples(self._text, len(self._text)), sample)
        index = bisect_right(self._segments, sample, key=lambda s: s.sample) - 1
        if index < 0:
            return 0
        segment = self._segments[index]
        if segment.word_ends:
            heard = bisect_right(segment.word_ends, sample)
            return segment.word_chars[heard - 1] if heard else segment.char_start
        length = self._segment_samples(index)
        if segment.said is not None and 0 < sample - segment.sample < length:
            said = segment.said_length * (sample - segment.sample) // length
            return segment.char_start + segment.said.written_end(said)
        return self._cut(segment.char_start, segment.char_end, length, sample - segment.sample)

    def _segment_of(self, sample: int) -> _Segment:
        index = bisect_right(self._segments, sample, key=lambda s: s.sample) - 1
        return self._segments[max(0, index)]

    def _segment_samples(self, index: int) -> int:
        segment = self._segments[index]
        if index + 1 < len(self._segments):
            return self._segments[index + 1].sample - segment.sample
        if segment.end is not None:
            return segment.end - segment.sample
        if self._expected is not None:
            return self._expected - segment.sample
        return self._text_samples(self._text[segment.char_start : segment.char_end], segment.said_length)

    def _text_samples(self, text: str, said: int) -> int:
        """Return the assumed length of `text`, for which the voice received `said` characters."""
        if self._expected is not None and not self._segments:
            return self._expected
        last = self._segments[-1] if self._segments else None
        if last is not None and last.sample > 0 and last.said_before > 0:  # the pace of the complete segments
            return round(said * last.sample / last.said_before)
        return round(_seconds(text) * said / max(1, len(text)) * self._rate)

    def _cut(self, start: int, end: int, length: int, played: int) -> int:
        if length <= 0 or played >= length:
            return end
        return max(start, word_end(self._text[:end], start + int((end - start) * played / length)))


def _seconds(text: str) -> float:
    spaceless = [part for part in text.split() if is_spaceless(part)]
    spaced = len(text) - sum(len(part) for part in spaceless)
    return spaced / DEFAULT_CHARS_PER_SECOND + sum(map(count_words, spaceless)) / SPACELESS_WORDS_PER_SECOND

"""Ear: the recogniser of vendors' twins, which hears words in PCM by their loudness or by a script."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from vivavoce.pipelines.core.native_threads import numpy as np
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame

WINDOW = 0.02
"""Seconds of one step."""

SOUND = 300
"""Mean sample value from which on a window is sound."""

WORD_SECONDS = 0.24
GAP_SECONDS = 0.02
"""Length of a word of `speech()` and of the silence behind it."""

MIN_WORD, MAX_WORD = 0.1, 1.0
"""Seconds of sound that are a word; longer sound of one loudness is noise."""

SCRIPTED_WORD = 0.25
"""Seconds of sound for each word of a scripted text."""

FIRST_LEVEL, STEP = 2000, 100
"""Sample value of the first word of `speech()`, and the difference between two words."""


@dataclass(frozen=True, slots=True)
class Said:
    """A text that the twin hears.

    Args:
        speaker: Number of the speaker, for diarisation.
        language: BCP 47 tag that a multilingual model detects.
        confidence: 0 … 1.
    """

    text: str = field(repr=False)
    speaker: int = 0
    language: str = "en"
    confidence: float = 0.98


@dataclass(frozen=True, slots=True)
class HeardWord:
    """One word, at seconds of the connection's audio."""

    said: Said
    start: float
    end: float


class Lexicon:
    """The texts that are to be heard, shared by all connections."""

    def __init__(self) -> None:
        self.script: deque[Said] = deque()
        self._words: list[Said] = []

    def level(self, word: Said) -> int:
        """Return the sample value that carries this word."""
        if word not in self._words:
            self._words.append(word)
        return FIRST_LEVEL + STEP * self._words.index(word)

    def speech(self, said: Said, sample_rate: int) -> AudioFrame:
        """Return sound that carries these words."""
        data = b""
        for word in words_of(said):
            data += self.level(word).to_bytes(2, "little") * round(WORD_SECONDS * sample_rate)
            data += bytes(BYTES_PER_SAMPLE * round(GAP_SECONDS * sample_rate))
        return AudioFrame(data, sample_rate)

    def word_at(self, level: float) -> Said | None:
        """Return the word that this sample value carries, if any."""
        number = round((level - FIRST_LEVEL) / STEP)
        is_near = abs(level - FIRST_LEVEL - STEP * number) < STEP / 4
        return self._words[number] if is_near and 0 <= number < len(self._words) else None


class Ear:
    """Hears the audio of one connection.

    Args:
        rest: Seconds of silence that end a scripted text.
    """

    def __init__(self, lexicon: Lexicon, sample_rate: int, rest: float) -> None:
        self._lexicon = lexicon
        self._rate = sample_rate
        self._size = round(WINDOW * sample_rate) * BYTES_PER_SAMPLE
        self._rest = rest
        self._left = b""
        self._windows = 0
        self._levels: list[float] = []
        self._script: deque[Said] = deque()
        self._scripted = 0.0
        self._script_at = 0.0
        self.words: list[HeardWord] = []
        """The words that are complete with this window."""
        self.quiet = 1e9
        """Seconds of silence so far."""
        self.is_onset = False
        """Whether sound begins with this window."""

    @property
    def position(self) -> float:
        """Seconds of audio so far."""
        return round(self._windows * WINDOW, 6)

    @property
    def is_sound(self) -> bool:
        """Whether the newest window is sound."""
        return self.quiet == 0

    @property
    def word_began(self) -> float:
        """The beginning of the word that is being said, else the present position."""
        return round(self.position - len(self._levels) * WINDOW, 6)

    def push(self, pcm: bytes) -> Iterator[None]:
        """Take audio, and yield after each window."""
        pcm = self._left + pcm
        count = len(pcm) // self._size
        self._left = pcm[count * self._size :]
        for at in range(count):
            self._hear(pcm[at * self._size : (at + 1) * self._size])
            yield

    def cut(self) -> list[HeardWord]:
        """End the utterance in mid-speech; return the words that are complete by that."""
        self.words = []
        self._end_word(self.position)
        self._end_script()
        return self.words

    def _hear(self, window: bytes) -> None:
        self._windows += 1
        level = float(np.abs(np.frombuffer(window, "<i2").astype(np.int32)).mean())
        self.words = []
        before = self.quiet
        self.quiet = 0.0 if level >= SOUND else round(self.quiet + WINDOW, 6)
        self.is_onset = self.is_sound and before > 0
        if self._levels and abs(level - self._levels[-1]) > STEP / 4 and not self._script:
            self._end_word(self.position - WINDOW)
        if self.is_onset and before >= self._rest and not self._script and self._lexicon.script:
            self._begin_script()
        if self._script:
            self._follow_script()
        elif self.is_sound:
            self._levels.append(level)
            if len(self._levels) * WINDOW > MAX_WORD:
                self._levels = [0.0]

    def _begin_script(self) -> None:
        said = self._lexicon.script.popleft()
        self._script.extend(words_of(said))
        self._script_at, self._scripted = round(self.position - WINDOW, 6), 0.0

    def _follow_script(self) -> None:
        self._scripted += WINDOW if self.is_sound else 0.0
        if self.quiet >= self._rest:
            self._end_script()
        elif self._scripted >= SCRIPTED_WORD - 1e-6 and len(self._script) > 1:  # the last one ends with the sound
            self._scripted = 0.0
            self._say(self._script.popleft(), self._script_at, self.position)
            self._script_at = self.position

    def _end_script(self) -> None:
        """Say the words that are left, in the time that is left."""
        end = max(round(self.position - min(self.quiet, self._rest), 6), round(self._script_at + WINDOW, 6))
        count = len(self._script)
        for number in range(count):
            share = (end - self._script_at) / count
            self._say(self._script.popleft(), self._script_at + number * share, self._script_at + (number + 1) * share)

    def _end_word(self, end: float) -> None:
        levels, self._levels = self._levels, []
        if len(levels) * WINDOW < MIN_WORD - 1e-6:
            return
        word = self._lexicon.word_at(levels[len(levels) // 2])
        if word is not None:
            self._say(word, end - len(levels) * WINDOW, end)

    def _say(self, word: Said, start: float, end: float) -> None:
        self.words.append(HeardWord(word, round(start, 6), round(end, 6)))


def words_of(said: Said) -> list[Said]:
    """Return the words of a text."""
    return [Said(word, said.speaker, said.language, said.confidence) for word in said.text.split()]

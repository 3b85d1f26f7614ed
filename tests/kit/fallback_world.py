"""A world for `FallbackMachine`: recognisers of several tempers, a caller, and time, without tasks.

Each frame holds the number of its utterance, so that the finals show which utterances a stream heard.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.fallback_acts import MemberTraits
from vivavoce.pipelines.stt.fallback_machine import FallbackMachine

RATE = 1000
STEP = 0.2
"""Seconds of a frame."""
LIMIT = 2.0
"""Seconds in which a final is due."""


@dataclass(frozen=True)
class Temper:
    """The ways of one recogniser.

    Args:
        answers: Whether it reports the words that it hears.
        latency: Seconds from the end of speech to its final.
        opens: Whether a stream can be opened, in `opening` seconds.
        lives: Seconds after which its first streams break.
        shows: Whether interims come.
    """

    answers: bool = True
    latency: float = 0.2
    opens: bool = True
    opening: float = 0.1
    lives: tuple[float, ...] = ()
    needs_flush: bool = False
    shows: bool = True


@dataclass(frozen=True)
class Said:
    """An utterance or a noise, after a silence."""

    gap: float
    seconds: float
    is_words: bool = True


@dataclass
class Stream:
    """What one recogniser's stream has heard."""

    number: int
    member: int
    is_closed: bool = False
    heard: set[int] = field(default_factory=set)
    told: set[int] = field(default_factory=set)


def text_of(number: int) -> str:
    """Return the words of an utterance: two that all others have too, and one that none has."""
    return f"the big w{number}"


class World:
    """Runs a call."""

    def __init__(self, tempers: Sequence[Temper], said: Sequence[Said], *, kept: float = 1000.0) -> None:
        self.tempers, self.said = tempers, said
        traits = [MemberTraits(f"m{n}", t.needs_flush, t.shows) for n, t in enumerate(tempers)]
        self.machine = FallbackMachine(self, traits, 0, 0.0, final_limit=LIMIT, kept_seconds=kept)
        self.now = 0.0
        self.acts = 0
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._ids = count()
        self._failed_at: dict[int, float] = {}
        self._opened = [0] * len(tempers)
        self.streams: dict[int, Stream] = {}
        self.hearing: list[Stream] = []
        self.finals: list[tuple[float, str]] = []
        self.takes: list[tuple[float, int]] = []
        self.failed: list[int] = []
        self.has_given_up = False
        self.ends: dict[int, float] = {}
        self.begun = 0
        """How many utterances have begun."""
        self._begin(0, 0)
        self.hearing.append(self.streams[0])

    # --- recognisers

    def _begin(self, number: int, member: int) -> Stream:
        stream = self.streams[number] = Stream(number, member)
        lives = self.tempers[member].lives
        if self._opened[member] < len(lives):
            self._at(self.now + lives[self._opened[member]], lambda: self._break(stream))
        self._opened[member] += 1
        return stream

    def _break(self, stream: Stream) -> None:
        if not stream.is_closed:
            stream.is_closed = True
            self.hearing = [one for one in self.hearing if one is not stream]
            error = ProviderConnectionError("down", provider=f"m{stream.member}")
            self.machine.lost(stream.number, stream.member, error, self.now)

    def _push(self, stream: Stream, frame: AudioFrame) -> None:
        number = frame.to_numpy()[0]
        temper = self.tempers[stream.member]
        if number and number not in stream.heard and self.said[number - 1].is_words and temper.answers and temper.shows:
            self._at(self.now + 0.3, lambda: self._show(stream, int(number)))
        if number:
            stream.heard.add(int(number))

    def _flush(self, stream: Stream) -> None:
        temper = self.tempers[stream.member]
        words = sorted(one for one in stream.heard if self.said[one - 1].is_words)
        stream.heard.clear()
        if temper.answers and (words or temper.needs_flush):
            text = " ".join(map(text_of, words))
            self._at(self.now + temper.latency, lambda: self._settle(stream, words, text))

    def _show(self, stream: Stream, number: int) -> None:
        if number not in stream.told:
            self._tell(stream, STTInterim(text=text_of(number)))

    def _settle(self, stream: Stream, words: list[int], text: str) -> None:
        stream.told.update(words)
        self._tell(stream, STTFinal(text=text))

    def _tell(self, stream: Stream, event: STTEvent) -> None:
        self.machine.event(stream.number, event, self.now)  # of a closed stream too: it must not count

    # --- acts of the machine

    def emit(self, event: STTEvent) -> None:
        self.acts += 1
        if isinstance(event, STTFinal) and event.text:
            self.finals.append((self.now, event.text))

    def open(self, stream: int, among: frozenset[int]) -> None:
        self.acts += 1
        line = sorted(among, key=lambda one: (self._failed_at.get(one, -1.0), one))
        member = line[0]
        temper = self.tempers[member]

        def done() -> None:
            if temper.opens:
                self._begin(stream, member)
                self.machine.opened(stream, member, self.now)
            else:
                error = ProviderConnectionError("no", provider=f"m{member}")
                self.machine.lost(stream, member, error, self.now)

        self._at(self.now + temper.opening, done)

    def let_hear(self, stream: int, begin: int = 0, end: int | None = None) -> None:
        self.acts += 1
        hears = self.streams[stream]
        if end is None:
            self.hearing.append(hears)
        self.machine.audio.replay(
            lambda frame, _: self._push(hears, frame),
            lambda ago: None,
            lambda: self._flush(hears),
            begin=begin,
            end=end,
        )

    def pause(self, stream: int) -> None:
        self.hearing = [one for one in self.hearing if one.number != stream]

    def close(self, stream: int) -> None:
        self.acts += 1
        self.pause(stream)
        if (closed := self.streams.get(stream)) is not None:
            closed.is_closed = True

    def fails(self, member: int, *, is_slow: bool) -> None:
        self.failed.append(member)
        self._failed_at[member] = self.now

    def works(self, member: int) -> None:
        self._failed_at.pop(member, None)

    def take_over(self, member: int, failures: Sequence[tuple[int, ProviderError]], dropped: int) -> None:
        self.takes.append((self.now, member))

    def give_up(self, errors: Sequence[ProviderError]) -> None:
        self.acts += 1
        self.has_given_up = True

    # --- time

    def _at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._ids), call))

    def run(self, tail: float = 60.0) -> World:
        """Play the call, and silence behind it."""
        for number, said in enumerate(self.said, 1):
            self._hear(0, said.gap)
            self.machine.speech_started(0.0, self.now)
            self._hear(number, said.seconds)
            self.machine.flush(self.now)
            self.ends[number] = self.now
            for stream in list(self.hearing):
                self._flush(stream)
        self._hear(0, 2.0)
        self._until(self.now + tail)
        return self

    def _hear(self, number: int, seconds: float) -> None:
        frame = AudioFrame(number.to_bytes(2, "little") * round(STEP * RATE), RATE)
        for _ in range(round(seconds / STEP)):
            if self.has_given_up:
                return
            self.begun = max(self.begun, number)
            self.machine.audio.push(frame)
            for stream in list(self.hearing):
                self._push(stream, frame)
            self._until(self.now + STEP)

    def _until(self, end: float) -> None:
        while True:
            due = self._queue[0][0] if self._queue else end + 1
            deadline = self.machine.deadline
            when = min(due, max(self.now, deadline) if deadline is not None else end + 1)
            if when > end or self.has_given_up:
                break
            self.now = max(self.now, when)
            if due <= when:
                heapq.heappop(self._queue)[2]()
            else:
                serving = self.machine.serving
                works = [n for n in range(len(self.tempers)) if self.now - self._failed_at.get(n, -99.0) >= 60.0]
                better = works[0] if works and works[0] != serving else None
                before = self.machine.deadline
                acts = self.acts
                self.machine.due(self.now, better)
                assert self.acts > acts or self.machine.deadline != before, (
                    "a deadline that has come must change something"
                )
        self.now = end

    def words(self, number: int) -> list[float]:
        """The times of the finals that hold that utterance."""
        return [at for at, text in self.finals if f"w{number}" in text.split()]

    @property
    def kept(self) -> set[int]:
        """The utterances whose audio a next stream hears again."""
        frames: list[AudioFrame] = []
        self.machine.audio.replay(lambda frame, _: frames.append(frame), lambda _: None, lambda: None)
        return {int(frame.to_numpy()[0]) for frame in frames} - {0}

"""A recogniser that hears the words in a scripted caller's sounds, each of which has a level of its own."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Sequence

import anyio

from vivavoce.agents.testing.caller import LOUD, Caller
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTCapabilities, STTEvent, STTFinal, STTInterim, STTStream

WORD = 0.1
"""Seconds of a word."""


class Speaker:
    """Has a caller say words that no other sound holds."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.said: list[str] = []

    def says(self, start: float, words: int) -> float:
        """Say so many words; return when the last one ends."""
        for _ in range(words):
            end = round(start + WORD, 1)
            self._caller.makes_noise(start, end, level=LOUD + 1 + len(self.said))
            self.said.append(_word(len(self.said)))
            start = end
        return start


class HearingSTT(STT):
    """Hears a word if half of it is in the audio.

    Args:
        open_delay, final_delay: Seconds.
        shows: Whether interims come, with each word.
    """

    provider = "hearing"

    def __init__(self, *, open_delay: float = 0.0, final_delay: float = 0.0, shows: bool = False) -> None:
        self._open_delay = open_delay
        self._final_delay = final_delay
        self._shows = shows
        self.streams: list[HearingStream] = []
        """All streams ever opened, oldest first."""

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(emits_interims=self._shows)

    async def open(self) -> STTStream:
        await anyio.sleep(self._open_delay)
        self.streams.append(HearingStream(self._final_delay, shows=self._shows))
        return self.streams[-1]


class HearingStream(STTStream):
    """One stream."""

    def __init__(self, final_delay: float, *, shows: bool) -> None:
        self._final_delay = final_delay
        self._shows = shows
        self._clock = LoopClock()
        self._heard: Counter[int] = Counter()
        self._shown = ""
        self._send, self._receive = anyio.create_memory_object_stream[tuple[float, STTEvent]](math.inf)
        self.is_closed = False

    def push(self, frame: AudioFrame) -> None:
        """Hear a piece of a word."""
        level = int.from_bytes(frame.data[:2], "little") - LOUD - 1
        if level < 0:
            return
        self._heard[level] += 1
        if self._shows and (words := self._words) != self._shown:
            self._shown = words
            self._emit(STTInterim(text=words), 0.0)

    def flush(self) -> None:
        """Settle the words."""
        if words := self._words:
            self._emit(STTFinal(text=words), self._final_delay)
        self._forget()

    def discard(self) -> None:
        """Settle nothing."""
        self._forget()

    async def events(self) -> AsyncIterator[STTEvent]:
        """Yield them, each at its time."""
        try:
            async for due, event in self._receive:
                await anyio.sleep(max(0.0, due - self._clock.now()))
                yield event
        except anyio.ClosedResourceError:
            return

    async def aclose(self) -> None:
        self.is_closed = True
        self._send.close()
        self._receive.close()

    @property
    def _words(self) -> str:
        frames = round(WORD / 0.02)
        return " ".join(_word(number) for number, heard in sorted(self._heard.items()) if 2 * heard > frames)

    def _emit(self, event: STTEvent, delay: float) -> None:
        if not self.is_closed:
            self._send.send_nowait((self._clock.now() + delay, event))

    def _forget(self) -> None:
        self._heard.clear()
        self._shown = ""


def words_of(texts: Sequence[str]) -> list[str]:
    """Return the single words, in order."""
    return " ".join(texts).split()


def _word(number: int) -> str:
    return f"word{number}"

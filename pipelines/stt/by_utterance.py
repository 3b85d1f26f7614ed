"""UtteranceStream: the stream of a recogniser on this machine that takes the audio of an utterance as a whole.

The VAD cuts the utterances. Interims come from the recognition of the utterance so far, again and again; only while no
other work waits for the thread, so that finals come first. At a pause of the voice, the utterance is recognised before
its end is known: if the voice does not go on, those are its words. Speech without a pause is cut where it is quietest:
the networks lose their way in audio that is longer than that of their training.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.utterance_cutter import UtteranceCutter

SAMPLE_RATE = 16000
BYTES_PER_SECOND = BYTES_PER_SAMPLE * SAMPLE_RATE
LONGEST = 12.0
"""Seconds of audio that are recognised at once."""
PAUSE = 0.08
"""Seconds of audio after the report of a pause until the utterance is recognised: the end of a "t" comes late."""
WINDOW = SAMPLE_RATE // 10
"""Samples of the quiet place at which longer speech is cut."""


@dataclass(frozen=True, slots=True)
class Heard:
    """The words of a piece of audio, and how sure the network is of them: 0 … 1, or None."""

    text: str = field(default="", repr=False)
    confidence: float | None = None


class Utterance:
    """The audio of an utterance, and the words of the pieces that are settled."""

    def __init__(self) -> None:
        self.pcm = bytearray()
        """The audio that no settled piece has."""
        self.seconds = 0.0
        self.is_over = False
        self.is_discarded = False
        self.heard: Heard | None = None
        """All its words, if the voice does not go on."""
        self.paused_at: float | None = None
        """Seconds of its audio at the report that the voice pauses; None while it does not."""
        self._settled: list[Heard] = []
        self._shown = ""
        self._looked_at = 0.0

    def add(self, pcm: bytes) -> None:
        """Take more of its audio."""
        self.pcm += pcm
        self.seconds += len(pcm) / BYTES_PER_SECOND

    def end(self) -> None:
        """Note that no more audio comes."""
        self.is_over = True

    def discard(self) -> None:
        """Note that its words are not needed."""
        self.is_discarded = True

    def pause(self) -> None:
        """Note that the voice pauses."""
        self.paused_at = self.seconds

    def resume(self) -> None:
        """Note that the voice goes on."""
        self.paused_at = self.heard = None

    def hear(self, heard: Heard, paused_at: float | None) -> None:
        """Take the words so far: all of them, if they were asked for in a pause that lasts."""
        if paused_at is not None and paused_at == self.paused_at:
            self.heard = heard

    def wants_look(self, interval: float | None) -> bool:
        """Return whether its words are wanted before it is over: after some new audio, or once at a pause.

        Args:
            interval: Seconds of audio between two looks; None: only at pauses.
        """
        if self.paused_at is not None:
            return self._looked_at < self.paused_at + PAUSE <= self.seconds
        return interval is not None and self.seconds - self._looked_at >= interval

    def look(self) -> None:
        """Note that its words so far are asked for."""
        self._looked_at = self.seconds

    def shows(self, text: str) -> bool:
        """Note the text of an interim; return whether it has words, and other ones than before."""
        before, self._shown = self._shown, text
        return bool(text) and text != before

    def cut(self) -> bytes | None:
        """Cut off a piece that is to be settled; None if the rest is short enough."""
        if len(self.pcm) <= LONGEST * BYTES_PER_SECOND:
            return None
        end = BYTES_PER_SAMPLE * quietest(bytes(self.pcm[: round(LONGEST * BYTES_PER_SECOND)]))
        piece = bytes(self.pcm[:end])
        del self.pcm[:end]
        return piece

    def settle(self, heard: Heard) -> None:
        """Keep the words of the piece that was cut off."""
        self._settled.append(heard)

    def joined(self, rest: Heard) -> Heard:
        """Return the words of all pieces; the least sure one counts."""
        heard = [one for one in (*self._settled, rest) if one.text]
        sure = [one.confidence for one in heard if one.confidence is not None]
        return Heard(" ".join(one.text for one in heard), min(sure, default=None))


def quietest(pcm: bytes) -> int:
    """Return the sample in the middle of the quietest 0.1 s in the second half of the audio."""
    from vivavoce.pipelines.core.native_threads import numpy as np

    samples = np.frombuffer(pcm, dtype=np.int16).astype(np.float32)
    windows = samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW)
    first = len(windows) // 2
    return (first + int((windows[first:] ** 2).sum(axis=1).argmin())) * WINDOW + WINDOW // 2


class UtteranceStream(base.STTStream):
    """One session's recognition.

    Args:
        owner: The recogniser's name in errors, such as "moonshine.STT".
        recognise: Returns the words of mono 16-bit PCM of 16 kHz; called in the thread.
        thread: The one for this network, whichever session's audio it is.
        language: Of all words.
        interim_interval: Seconds of new audio between two interims; None for no interims.
    """

    def __init__(
        self,
        owner: str,
        recognise: Callable[[bytes], Heard],
        thread: BoundedThread,
        *,
        language: str,
        interim_interval: float | None,
    ) -> None:
        self._recognise = recognise
        self._thread = thread
        self._language = language
        self._interval = interim_interval
        self._cutter = UtteranceCutter(owner, SAMPLE_RATE)
        self._open = Utterance()
        self._over: deque[Utterance] = deque()
        self._news = asyncio.Event()
        self._is_closed = False

    def push(self, frame: AudioFrame) -> None:
        if self._cutter.push(frame):
            self._open.add(frame.data)
            if self.wants_look:
                self._news.set()

    def speech_started(self, ago: float) -> None:
        if self._cutter.is_open or self._is_closed:
            return
        self._open = Utterance()
        for pcm in self._cutter.begin(ago):
            self._open.add(pcm)

    def voice_paused(self) -> None:
        self._open.pause()

    def voice_resumed(self) -> None:
        self._open.resume()

    def flush(self) -> None:
        utterance = self._open if self._cutter.end() else Utterance()
        if not self._is_closed:
            utterance.end()
            self._over.append(utterance)
            self._news.set()

    def discard(self) -> None:
        self._cutter.end()
        for utterance in (self._open, *self._over):
            utterance.discard()
        self._over.clear()

    async def events(self) -> AsyncIterator[STTEvent]:
        while not self._is_closed:
            if self._over:
                utterance = self._over[0]
            elif self.wants_look and not self._thread.is_busy:
                utterance = self._open
                utterance.look()
            else:
                self._news.clear()
                await self._news.wait()
                continue
            is_final, paused_at = utterance.is_over, utterance.paused_at
            heard = (utterance.heard if is_final else None) or await self._heard(utterance)
            if utterance.is_discarded or self._is_closed:
                continue
            if is_final:
                self._over.popleft()
                yield self._final(utterance, heard)
                continue
            utterance.hear(heard, paused_at)
            if self._interval is not None and not utterance.is_over and utterance.shows(heard.text):
                yield STTInterim(text=heard.text, language=self._language)

    async def aclose(self) -> None:
        self._is_closed = True
        self._cutter.end()
        self._news.set()

    @property
    def wants_look(self) -> bool:
        """Whether the words so far are wanted: enough new audio has come, or the voice pauses."""
        return self._cutter.is_open and self._open.wants_look(self._interval)

    async def _heard(self, utterance: Utterance) -> Heard:
        while (piece := utterance.cut()) is not None:
            utterance.settle(await self._thread.run(self._recognise, piece))
        rest = await self._thread.run(self._recognise, bytes(utterance.pcm)) if utterance.pcm else Heard()
        return utterance.joined(rest)

    def _final(self, utterance: Utterance, heard: Heard) -> STTFinal:
        return STTFinal(
            text=heard.text,
            language=self._language,
            confidence=heard.confidence,
            audio_seconds=utterance.seconds,
        )

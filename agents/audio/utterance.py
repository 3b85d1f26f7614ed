"""Utterance: the audio of one step of a speech, from its voice to the playout, with its words and its position."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from vivavoce.agents.audio.heard import HeardText
from vivavoce.agents.audio.spoken_items import SpokenItems
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.media.buffer import SampleStore
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk, Heard

logger = logging.getLogger(__name__)

REWIND_SECONDS = 0.2
"""Played audio that is kept for a pause, beside the audio that a sink has ahead."""
LOOKAHEAD_SECONDS = 10.0
"""Unplayed audio from which `Utterance.room()` waits, so that a fast voice does not fill the memory."""


class Utterance:
    """The audio of one step of a speech, and how far it has been played.

    Args:
        speech_id: Id of the speech.
        rate: Hz of the sink.
        on_started: Called with the utterance when its first frame is played.
        on_finished: Called with the utterance when its last frame has been played; not if it was stopped.
        rewind_seconds: Played audio that is kept for a pause.
        turn_id: Id of the turn that the speech belongs to.
    """

    def __init__(
        self,
        speech_id: str,
        rate: int,
        *,
        on_started: Callable[[Utterance], None] | None = None,
        on_finished: Callable[[Utterance], None] | None = None,
        rewind_seconds: float = REWIND_SECONDS,
        turn_id: str = "",
    ) -> None:
        self.speech_id = speech_id
        self.turn_id = turn_id
        self.rate = rate
        self.on_started = on_started
        self.on_finished = on_finished
        self.heard = HeardText(rate)
        self.items = SpokenItems()
        self.is_last = True
        """Whether the speech has no step after this one."""
        self.done = asyncio.Event()
        """Set when it has been played or dropped."""
        self.started_at: float | None = None
        """Session clock at which its first frame is heard."""
        self.taken_back_at: float | None = None
        """`started_at` of a first frame that a pause took back at that very moment: none of it was heard."""
        self.is_finished = False
        self.written = 0
        self._rewind = int(rewind_seconds * rate)
        self._audio = SampleStore()
        self._resampler: Resampler | None = None
        self._told_by: tuple[Heard, int] | None = None
        """A voice that knows what was heard, and the position at which its audio begins."""
        self._room: asyncio.Event | None = None
        self._on_data: Callable[[], None] | None = None

    @property
    def total(self) -> int:
        """Samples received so far."""
        return self._audio.end

    def watch(self, on_data: Callable[[], None]) -> None:
        """Call `on_data` whenever more audio can be played."""
        self._on_data = on_data

    def push(self, chunk: AudioChunk) -> None:
        """Take the next piece of audio, of any length and rate."""
        self.items.note(chunk.item_id, self.total, len(self.heard.text))
        if chunk.unvoiced is not None:
            self.heard.leave_out(chunk.unvoiced.text)
            return
        if chunk.text:
            self.heard.begin_segment(chunk.text, self.total, chunk.said)
        if chunk.words:
            self.heard.add_words(chunk.words)
        if chunk.heard is not None:
            self._told_by = chunk.heard, self.total
        if chunk.is_end:
            self.heard.end_segment(self.total)
            return
        frame = chunk.frame
        if frame.sample_rate != self.rate:
            if self._resampler is None or self._resampler.input_rate != frame.sample_rate:
                self._flush_resampler()
                self._resampler = Resampler(frame.sample_rate, self.rate)
            frame = self._resampler.push(frame)
        self._append(frame)

    def has_teller(self, position: int) -> bool:
        """Whether its voice itself knows what was heard at this position, in the middle of its audio."""
        is_whole = self.is_finished and position >= self.total
        return self._told_by is not None and self._told_by[1] < position and not is_whole

    async def ask_heard(self, position: int) -> None:
        """Have its voice tell what was heard at this position, if it has such a voice; `heard` then knows."""
        if self._told_by is not None:
            heard, begin = self._told_by
            try:
                text = await heard((position - begin) / self.rate)
            except Exception as error:  # noqa: BLE001 - the boundary to the voice's code: the estimate stands
                logger.warning("a voice cannot tell what was heard: %s", describe(error))
                return
            if text is not None:
                self.heard.tell(position, text)

    def finish(self) -> None:
        """Mark the end of its audio."""
        self._flush_resampler()
        self.is_finished = True
        self.heard.finish(self.total)
        if self._on_data is not None:
            self._on_data()

    def set_last(self, is_last: bool) -> None:
        """Set whether the speech has no step after this one; call it before `finish()`."""
        self.is_last = is_last

    def start(self, at: float) -> None:
        """Note that its first frame is heard at that time."""
        self.started_at = at
        if self.on_started is not None:
            self.on_started(self)

    def take_back(self) -> None:
        """Note that its first frame was taken back before any of it was heard."""
        self.taken_back_at, self.started_at = self.started_at, None

    async def room(self) -> None:
        """Wait until less than the lookahead is left to play."""
        while not self.done.is_set() and self.total - self.written > LOOKAHEAD_SECONDS * self.rate:
            self._room = asyncio.Event()
            await self._room.wait()

    def read(self, samples: int) -> AudioFrame:
        """Return up to `samples` samples from the write position, and move it behind them."""
        frame = self.peek(samples)
        self.written += frame.samples
        self._audio.forget(self.written - self._rewind)
        if self._room is not None and self.total - self.written <= LOOKAHEAD_SECONDS * self.rate:
            self._room.set()
            self._room = None
        return frame

    def peek(self, samples: int) -> AudioFrame:
        """Return up to `samples` samples from the write position."""
        return AudioFrame(self._audio.read(self.written, samples), self.rate)

    def rewind(self, samples: int) -> None:
        """Move the write position back by `samples` that were written and not played; forward, if it is below 0."""
        self.written = min(self.total, max(self._audio.start, self.written - samples))

    def release(self) -> None:
        """Free the audio, which has been played or dropped."""
        self._audio.clear()
        self._resampler = None
        if self._room is not None:
            self._room.set()
            self._room = None
        self.done.set()

    def _append(self, frame: AudioFrame) -> None:
        if frame.data and not self.done.is_set():
            self._audio.append(frame.data)
            if self._on_data is not None:
                self._on_data()

    def _flush_resampler(self) -> None:
        if self._resampler is not None:
            self._append(self._resampler.flush())

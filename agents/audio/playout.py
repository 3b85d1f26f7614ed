"""Playout: one utterance at a time into the sink, paced by timers, with a position exact to the sample.

No task runs here: pushes and timers are synchronous calls. The position is what was written less what the sink still
queues, so that a pause, which clears the sink, goes on later at the very sample where its fade began.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from vivavoce.agents.audio.heard import HeardText
from vivavoce.agents.audio.mixing import MixingSink
from vivavoce.agents.audio.spoken_items import SpokenItems
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.io import AudioSink
from vivavoce.pipelines.media.buffer import SampleStore
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.gain import ramp
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk

SINK_SECONDS = 2 * FRAME_SECONDS
"""The most that is kept in the sink."""
REWIND_SECONDS = 0.2
"""Played audio that is kept for a pause: more than any sink's queue."""
FADE_IN_SECONDS = 0.01
"""How long what was paused with a fade takes to its full volume when it goes on."""
LOOKAHEAD_SECONDS = 10.0
"""Unplayed audio from which `Utterance.room()` waits, so that a fast voice does not fill the memory."""


class Utterance:
    """The audio of one step of a speech, and how far it has been played.

    Args:
        speech_id: Id of the speech.
        rate: Hz of the sink.
        on_started, on_finished: Called with the utterance when its first frame is played, and when its last one has
            been; not for one that was stopped.
    """

    def __init__(
        self,
        speech_id: str,
        rate: int,
        *,
        on_started: Callable[[Utterance], None] | None = None,
        on_finished: Callable[[Utterance], None] | None = None,
    ) -> None:
        self.speech_id = speech_id
        self.rate = rate
        self.on_started = on_started
        self.on_finished = on_finished
        self.heard = HeardText(rate)
        self.items = SpokenItems()
        self.is_last = True
        """Whether no other step of the speech follows; set before `finish()`."""
        self.done = asyncio.Event()
        """Set when it is played out or dropped."""
        self.started_at: float | None = None
        self.taken_back_at: float | None = None
        """When it had begun, if a pause at that very moment took its first frame back: nothing of it was heard then."""
        self.is_finished = False
        self.written = 0
        self._audio = SampleStore()
        self._resampler: Resampler | None = None
        self._room: asyncio.Event | None = None
        self._on_data: Callable[[], None] | None = None

    @property
    def total(self) -> int:
        """Samples that have come so far."""
        return self._audio.end

    def watch(self, on_data: Callable[[], None]) -> None:
        """Call `on_data` whenever there is more to play."""
        self._on_data = on_data

    def push(self, chunk: AudioChunk) -> None:
        """Take the next piece of audio, of any length and rate."""
        self.items.note(chunk.item_id, self.total, len(self.heard.text))
        if chunk.text:
            self.heard.begin_segment(chunk.text, self.total, chunk.said)
        if chunk.words:
            self.heard.add_words(chunk.words)
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

    def finish(self) -> None:
        """Say that no more audio comes."""
        self._flush_resampler()
        self.is_finished = True
        self.heard.finish(self.total)
        if self._on_data is not None:
            self._on_data()

    async def room(self) -> None:
        """Wait until less than the lookahead is left to play."""
        while not self.done.is_set() and self.total - self.written > LOOKAHEAD_SECONDS * self.rate:
            self._room = asyncio.Event()
            await self._room.wait()

    def read(self, samples: int) -> AudioFrame:
        """Return up to `samples` samples from the write position, and go on behind them."""
        frame = self.peek(samples)
        self.written += frame.samples
        self._audio.forget(self.written - int(REWIND_SECONDS * self.rate))
        if self._room is not None and self.total - self.written <= LOOKAHEAD_SECONDS * self.rate:
            self._room.set()
            self._room = None
        return frame

    def peek(self, samples: int) -> AudioFrame:
        """Return up to `samples` samples from the write position."""
        return AudioFrame(self._audio.read(self.written, samples), self.rate)

    def rewind(self, samples: int) -> None:
        """Take back `samples` that were written and not played."""
        self.written = max(self._audio.start, self.written - samples)

    def release(self) -> None:
        """Free the audio: it is played out or dropped."""
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


class Playout:
    """Plays utterances into a sink, which `open()` gives it; `begin()` lets it play.

    Args:
        on_written: Called with each frame written, if given.
        on_progress: Called with the utterance, the samples of it played so far, and whether it is over.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        on_written: Callable[[AudioFrame], None] | None = None,
        on_progress: Callable[[Utterance, int, bool], None] | None = None,
    ) -> None:
        self._clock = clock
        self._on_written = on_written
        self._on_progress = on_progress
        self._sink: AudioSink | None = None
        self.rate = 0
        """Hz of the sink."""
        self._frame = 0
        self._current: Utterance | None = None
        self._is_paused = False
        self._has_begun = False
        self._timer: TimerHandle | None = None
        self._run = 0  # samples of the current utterance at the sink's end, behind any fade
        self._fade_in_at = 0  # position from which the current utterance fades in
        self._fade_in = 0  # samples of it; 0 for none
        self._mixing: MixingSink | None = None

    @property
    def current(self) -> Utterance | None:
        """The utterance being played, or held."""
        return self._current

    def open(self, sink: AudioSink) -> None:
        """Take the sink; utterances can be made and wait."""
        self._sink = sink
        self.rate = sink.capabilities.sample_rate
        self._frame = round(FRAME_SECONDS * self.rate)

    @property
    def is_open(self) -> bool:
        """Whether there is a sink."""
        return self._sink is not None

    def begin(self) -> None:
        """Begin to play: the caller hears the agent now."""
        self._has_begun = True
        if self._mixing is not None:
            self._mixing.open()
        self._tick()

    @property
    def mixing(self) -> MixingSink | None:
        """What mixes background under speech, once `mix()` was called."""
        return self._mixing

    def mix(self) -> MixingSink:
        """Return what mixes background under speech; without this call there is nothing of the kind."""
        if self._mixing is None:
            self._sink = self._mixing = MixingSink(self._opened, self._clock, self._on_written)
            self._on_written = None  # what is written is told there, mixed
            if self._has_begun:
                self._mixing.open()
        return self._mixing

    def play(self, utterance: Utterance) -> None:
        """Play `utterance` from its start, as its audio comes. The one before must be over."""
        assert self._current is None, "the floor holds one speech at a time"
        self._current = utterance
        self._run = self._fade_in = 0
        utterance.watch(self._on_data)
        self._on_data()

    def position(self, utterance: Utterance) -> int:
        """Return how many samples of `utterance` have been played."""
        if utterance is not self._current or self._is_paused:
            return utterance.written
        return utterance.written - min(self._opened.queued(), self._run)

    def has_taken_back(self, speech_id: str, at: float) -> bool:
        """Whether that speech was reported to begin at that time, and nothing of it was heard."""
        current = self._current
        return current is not None and (current.speech_id, current.taken_back_at) == (speech_id, at)

    def pause(self, fade: float = 0.0) -> None:
        """Hold the current utterance, or the next one before it begins."""
        if self._is_paused:
            return
        self._is_paused = True
        self._cancel_timer()
        if self._current is not None:
            self._silence(self._current, fade)

    def resume(self) -> None:
        """Go on where the pause's fade began, fading in if it faded."""
        if self._is_paused:
            self._is_paused = False
            self._tick()

    def stop(self, utterance: Utterance, fade: float = 0.0) -> int:
        """Drop `utterance`, and return how many samples of it were played before the fade."""
        if utterance is not self._current:
            utterance.release()
            return utterance.written
        if not self._is_paused:
            self._silence(utterance, fade)
        self._end(utterance)
        return utterance.written

    def silent_at(self) -> float:
        """Return when the sink will have played what it holds, a fade included."""
        return self._clock.now() + self._opened.queued() / self.rate

    async def drained(self) -> None:
        """Wait until the sink has played what it holds, a fade included."""
        if self.is_open:
            await anyio.sleep(max(0.0, self.silent_at() - self._clock.now()))

    def close(self) -> None:
        """Stop at once; nothing is played or reported any more."""
        self._has_begun = False
        if self._current is not None:
            self._opened.clear()
            self._end(self._current)
        if self._mixing is not None:
            self._mixing.close()

    @property
    def _opened(self) -> AudioSink:
        assert self._sink is not None, "open() comes before play()"
        return self._sink

    def _silence(self, utterance: Utterance, fade: float) -> None:
        utterance.rewind(min(self._opened.clear(), self._run))
        self._run = 0
        if not utterance.written and utterance.started_at is not None:
            utterance.taken_back_at, utterance.started_at = utterance.started_at, None
        gain = self._gain_at(utterance.written)
        self._fade_in = 0
        if fade > 0 and utterance.written > 0:  # what was not heard needs no fade
            tail = utterance.peek(round(fade * self.rate))
            if tail.samples:
                self._write(AudioFrame(ramp(tail.data, gain, 0.0), self.rate))
                self._fade_in_at = utterance.written
                self._fade_in = round(min(fade, FADE_IN_SECONDS) * self.rate)

    def _gain_at(self, position: int) -> float:
        return min(1.0, (position - self._fade_in_at) / self._fade_in) if self._fade_in else 1.0

    def _faded_in(self, frame: AudioFrame, position: int) -> AudioFrame:
        rising = min(frame.samples, self._fade_in_at + self._fade_in - position)
        if rising <= 0:
            if rising < -3 * self._frame:  # it has been played too, so that no pause comes back to it
                self._fade_in = 0
            return frame
        head = ramp(frame.data[: rising * BYTES_PER_SAMPLE], self._gain_at(position), self._gain_at(position + rising))
        return AudioFrame(head + frame.data[rising * BYTES_PER_SAMPLE :], frame.sample_rate)

    def _end(self, utterance: Utterance) -> None:
        self._cancel_timer()
        self._current = None
        self._is_paused = False
        if self._on_progress is not None and utterance.started_at is not None:
            self._on_progress(utterance, utterance.written, True)
        if self._mixing is not None:
            self._mixing.end_speech()
        utterance.release()

    def _on_data(self) -> None:
        # While a timer is pending the sink has enough; it will come for more.
        if self._timer is None:
            self._tick()

    def _on_timer(self) -> None:
        self._timer = None
        self._tick()

    def _tick(self) -> None:
        utterance = self._current
        if utterance is None or self._is_paused or not self._has_begun:
            return
        self._cancel_timer()
        sink = self._opened
        # Half a sample of slack: a clock's float must not make a frame wait for another tick.
        most = round(SINK_SECONDS * self.rate) - self._frame
        queued = sink.queued()
        while queued <= most:
            missing = utterance.total - utterance.written
            if missing < self._frame and not utterance.is_finished:
                break  # a frame is not full yet: its audio will call again
            if not missing:
                break
            frame = utterance.read(self._frame)
            self._run += frame.samples
            lead = 0 if self._mixing is None or utterance.started_at is not None else self._mixing.lead()
            self._write(self._faded_in(frame, utterance.written - frame.samples) if self._fade_in else frame)
            if utterance.started_at is None:
                utterance.started_at = self._clock.now() + lead / self.rate
                if utterance.on_started is not None:
                    utterance.on_started(utterance)
            queued = sink.queued()
        if self._on_progress is not None and utterance.started_at is not None:
            self._on_progress(utterance, self.position(utterance), False)
        if utterance.written < utterance.total or not utterance.is_finished:
            if queued > most:
                self._arm((queued - most) / self.rate)
        elif queued:
            self._arm(queued / self.rate)
        else:
            self._end(utterance)
            if utterance.on_finished is not None:
                utterance.on_finished(utterance)

    def _write(self, frame: AudioFrame) -> None:
        self._opened.write(frame)
        if self._on_written is not None:
            self._on_written(frame)

    def _arm(self, seconds: float) -> None:
        self._timer = self._clock.call_at(self._clock.now() + seconds, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

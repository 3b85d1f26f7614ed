"""Playout: plays one utterance at a time into the sink, paced by timers, with a position exact to the sample.

No task runs here: pushes and timers are synchronous calls. The position is the number of samples written less those
that the sink still queues. A pause clears the sink, so that the speech resumes at the very sample where its fade began.
A remote sink reports later where it has stopped; until then its estimate counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import anyio

from vivavoce.agents.audio.mixing import MixingSink
from vivavoce.agents.audio.remote_cut import RemoteCut
from vivavoce.agents.audio.utterance import REWIND_SECONDS, Utterance
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.io import AudioSink
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.gain import ramp

REPORT_SECONDS = 1.0
"""Seconds by which a remote sink's estimate of its position may be wrong."""
FADE_IN_SECONDS = 0.01
"""Seconds of fade-in when a speech resumes that was paused with a fade."""


class Playout:
    """Plays utterances into the sink that `open()` sets, from `begin()` on.

    Args:
        on_written: Called with each frame written, if given.
        on_progress: Called with the utterance, the samples of it played so far, and whether it has ended.
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
        self.rewind_seconds = REWIND_SECONDS
        """Seconds of played audio that an utterance keeps for a pause."""
        self._frame = 0
        self._most = 0  # samples in the sink from which on no frame is written
        self._is_remote = False
        self._starting: Utterance | None = None  # its first frame is written, and the remote sink has not begun it
        self._remote_cut: RemoteCut | None = None  # the last one that the remote sink has not settled
        self._current: Utterance | None = None
        self._is_paused = False
        self._has_begun = False
        self._timer: TimerHandle | None = None
        self._is_short = False  # the timer shows the last words played: audio that comes is written at once
        self._run = 0  # samples of the current utterance at the sink's end, after any fade
        self._fade_in_at = 0  # position from which the current utterance fades in
        self._fade_in = 0  # samples of it; 0 for none
        self._mixing: MixingSink | None = None

    @property
    def current(self) -> Utterance | None:
        """The utterance that plays or is paused."""
        return self._current

    def open(self, sink: AudioSink) -> None:
        """Set the sink. Utterances can be made from now on, and wait."""
        self._sink = sink
        capabilities = sink.capabilities
        self.rate, self._is_remote = capabilities.sample_rate, capabilities.is_remote
        self._frame = round(FRAME_SECONDS * self.rate)
        # Half a sample of slack: a clock's float must not make a frame wait for another tick.
        self._most = round(capabilities.lead * self.rate) - self._frame
        self.rewind_seconds = REWIND_SECONDS + capabilities.lead + (REPORT_SECONDS if self._is_remote else 0.0)

    @property
    def is_remote(self) -> bool:
        """Whether another service plays the audio."""
        return self._is_remote

    @property
    def is_open(self) -> bool:
        """Whether there is a sink."""
        return self._sink is not None

    def begin(self) -> None:
        """Begin to play: from now on the caller hears the agent."""
        self._has_begun = True
        if self._mixing is not None:
            self._mixing.open()
        self._tick()

    @property
    def mixing(self) -> MixingSink | None:
        """The sink that mixes background sound under speech; None before `mix()`."""
        return self._mixing

    def mix(self) -> MixingSink:
        """Return the sink that mixes background sound under speech, made by the first call."""
        if self._mixing is None:
            self._sink = self._mixing = MixingSink(self._opened, self._clock, self._on_written)
            self._on_written = None  # the mixing sink reports the mixed frames
            if self._has_begun:
                self._mixing.open()
        return self._mixing

    def play(self, utterance: Utterance) -> None:
        """Play `utterance` from its start, as its audio comes. The one before must have ended."""
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
        """Return whether that speech was reported to begin at that time, and none of it was heard."""
        current = self._current
        return current is not None and (current.speech_id, current.taken_back_at) == (speech_id, at)

    @property
    def is_paused(self) -> bool:
        """Whether the current utterance is paused, or the next one before it begins."""
        return self._is_paused

    def pause(self, fade: float = 0.0) -> None:
        """Pause the current utterance, or the next one before it begins."""
        if self._is_paused:
            return
        self._is_paused = True
        self._cancel_timer()
        if self._current is not None:
            self._silence(self._current, fade)

    def resume(self) -> None:
        """Play on from where the pause's fade began, with a fade-in if it faded."""
        if self._is_paused:
            self._is_paused = False
            self._remote_cut = None  # a position that is reported from now on comes too late
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

    def when_settled(self, utterance: Utterance, callback: Callable[[int], None]) -> None:
        """Call `callback` once with the samples that were played of an utterance which was just stopped.

        It is called at once, but for a remote sink that has not reported yet where it stopped.
        """
        cut = self._remote_cut
        if cut is not None and cut.utterance is utterance:
            cut.when_settled(callback)
        else:
            callback(utterance.written)

    def silent_at(self) -> float:
        """Return the session clock at which the sink will be empty, a fade included."""
        return self._clock.now() + self._opened.queued() / self.rate

    @property
    def is_drained(self) -> bool:
        """Whether the sink is empty, a fade included."""
        return not self.is_open or self.silent_at() <= self._clock.now()

    async def drained(self) -> None:
        """Wait until the sink is empty, a fade included."""
        if self.is_open:
            await anyio.sleep(max(0.0, self.silent_at() - self._clock.now()))

    def close(self) -> None:
        """Stop at once: nothing more is played or reported."""
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
            utterance.take_back()
        if self._is_remote:
            self._starting = None
            self._remote_cut = cut = RemoteCut(utterance)
            self._opened.when_cleared(cut.settle)
            return
        gain = self._gain_at(utterance.written)
        self._fade_in = 0
        if fade > 0 and utterance.written > 0:  # unheard audio needs no fade
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
            if rising < -2 * self._frame - self._most:  # the sink has played it too, so that no pause rewinds to it
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
        # While a timer is pending, the sink has enough audio, unless it is short; the timer will write more.
        if self._timer is None or self._is_short:
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
        queued, most = sink.queued(), self._most
        while queued <= most:
            missing = utterance.total - utterance.written
            if missing < self._frame and not utterance.is_finished:
                break  # a frame is not full yet: the next audio calls again
            if not missing:
                break
            frame = utterance.read(self._frame)
            self._run += frame.samples
            lead = 0 if self._mixing is None or utterance.started_at is not None else self._mixing.lead()
            self._write(self._faded_in(frame, utterance.written - frame.samples) if self._fade_in else frame)
            if utterance.started_at is None:
                if self._is_remote:
                    self._await_start(utterance)
                else:
                    utterance.start(self._clock.now() + lead / self.rate)
            queued = sink.queued()
        if self._is_remote and utterance.is_finished and utterance.written == utterance.total:
            sink.flush()
            queued = sink.queued()
        if self._on_progress is not None and utterance.started_at is not None:
            self._on_progress(utterance, utterance.written - min(queued, self._run), False)
        if utterance.written < utterance.total or not utterance.is_finished:
            if queued > most:
                self._arm((queued - most) / self.rate)
            elif queued and self._on_progress is not None:
                self._arm(queued / self.rate)
                self._is_short = True
        elif queued:
            self._arm(queued / self.rate)
        else:
            self._end(utterance)
            if utterance.on_finished is not None:
                utterance.on_finished(utterance)

    def _await_start(self, utterance: Utterance) -> None:
        if self._starting is not utterance:
            self._starting = utterance
            self._opened.when_playing(partial(self._has_started, utterance))

    def _has_started(self, utterance: Utterance) -> None:
        self._starting = None
        if utterance is self._current and utterance.started_at is None:
            utterance.start(self._clock.now())

    def _write(self, frame: AudioFrame) -> None:
        self._opened.write(frame)
        if self._on_written is not None:
            self._on_written(frame)

    def _arm(self, seconds: float) -> None:
        self._is_short = False
        self._timer = self._clock.call_at(self._clock.now() + seconds, self._on_timer)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""MixingSink: mixes background under speech, between the playout and the sink, and plays it alone in silence.

The playout counts speech only, and so do `queued` and `clear` here. When speech comes, background that was queued alone
is taken back, so that it does not delay the speech; it then continues at the very sample. This needs a sink that counts
exactly. Another sink (LiveKit's, exact to 10 ms) would repeat or skip some background each time, which clicks; there
speech waits for the queued background, 40 ms at most, and `lead()` returns how long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vivavoce.agents.audio.background import BackgroundPlayer
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.mixer import mix, to_pcm

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CLOSE_FADE = 0.05
"""Seconds of fade-out at the end of the session."""


@dataclass(slots=True)
class _Queued:
    """A frame in the sink.

    Args:
        frame: The frame as it was written; None for audio from before the mixing began.
        background: The part of it that is background; None if there is none.
    """

    samples: int
    is_speech: bool
    frame: AudioFrame | None
    background: npt.NDArray[np.float32] | None


class MixingSink(AudioSink):
    """Mixes players under the speech that is written, and feeds the sink with them alone while there is none.

    Args:
        on_written: Called with each frame written, if given.
    """

    def __init__(self, sink: AudioSink, clock: Clock, on_written: Callable[[AudioFrame], None] | None) -> None:
        self.players: list[BackgroundPlayer] = []
        self._sink = sink
        self._clock = clock
        self._on_written = on_written
        self._rate = sink.capabilities.sample_rate
        self._frame = round(FRAME_SECONDS * self._rate)
        self._most = round(sink.capabilities.lead * self._rate) - self._frame  # as the playout writes speech
        self._queue: deque[_Queued] = deque()
        self._samples = 0
        self._taken_back: npt.NDArray[np.float32] | None = None
        self._is_open = False
        self._is_ducked = False
        self._timer: TimerHandle | None = None
        before = sink.queued()
        if before:
            self._note(_Queued(before, True, None, None))

    # --- for the playout: speech only

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._sink.capabilities

    def write(self, frame: AudioFrame) -> None:
        self._duck(True)
        if self.capabilities.exact_position:
            self._take_back_background()
        background = self._render(frame.samples)
        if background is not None:
            frame = AudioFrame(mix(frame.data, background), self._rate)
        self._put(_Queued(frame.samples, True, frame, background), frame)
        if self._is_open and (self._timer is not None or background is not None):
            self._feed_later()

    def queued(self) -> int:
        self._forget_played(self._sink.queued())
        return sum(each.samples for each in self._queue if each.is_speech)

    def clear(self) -> int:
        dropped = self._clear(keep_speech=False)
        if self._taken_back is not None or self.players:
            self._arm(0.0)  # not now: the fade of the cut speech comes first
        return dropped

    def lead(self) -> int:
        """Return the samples that are played before a first frame of speech which is written now."""
        return 0 if self.capabilities.exact_position else self._sink.queued()

    def end_speech(self) -> None:
        """Note that the speech has ended."""
        self._duck(False)

    # --- for the session

    def open(self) -> None:
        """Begin to play: from now on the caller hears the agent."""
        self._is_open = True
        self.feed()

    def feed(self) -> None:
        """Write background until the sink has enough, and again in time; do nothing without background."""
        self._cancel_timer()
        if not self._is_open:
            return
        # Speech is written 10 ms before background would be, so background alone is written only without speech.
        while self._sink.queued() <= self._least:
            background = self._render(self._frame)
            if background is None:
                return
            frame = AudioFrame(to_pcm(background), self._rate)
            self._put(_Queued(frame.samples, False, frame, background), frame)
        self._feed_later()

    def add(self, player: BackgroundPlayer) -> None:
        """Mix `player` in from now on."""
        player.duck(self._is_ducked)
        self.players.append(player)

    def fade_out(self) -> float:
        """End all background with a short fade, without a click; return the seconds that it takes."""
        if not self._is_open:
            self.close()
            return 0.0
        self._cancel_timer()
        self._clear(keep_speech=True)
        background = self._render(round(CLOSE_FADE * self._rate))
        self.close()
        if background is not None:
            from vivavoce.pipelines.core.native_threads import numpy as np

            background = background * np.linspace(1.0, 0.0, num=len(background), dtype=np.float32)
            frame = AudioFrame(to_pcm(background), self._rate)
            self._put(_Queued(frame.samples, False, frame, background), frame)
        return self._sink.queued() / self._rate

    def close(self) -> None:
        """End all background at once; speech may still be written."""
        self._is_open = False
        self._cancel_timer()
        self._taken_back = None
        for player in self.players:
            player.end()
        self.players.clear()

    # --- inside

    @property
    def _least(self) -> int:
        return self._most - (self._frame // 2 if self._queue and self._queue[-1].is_speech else 0)

    def _put(self, queued: _Queued, frame: AudioFrame) -> None:
        self._sink.write(frame)
        self._note(queued)
        if self._on_written is not None:
            self._on_written(frame)

    def _note(self, queued: _Queued) -> None:
        self._forget_played(self._sink.queued() if queued.frame is None else self._sink.queued() - queued.samples)
        self._queue.append(queued)
        self._samples += queued.samples

    def _render(self, samples: int) -> npt.NDArray[np.float32] | None:
        """Return the next samples of background, beginning with those that were taken back."""
        before, self._taken_back = self._taken_back, None
        if before is not None and len(before) > samples:
            self._taken_back = before[samples:]
            return before[:samples]
        total = self._render_players(samples - (0 if before is None else len(before)))
        if before is None or len(before) == samples:
            return total if before is None else before
        from vivavoce.pipelines.core.native_threads import numpy as np

        rest = np.zeros(samples - len(before), np.float32) if total is None else total
        return np.concatenate([before, rest])

    def _render_players(self, samples: int) -> npt.NDArray[np.float32] | None:
        total = None
        for player in self.players if samples else ():
            sound = player.render(samples)
            if sound is not None:
                total = sound if total is None else total + sound
        if any(player.is_over for player in self.players):
            self.players = [player for player in self.players if not player.is_over]
        return total

    def _take_back_background(self) -> None:
        """Drop queued background without speech; it is mixed under the speech that comes."""
        if self._queue and not self._queue[-1].is_speech:
            self._clear(keep_speech=True)

    def _clear(self, *, keep_speech: bool) -> int:
        """Empty the sink, down to its last speech or completely; return the samples of speech dropped."""
        if keep_speech and any(each.frame is None for each in self._queue):
            return 0
        self._forget_played(self._sink.clear())
        kept: list[_Queued] = []
        while keep_speech and any(each.is_speech for each in self._queue):
            kept.append(self._queue.popleft())
        backgrounds = [each.background for each in self._queue if each.background is not None]
        speech = sum(each.samples for each in self._queue if each.is_speech)
        if backgrounds:
            from vivavoce.pipelines.core.native_threads import numpy as np

            after = [] if self._taken_back is None else [self._taken_back]
            self._taken_back = np.concatenate([*backgrounds, *after])
        self._queue.clear()
        self._samples = 0
        for each in kept:
            assert each.frame is not None, "checked above"
            self._sink.write(each.frame)
            self._queue.append(each)
            self._samples += each.samples
        return speech

    def _forget_played(self, queued: int) -> None:
        """Keep only the last `queued` samples."""
        played = self._samples - queued
        while played > 0 and self._queue:
            first = self._queue[0]
            if first.samples <= played:
                self._queue.popleft()
                played -= first.samples
                self._samples -= first.samples
                continue
            first.samples -= played
            if first.frame is not None:
                first.frame = AudioFrame(first.frame.data[2 * played :], self._rate)
            if first.background is not None:
                first.background = first.background[played:]
            self._samples -= played
            played = 0

    def _duck(self, is_ducked: bool) -> None:
        if is_ducked != self._is_ducked:
            self._is_ducked = is_ducked
            for player in self.players:
                player.duck(is_ducked)

    def _feed_later(self) -> None:
        self._arm((self._sink.queued() - self._least) / self._rate)

    def _arm(self, seconds: float) -> None:
        self._cancel_timer()
        if self._is_open:
            self._timer = self._clock.call_at(self._clock.now() + max(0.0, seconds), self.feed)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

"""Inbound: the caller's audio as the vendor sends it, put in order, its gaps concealed, cut into frames.

A gap of up to `CONCEALED` sounds on, backwards from its edge and fading; a longer one fades into silence. Both ends of
a gap meet without a step, so no click is heard.
"""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.transports.media_stream.doubler import Doubler
from vivavoce.agents.transports.media_stream.wire import Heard
from vivavoce.pipelines.media.buffer import FrameChunker
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.media.gain import ramp

CONCEALED = 0.06
"""Seconds of a gap that are filled with sound."""
LONGEST_GAP = 1.0
"""Seconds of silence for a gap, at most: the vendor's count may have begun anew."""
WAITING = 3
"""Messages that may wait for one that should have come before them."""
FADE_IN = 0.005
"""Seconds in which the sound comes back after a gap."""
LEAST_GAP = 0.015
"""Seconds from which on a step of the timestamps is a gap; vendors round them to milliseconds."""


class Inbound:
    """The caller's audio of one call.

    Args:
        rate: Hz of the vendor's audio.
        reorders: Whether messages may come in another order.
        on_frame: Called with each frame of 20 ms, of `output_rate`.
    """

    def __init__(self, rate: int, on_frame: Callable[[AudioFrame], None], *, reorders: bool = False) -> None:
        self._rate = rate
        self._on_frame = on_frame
        self._most = WAITING if reorders else 0
        self._doubler = Doubler() if rate == 8000 else None
        self.output_rate = 16000 if rate == 8000 else rate
        """Hz of the frames: twice a telephone's, since recognisers want it and a resampler for it would hold 30 ms."""
        self._frames = FrameChunker(self.output_rate)
        self._next: int | None = None  # the chunk that should come
        self._waiting: dict[int, Heard] = {}
        self._due: float | None = None  # the timestamp at which the audio so far ends
        self._last = b""

    def push(self, heard: Heard) -> None:
        """Take a piece of audio."""
        if heard.chunk is None:
            self._take(heard)
            return
        if self._next is None or abs(heard.chunk - self._next) * len(heard.pcm) > LONGEST_GAP * self._rate * 2:
            self._release()
            self._next = heard.chunk  # it counts anew
            self._due = None
        if heard.chunk < self._next:
            return  # doubled, or too late: its gap is filled
        self._waiting[heard.chunk] = heard
        while self._waiting and (self._next in self._waiting or len(self._waiting) > self._most):
            chunk = min(self._waiting)
            self._take(self._waiting.pop(chunk), missing=chunk - self._next)
            self._next = chunk + 1

    def flush(self) -> None:
        """Pass on what still waits: nothing more comes."""
        self._release()
        if (rest := self._frames.flush()) is not None:
            self._on_frame(
                AudioFrame(rest.data.ljust(self.output_rate // 50 * BYTES_PER_SAMPLE, b"\0"), rest.sample_rate)
            )

    # --- inside

    def _release(self) -> None:
        for chunk in sorted(self._waiting):
            self._take(self._waiting.pop(chunk))

    def _take(self, heard: Heard, *, missing: int = 0) -> None:
        pcm = heard.pcm
        if not pcm:
            return
        seconds = len(pcm) / BYTES_PER_SAMPLE / self._rate
        gap = missing * seconds
        if heard.timestamp is not None:
            at = heard.timestamp / 1000
            if self._due is not None:
                gap = at - self._due
            self._due = at + seconds
        if gap >= LEAST_GAP and self._last:
            self._emit(self._filling(min(gap, LONGEST_GAP)))
            head = round(FADE_IN * self._rate) * BYTES_PER_SAMPLE
            pcm = ramp(pcm[:head], 0.0, 1.0) + pcm[head:]
        elif heard.timestamp is not None and self._due is not None and gap < 0:
            self._due -= gap  # a timestamp that steps back is a rounding: the count goes on from the audio itself
        self._last = (self._last + pcm)[-round(CONCEALED * self._rate) * BYTES_PER_SAMPLE :]
        self._emit(pcm)

    def _filling(self, seconds: float) -> bytes:
        """Return the sound of a gap: the last one backwards, so that its first sample is the one before it."""
        from vivavoce.pipelines.core.native_threads import numpy as np

        samples = round(seconds * self._rate)
        voiced = min(samples, round(CONCEALED * self._rate))
        past = np.frombuffer(self._last, np.int16)[::-1]
        there_and_back = np.concatenate([past, past[::-1]])
        sound = np.resize(there_and_back, voiced).tobytes()
        return ramp(sound, 1.0, 0.0) + bytes(BYTES_PER_SAMPLE * (samples - voiced))

    def _emit(self, pcm: bytes) -> None:
        for frame in self._frames.push(pcm if self._doubler is None else self._doubler.push(pcm)):
            self._on_frame(frame)

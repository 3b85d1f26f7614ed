"""MarkedSink: the agent's audio on its way to a telephone, whose vendor plays it and reports the marks in it.

The vendor has up to `LEAD` of audio ahead, since the internet is not steady, and `clear` takes it back. The position is
counted by the clock from the moment when the first audio of a run was sent. So counted, it is the position at which the
vendor will be when a `clear` that is sent now arrives: both messages take the same way.

A mark each `MARK_SECONDS` of audio corrects it. Marks come back one round trip after the clock's count. A mark that
comes later shows that the vendor has stood still; while one is overdue, the count stands still, too. Marks that come
back because of a `clear` (Twilio and Telnyx return them at once) do not count: each clear begins a new epoch, and marks
are named by their epochs. A vendor that reports no marks is counted by the clock alone.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vivavoce.agents.transports.media_stream.wire import MediaWire, Message
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, FRAME_SECONDS, AudioFrame

logger = logging.getLogger(__name__)

LEAD = 0.3
"""Seconds of audio that the vendor has ahead."""
MARK_SECONDS = 0.2
"""Seconds of audio between two marks."""
LATE = 0.06
"""Seconds by which a mark may be late for no reason but the network's."""
LOST_AFTER = 5.0
"""Seconds after which a mark that is overdue does not come any more: the clock alone counts, until one comes."""
FIRST_DELAY = 0.2
"""Seconds for a round trip, until the first mark has come back."""


@dataclass(slots=True)
class _Mark:
    """A mark on its way; `due`: the clock's time at which the audio before it counts as played."""

    name: str
    due: float


class MarkedSink(AudioSink):
    """Sends audio, counts what is played of it, and takes the rest back.

    Args:
        post: Sends a message; it does not wait.
    """

    def __init__(self, wire: MediaWire, post: Callable[[Message], None], clock: Clock) -> None:
        self._wire = wire
        self._post = post
        self._clock = clock
        self._rate = wire.output_rate
        # Frames of another length than 20 ms are never written, so the take-back of background is exact enough.
        self._capabilities = SinkCapabilities(sample_rate=self._rate, exact_position=True, lead=LEAD)
        self._ends_at = float("-inf")
        """The clock's time at which all that was written counts as played."""
        self._unmarked = 0  # samples since the last mark
        self._epoch = 0
        self._count = 0
        self._marks: deque[_Mark] = deque()
        self._delay: float | None = None  # the shortest round trip, once a mark has come back
        self._stalled = 0.0  # seconds that the vendor has stood still in this run

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._capabilities

    @property
    def delay(self) -> float:
        """Seconds of a round trip to the vendor's player, as its marks show it."""
        return FIRST_DELAY if self._delay is None else self._delay

    def write(self, frame: AudioFrame) -> None:
        if frame.sample_rate != self._rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the {self._wire.name} stream takes mono audio of {self._rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample it first"
            )
        now = self._clock.now()
        if self._ends_at + self._overdue(now) <= now:
            self._ends_at, self._stalled = now, 0.0
        size = round(FRAME_SECONDS * self._rate) * BYTES_PER_SAMPLE
        for start in range(0, len(frame.data), size):
            piece = frame.data[start : start + size]
            self._post(self._wire.audio(piece))
            self._ends_at += len(piece) / BYTES_PER_SAMPLE / self._rate
            self._unmarked += len(piece) // BYTES_PER_SAMPLE
            if self._unmarked >= MARK_SECONDS * self._rate:
                self._mark()

    def queued(self) -> int:
        now = self._clock.now()
        return round(max(0.0, self._ends_at + self._overdue(now) - now) * self._rate)

    def clear(self) -> int:
        now, dropped = self._clock.now(), self.queued()
        # The vendor is behind the count by a part of the round trip: a clear is due although the count is at its end.
        if self._marks or self._ends_at + self.delay > now:
            self._post(self._wire.clear())
        self._epoch += 1
        self._marks.clear()
        self._unmarked = 0
        self._ends_at, self._stalled = float("-inf"), 0.0
        return dropped

    def played(self, name: str) -> None:
        """Take a mark that has come back; one of an epoch before, or one never sent, does not count."""
        if not any(mark.name == name for mark in self._marks):
            logger.debug("a mark came back that is not awaited")
            return
        while (mark := self._marks.popleft()).name != name:
            pass  # it was lost
        late = self._clock.now() - mark.due
        if self._delay is None:
            self._delay = max(0.0, late)
            return
        late -= self._delay
        if late > LATE:
            self._shift(late)
        elif late < 0:
            back = min(-late, self._stalled)
            self._shift(-back)
            self._delay = max(0.0, self._delay + late + back)

    # --- inside

    def _mark(self) -> None:
        self._unmarked = 0
        self._count += 1
        name = f"{self._epoch}:{self._count}"
        self._marks.append(_Mark(name, self._ends_at))
        self._post(self._wire.mark(name))

    def _overdue(self, now: float) -> float:
        """Return for how many seconds the oldest mark is overdue: the vendor stands still."""
        if not self._marks:
            return 0.0
        overdue = now - (self._marks[0].due + self.delay + LATE)
        if overdue > LOST_AFTER:
            if self._delay is not None:
                logger.warning("the %s stream has not reported a mark for %g s", self._wire.name, LOST_AFTER)
            self._delay = None
            self._marks.clear()
        return 0.0 if self._delay is None else max(0.0, overdue)

    def _shift(self, seconds: float) -> None:
        self._ends_at += seconds
        self._stalled += seconds
        for mark in self._marks:
            mark.due += seconds

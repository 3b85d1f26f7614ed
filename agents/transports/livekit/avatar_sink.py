"""AvatarSink: the agent's audio on its way to an avatar, which plays it in the room. No I/O: commands out, reports in.

The protocol is LiveKit's for avatars. Each speech is a byte stream; the avatar reports the begin and the end of its
playing, and where it stopped when it was cleared. Between the reports the clock counts the position.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import anyio

from vivavoce.agents.transports.pacing import PacedQueue
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.io import AudioSink, SinkCapabilities
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame

logger = logging.getLogger(__name__)

START_SHARE = 2 / 3
"""Share of the lead after which an avatar is probed that has not reported that it plays: livekit-agents' runner may
leave the report out after an interruption, and would soon have no audio left. If it lives, it counts as playing since
`START_DELAY`, or as long as its last start took; a report that comes later corrects this.
"""
START_DELAY = 0.3
END_LIMIT = 2.0
"""Seconds for its report that it has played all, after the end that the clock has counted; then it is probed too."""
CLEAR_LIMIT = 1.0
"""Seconds for its report of the position at which it stopped; after them the estimate stands."""
UNSTARTED_LIMIT = 0.3
"""The same for speech that it has not begun by its own report: it then may report nothing."""

Command = bytes | Literal["open", "end", "clear", "probe"]
"""Audio of the open stream, or: open a stream; end it; end it and have the avatar drop the audio that is not played;
ask for a sign of life.
"""


@dataclass(slots=True)
class _Speech:
    """The audio of one stream.

    Args:
        opened_at: When its first frame was written.
        timer: Fires if the avatar is late with its next report.
        samples: Written so far.
        is_playing: Whether it counts as playing.
        is_reported: Whether the avatar has reported that.
        is_whole: Whether its stream has ended.
    """

    opened_at: float
    timer: TimerHandle
    samples: int = 0
    is_playing: bool = False
    is_reported: bool = False
    is_whole: bool = False
    on_playing: Callable[[], None] | None = None


@dataclass(slots=True)
class _Clearing:
    """A speech that was cleared, until the avatar has reported where it stopped."""

    speech: _Speech
    dropped: int
    timer: TimerHandle
    on_settled: Callable[[int], None] | None = None


class AvatarSink(AudioSink):
    """Turns frames into commands for `AvatarLink`, and the avatar's reports into positions.

    Args:
        clock: Counts the position between reports.
        sample_rate: Hz of the frames written.
        lead: Seconds of audio that the playout keeps in it.
    """

    def __init__(self, clock: Clock, *, sample_rate: int, lead: float) -> None:
        self._capabilities = SinkCapabilities(sample_rate=sample_rate, exact_position=False, lead=lead, is_remote=True)
        self._clock = clock
        self._start_delay = START_DELAY
        self._commands: deque[Command] = deque()
        self._has_commands = anyio.Event()
        self._speech: _Speech | None = None
        self._unplayed: deque[AudioFrame] = deque()
        """The newest frames, at least those that are not played."""
        self._playing = PacedQueue(clock, sample_rate)
        self._clearing: _Clearing | None = None
        self._unreported = 0
        """Speeches that count as played, and whose end the avatar may still report."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._capabilities

    @property
    def is_idle(self) -> bool:
        """Whether no speech is in it."""
        return self._speech is None

    def write(self, frame: AudioFrame) -> None:
        rate = self._capabilities.sample_rate
        if frame.sample_rate != rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the avatar takes mono audio of {rate} Hz, got {frame.sample_rate} Hz with {frame.num_channels} "
                "channel(s); resample it first, or set RoomOptions(output_rate=...)"
            )
        if not frame.samples:
            return
        if self._speech is None or self._speech.is_whole:
            self._unreported += self._speech is not None
            self._over()
            self._speech = _Speech(
                self._clock.now(), self._timer(START_SHARE * self._capabilities.lead, self._has_not_started)
            )
            self._command("open")
        self._speech.samples += frame.samples
        if self._speech.is_playing:
            self._playing.add(frame.samples)
        self._keep(frame)
        self._command(frame.data)

    def flush(self) -> None:
        if self._speech is not None and not self._speech.is_whole:
            self._speech.is_whole = True
            self._command("end")
            if self._speech.is_playing:
                self._await_end(self._speech)

    def queued(self) -> int:
        speech = self._speech
        if speech is None:
            return 0
        if not speech.is_playing:
            return speech.samples
        # One frame is left until the avatar has reported the end.
        return max(self._playing.queued(), self._capabilities.sample_rate // 50 if speech.is_whole else 0)

    def clear(self) -> int:
        speech, self._speech = self._speech, None
        if speech is None:
            return 0
        speech.timer.cancel()
        dropped = self._playing.clear() if speech.is_playing else speech.samples
        self._unplayed.clear()
        self._settle(None)  # an earlier one, if speech went on so soon
        if self._take_back_unsent():
            return speech.samples
        self._command("clear")
        limit = CLEAR_LIMIT if speech.is_playing else UNSTARTED_LIMIT
        self._clearing = _Clearing(speech, dropped, self._timer(limit, self._give_up))
        return dropped

    def when_playing(self, callback: Callable[[], None]) -> None:
        if self._speech is not None:
            self._speech.on_playing = callback

    def when_cleared(self, callback: Callable[[int], None]) -> None:
        if self._clearing is None:
            callback(0)
        else:
            self._clearing.on_settled = callback

    # --- for the link

    async def next_command(self) -> Command:
        """Wait for the next command; audio that waits comes in one piece."""
        while not self._commands:
            self._has_commands = anyio.Event()
            await self._has_commands.wait()
        command = self._commands.popleft()
        if not isinstance(command, bytes):
            return command
        pieces = [command]
        while self._commands and isinstance(following := self._commands[0], bytes):
            pieces.append(following)
            self._commands.popleft()
        return b"".join(pieces)

    def started(self) -> None:
        """The avatar reports that it plays."""
        speech = self._speech
        if speech is not None and not speech.is_reported:
            self._start_delay = self._clock.now() - speech.opened_at
            speech.is_reported = True
            self._begin(speech)

    def lives(self) -> None:
        """The avatar has answered a probe: it plays, though it has not reported it."""
        if self._speech is not None and not self._speech.is_playing:
            self._begin(self._speech)

    def finished(self, seconds: float, *, interrupted: bool) -> None:
        """The avatar reports that it has stopped after `seconds` of the speech: at its end, or because of a clear."""
        if self._unreported and not interrupted and self._is_unplayed():
            self._unreported -= 1
            logger.debug("the avatar reports late the end of a speech that counts as played")
            return
        if not interrupted:
            self._unreported = 0  # reports come in order: those before it are lost
        if self._clearing is not None:
            self._settle(round(seconds * self._capabilities.sample_rate))
        elif self._speech is not None and self._speech.is_whole and not interrupted:
            if not self._speech.is_playing:
                self._begin(self._speech)
            self._over()
        else:
            logger.debug("the avatar reports late the end of a speech that is over")

    def abandon(self) -> list[AudioFrame]:
        """Give up the avatar, which is gone; return the frames that it has not played, by the clock."""
        speech, frames = self._speech, list[AudioFrame]()
        if speech is not None:
            left = self._playing.queued() if speech.is_playing else speech.samples
            while left > 0 and self._unplayed:
                frame = self._unplayed.pop()
                part = frame.data if frame.samples <= left else frame.data[-BYTES_PER_SAMPLE * left :]
                frames.append(AudioFrame(part, frame.sample_rate))
                left -= frame.samples
            if speech.on_playing is not None and frames:
                speech.on_playing()  # it is about to be played elsewhere
            self._over()
        self._unreported = 0
        self._commands.clear()
        self._settle(None)
        return frames[::-1]

    # --- inside

    def _is_unplayed(self) -> bool:
        """Whether no avatar can have played all of the newest speech by now."""
        speech = self._speech if self._clearing is None else self._clearing.speech
        if speech is None or not speech.is_whole:
            return True
        return self._clock.now() < speech.opened_at + speech.samples / self._capabilities.sample_rate

    def _command(self, command: Command) -> None:
        self._commands.append(command)
        self._has_commands.set()

    def _take_back_unsent(self) -> bool:
        """Drop the newest stream's commands that were not sent; return whether these are all of it."""
        while self._commands:
            if self._commands.pop() == "open":
                return True
        return False

    def _keep(self, frame: AudioFrame) -> None:
        self._unplayed.append(frame)
        most = 2 * self._capabilities.lead * self._capabilities.sample_rate
        while len(self._unplayed) * frame.samples > most:
            self._unplayed.popleft()

    def _timer(self, seconds: float, callback: Callable[[], None]) -> TimerHandle:
        return self._clock.call_at(self._clock.now() + seconds, callback)

    def _begin(self, speech: _Speech) -> None:
        speech.is_playing = True
        speech.timer.cancel()
        self._playing.clear()
        self._playing.add(speech.samples, began=speech.opened_at + self._start_delay)
        if speech.is_whole:
            self._await_end(speech)
        if speech.on_playing is not None:
            callback, speech.on_playing = speech.on_playing, None
            callback()

    def _await_end(self, speech: _Speech) -> None:
        left = self._playing.queued() / self._capabilities.sample_rate
        speech.timer = self._timer(left + END_LIMIT, self._has_not_ended)

    def _has_not_started(self) -> None:
        self._command("probe")

    def _has_not_ended(self) -> None:
        logger.warning("the avatar has not reported the end of a speech within %s s; it counts as played", END_LIMIT)
        self._unreported += 1
        self._over()
        self._command("probe")

    def _over(self) -> None:
        if self._speech is not None:
            self._speech.timer.cancel()
            self._speech = None
        self._unplayed.clear()
        self._playing.clear()

    def _give_up(self) -> None:
        clearing = self._clearing
        if clearing is not None and clearing.speech.is_playing:
            logger.warning("the avatar has not reported within %s s where it stopped; the estimate stands", CLEAR_LIMIT)
        self._settle(None)

    def _settle(self, played: int | None) -> None:
        """End the clearing; `played`: the samples that the avatar has played, if it reports them."""
        clearing, self._clearing = self._clearing, None
        if clearing is None:
            return
        clearing.timer.cancel()
        if clearing.on_settled is not None:
            samples = clearing.speech.samples
            dropped = clearing.dropped if played is None else samples - min(samples, max(0, played))
            clearing.on_settled(dropped - clearing.dropped)

"""PreConnectAudio: hears what the caller said before the agent came, in front of the caller's live audio.

The caller's client records (LiveKit's pre-connect buffer) and sends the recording once the agent is in the room. Live
audio of that track waits for it; then both are handed on as fast as they are taken, each frame with the time since it
was said. So the session hears one conversation, in order. The agent begins to speak behind it: words that were said
before are no interruption of its greeting.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
from livekit import rtc
from livekit.protocol.models import AudioTrackFeature

from vivavoce.agents.transports.livekit.agent_room import MAX_STREAMS, AgentRoom, SentStream, SentStreams
from vivavoce.agents.transports.livekit.joining import Joining, Recorded
from vivavoce.agents.transports.livekit.recording_reader import (
    MAX_SECONDS,
    RecordingProblem,
    audio_of,
    format_of,
    pieces_of,
)
from vivavoce.pipelines.core.clock import Clock, TimerHandle
from vivavoce.pipelines.core.errors import PreConnectAudioError, PreConnectOutcome
from vivavoce.pipelines.io import TransportEvents
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame

logger = logging.getLogger(__name__)

ANNOUNCES = int(AudioTrackFeature.TF_PRECONNECT_BUFFER)
"""The feature of a track whose client sends a recording."""
LIMIT = 3.0
"""Seconds that live audio waits for a recording that the caller's track announces, and for its next piece."""
WHOLE_LIMIT = 10.0
"""Seconds in which a recording must come whole."""
UNSURE_LIMIT = 0.5
"""Seconds for it to begin to arrive where it may have been sent before, to another agent or before the session."""
SENT_WITHIN = 10.0
"""Seconds from the caller's joining within which LiveKit's clients send it, or never."""
MAX_AGE = 10.0
"""Seconds that a recording may have waited for the session."""
AT_ONCE = 0.05
"""Seconds of reading after which a recording counts as one that was still being sent."""


class PreConnectAudio:
    """The recordings of one session's callers.

    Args:
        room: The session's.
        rate: Hz of the session's audio.
        is_wanted: Whether recordings are heard.
        on_change: Called when the caller's live audio waits for a recording no longer.
    """

    def __init__(
        self, room: rtc.Room, clock: Clock, rate: int, *, is_wanted: bool, on_change: Callable[[], None]
    ) -> None:
        self._room = room
        self._clock = clock
        self._rate = rate
        self._is_wanted = is_wanted
        self._on_change = on_change
        self._streams = room.recordings if isinstance(room, AgentRoom) else SentStreams(room, clock)
        self._events: TransportEvents | None = None
        self._identity: str | None = None
        self._track = ""
        """The sid of the microphone that is heard."""
        self._waiting: list[SentStream] = []
        self._is_live = self._has_recording = False
        """Whether live audio of that track was handed on, and whether it has had its recording."""
        self._joining: Joining | None = None
        self._limit: TimerHandle | None = None
        self._reading: anyio.CancelScope | None = None
        self._came = anyio.Event()

    @property
    def is_awaited(self) -> bool:
        """Whether the live audio waits for a recording; the agent should not begin to speak meanwhile."""
        return self._joining is not None

    @contextmanager
    def taking(self, events: TransportEvents) -> Iterator[None]:
        """Take recordings within the block."""
        self._events = events
        takes = self._is_wanted and not self._streams.is_taken and self._streams.open()
        if takes:
            self._streams.take(self._add)
        try:
            yield
        finally:
            if takes:
                self._streams.release()
                if not isinstance(self._room, AgentRoom):
                    self._streams.close()
            self._end_joining()
            for stream in self._waiting:
                stream.reader.close()
            self._waiting.clear()
            self._events = None

    # --- live audio

    def frame(self, frame: AudioFrame) -> None:
        """Take the next frame of the microphone."""
        if self._joining is not None:
            self._joining.frame(frame)
        elif self._events is not None:
            self._is_live = True
            self._events.audio(frame)

    def stopped(self) -> None:
        """Note that no more frames come for now."""
        if self._joining is not None:
            self._joining.stop()
        elif self._events is not None:
            self._events.audio_stopped()

    # --- the microphone

    def follow(self, participant: rtc.RemoteParticipant | None, publication: rtc.RemoteTrackPublication | None) -> None:
        """Note whom the session talks to, and the microphone that it hears; a repeated call has no effect."""
        if participant is not None and participant.identity != self._identity:
            self._identity = participant.identity
            self._drop_strangers()
        sid = "" if publication is None else publication.sid
        if sid == self._track or publication is None or participant is None:
            return
        self._end_joining()
        if self._reading is not None:
            self._reading.cancel()
        self._track, self._is_live, self._has_recording = sid, False, False
        is_announced = ANNOUNCES in map(int, publication.audio_features)
        if not self._is_wanted or sid in self._streams.settled:
            return
        if any(self._is_of_track(stream) for stream in self._waiting):
            self._begin_joining(LIMIT)
        elif is_announced and self._streams.is_taken:
            self._begin_joining(LIMIT if self._is_to_come(participant) else UNSURE_LIMIT)
        self._came.set()

    def _is_to_come(self, caller: rtc.RemoteParticipant) -> bool:
        """Return whether the recording cannot have been sent before the session took recordings."""
        mine, theirs = self._room.local_participant.joined_at, caller.joined_at
        if not isinstance(self._room, AgentRoom) or mine is None or theirs is None:
            return False
        return (mine - theirs).total_seconds() <= SENT_WITHIN

    def _begin_joining(self, limit: float) -> None:
        events = self._events
        assert events is not None
        self._joining = Joining(
            self._clock, self._rate, on_frame=events.audio, on_stopped=events.audio_stopped, on_over=self._joined
        )
        self._set_limit(limit, is_sure=limit == LIMIT)

    def _set_limit(self, seconds: float, *, is_sure: bool) -> None:
        self._cancel_limit()
        self._limit = self._clock.call_at(self._clock.now() + seconds, lambda: self._late(is_sure))

    def _late(self, is_sure: bool) -> None:
        """Wait no longer."""
        self._limit = None
        if self._reading is not None:
            self._reading.cancel()
        elif self._joining is not None:
            if is_sure:
                self._report("missing", f"did not come within {LIMIT:g} s, though the caller's track announces it")
            self._settle(None)

    def _joined(self) -> None:
        self._joining, self._is_live = None, True
        self._cancel_limit()
        self._on_change()

    def _end_joining(self) -> None:
        self._cancel_limit()
        if self._joining is not None:
            self._joining.close()

    def _settle(self, recorded: Recorded | None) -> None:
        """Hand on what there is: no session of the room waits for a recording of this track again."""
        self._cancel_limit()
        self._streams.settled.add(self._track)
        if self._joining is None:
            return
        if recorded is None:
            self._joining.give_up()
        else:
            self._has_recording = True
            self._joining.take(recorded)

    def _cancel_limit(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    # --- streams

    def _add(self, stream: SentStream) -> None:
        """Take a stream that begins to arrive."""
        if (self._identity is not None and stream.sender != self._identity) or len(self._waiting) >= MAX_STREAMS:
            stream.reader.close()
            return
        self._waiting.append(stream)
        if self._track and self._is_of_track(stream) and not self._has_recording:
            if self._joining is None and not self._is_live:
                self._begin_joining(LIMIT)
            elif self._joining is not None:
                self._set_limit(LIMIT, is_sure=True)
        self._came.set()

    def _is_of_track(self, stream: SentStream) -> bool:
        """Whether it is of the microphone that is heard; a client that does not know its track names none."""
        return stream.sender == self._identity and _track_of(stream) in ("", self._track)

    def _drop_strangers(self) -> None:
        for stream in [each for each in self._waiting if each.sender != self._identity]:
            self._waiting.remove(stream)
            stream.reader.close()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self._came = anyio.Event()
            while self._track and self._waiting:
                await self._take(self._waiting.pop(0))
            await self._came.wait()

    async def _take(self, stream: SentStream) -> None:
        track = self._track
        try:
            problem = self._refusal(stream)
            if problem is not None:
                self._report(*problem)
                return
            recorded = await self._read(stream)
            self._check_heard(track)
            self._settle(recorded)
        except RecordingProblem as error:
            if stream.sender == self._identity:
                self._report(error.outcome, f"is not heard: {error}")
            if track == self._track:
                self._settle(None)
        finally:
            stream.reader.close()

    def _refusal(self, stream: SentStream) -> tuple[PreConnectOutcome, str] | None:
        """Return why a stream is not read, if it is not."""
        if not self._is_of_track(stream):
            return "other_track", f"is not heard: it is of the track {_track_of(stream)[:40]!r}, and another is heard"
        if self._has_recording:
            return "second", "is not heard: this track has had its recording"
        if self._joining is None:
            return "late", "is not heard: it came when the caller's live audio had been heard already"
        if self._streams.age(stream) > MAX_AGE:
            self._settle(None)
            return "too_old", f"is not heard: it came more than {MAX_AGE:g} s before the session; start it sooner"
        return None

    def _check_heard(self, track: str) -> None:
        """Refuse a recording whose microphone is heard no longer: another one, perhaps of another caller."""
        if track != self._track:
            raise RecordingProblem("other_track", f"it is of the track {track!r}, and another is heard by now")

    async def _read(self, stream: SentStream) -> Recorded:
        track, began_at, came_before = self._track, self._clock.now(), self._streams.age(stream)
        kind = format_of(stream.reader.info)
        data = bytearray()
        try:
            with anyio.CancelScope(deadline=anyio.current_time() + WHOLE_LIMIT) as self._reading:
                await pieces_of(stream.reader, data, lambda: self._set_limit(LIMIT, is_sure=True))
            self._check_heard(track)
            if self._reading.cancelled_caught:
                raise RecordingProblem("incomplete", f"nothing came for {LIMIT:g} s, or not all in {WHOLE_LIMIT:g} s")
        except RecordingProblem as error:
            if error.outcome != "incomplete" or kind.mime_type or not data:
                raise
            self._report("incomplete", f"is heard in part: {error}")
        finally:
            self._reading = None
        self._cancel_limit()  # decoding has bounds of its own
        now = self._clock.now()
        ended_at = began_at - came_before if now - began_at < AT_ONCE else now
        with self._clock.hold():
            audio = await audio_of(bytes(data), kind, self._rate)
        most = round(MAX_SECONDS * self._rate) * BYTES_PER_SAMPLE
        if len(audio) > most:
            seconds = len(audio) / BYTES_PER_SAMPLE / self._rate
            self._report("too_long", f"of {seconds:.0f} s is heard in part: its last {MAX_SECONDS:g} s")
        logger.debug("a recording of %r has come: %s bytes", self._identity, len(data))
        return Recorded(audio[-most:], ended_at)

    def _report(self, outcome: PreConnectOutcome, problem: str) -> None:
        text = f"the audio that {self._identity!r} recorded before the agent came {problem}"
        logger.warning("%s", text)
        if self._events is not None:
            error = PreConnectAudioError(text, identity=self._identity or "", outcome=outcome)
            self._events.failed(error, is_fatal=False)


def _track_of(stream: SentStream) -> str:
    return (stream.reader.info.attributes or {}).get("trackId", "")

"""Where audio comes from and goes to: the AudioSink and Transport ports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, VoiceError
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkCapabilities:
    """The format and precision of a sink.

    Args:
        sample_rate: Hz of the frames for `write`.
        exact_position: Whether `queued()` and `clear()` are exact to the sample; else within 10 ms.
        lead: Seconds of audio that the playout keeps in it.
        is_remote: Whether another service plays the audio: it reports later when a speech has begun, and how much of a
            cleared one was played. It gets no fades and no background audio. A sink that only mends its own count by
            reports, such as a telephone's with its marks, is not remote.
    """

    sample_rate: int = 24000
    exact_position: bool = True
    lead: float = 0.04
    is_remote: bool = False


class AudioSink(ABC):
    """Takes the agent's audio and plays it in real time.

    The playout keeps at most `capabilities.lead` in it, so `write` never waits. A sink that must wait for another
    service has a bounded queue.
    """

    @property
    @abstractmethod
    def capabilities(self) -> SinkCapabilities:
        """Fixed for the life of the sink."""

    @abstractmethod
    def write(self, frame: AudioFrame) -> None:
        """Queue one mono frame at the sink's rate. The first one into an empty queue is played now."""

    @abstractmethod
    def queued(self) -> int:
        """Return the samples written and not played yet."""

    @abstractmethod
    def clear(self) -> int:
        """Drop the queued samples, with silence within 10 ms; return their number, a remote sink an estimate."""

    def flush(self) -> None:
        """The speech was written whole; a sink that streams it to a player ends the stream."""

    def when_playing(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, when the first of the queued samples is played; `clear()` revokes it.

        Called only for a remote sink, after the first frame of a speech.
        """
        callback()

    def when_cleared(self, callback: Callable[[int], None]) -> None:
        """Call `callback` once with the error of the last `clear()`: samples dropped beyond its estimate, or below 0.

        Called only for a remote sink, right after `clear()`. The sink sets a limit for the report; without one, the
        estimate stands.
        """
        callback(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerInfo:
    """The caller, as the line names them.

    Args:
        number: The other side's telephone number; empty for a caller without one, or one that hides it.
        called_number: The number of our side; empty without one.
        parameters: What else the line tells of the call, by name: a trunk's headers, an application's own.
        line: How the call comes: `"sip"`, `"room"` for a client in a LiveKit room, or the name of another line.
        identity: The participant's identity in the room; empty without one.
    """

    number: str = field(default="", repr=False)
    called_number: str = field(default="", repr=False)
    parameters: Mapping[str, str] = field(default_factory=dict, repr=False)
    line: str = ""
    identity: str = field(default="", repr=False)


FileOutcome = Literal["received", "not_wanted", "too_large", "too_many", "wrong_type", "incomplete"]
"""The end of a file that the linked participant sends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedFile:
    """A file that begins to come from the linked participant, in the participant's words: check them before use.

    Args:
        id: The transport's id of the transfer.
        size: Bytes; None if they are not known yet.
    """

    id: str
    name: str = field(repr=False)
    media_type: str
    size: int | None = None


class TransportEvents(Protocol):
    """The session's side of a transport. Synchronous; each call only enqueues, except `audio`."""

    def audio(self, frame: AudioFrame, late: float = 0.0) -> None:
        """Take 20 ms of the linked participant, mono, at the transport's input rate.

        Args:
            late: Seconds since the end of the frame was said, if the transport has kept it: frames that were kept come
                as fast as they are taken, in order, before those of now.
        """

    def audio_stopped(self) -> None:
        """No more frames come for now: the linked participant's microphone is muted, unpublished or lost.

        Also to be reported when frames have come and none has followed for a second: no VAD will report the end of a
        voice that was on.
        """

    def wants_video(self) -> bool:
        """Return whether a picture is wanted now; ask before making one, and call `video()` if it is."""

    def video(self, frame: VideoFrame, thumbnail: bytes = b"") -> None:
        """Take a picture of the linked participant, after `wants_video()` returned True.

        Args:
            thumbnail: Grey values of its cells, a byte each, always of the same number: two pictures with nearly the
                same are not both kept. Empty: the picture counts as new.
        """

    def video_stopped(self) -> None:
        """The linked participant shows no video any more."""

    def text(self, text: str) -> None:
        """The linked participant typed something."""

    def key(self, key: str) -> None:
        """The linked participant pressed a key of a telephone (DTMF): one of 0 to 9, *, # and A to D."""

    def part_answered(self, json_text: str) -> None:
        """The linked participant's client answered a part of a rich reply: chose an option, or filled a form in."""

    def file_offered(self, file: OfferedFile) -> int:
        """A file begins to come. Return how many bytes it may have; 0: it is refused, so do not read it."""

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes = b"") -> None:
        """A file that was not refused has come whole (`received`), or was `too_large` or `incomplete`."""

    def interrupt(self) -> None:
        """The linked participant pressed a button to stop the agent."""

    def participant_linked(self, identity: str) -> None:
        """The participant that the session talks to is there (again)."""

    def participant_left(self, identity: str, *, comes_back: bool = True) -> None:
        """The linked participant is gone; it may come back within the grace time, unless the line says it will not."""

    def closed(self, reason: str) -> None:
        """The room is gone for good."""

    def failed(self, error: VoiceError, *, is_fatal: bool) -> None:
        """A part of the transport failed. The call goes on, or, if it is fatal, the session closes with this error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TranscriptSegment:
    """A piece of transcription for the room.

    Args:
        segment_id: Same for all updates of one segment.
        text: For the agent, the text heard so far; for the user, the transcript so far.
        is_final: Whether this is the last update of the segment.
        turn_id: For the agent, the turn that the text belongs to, as in its record; a turn has a segment for each step.
        speakers: For the user, the recogniser's names of the voices that said it; empty if it tells none apart.
    """

    segment_id: str
    who: Literal["user", "agent"]
    text: str = field(repr=False)
    is_final: bool
    turn_id: str = ""
    speakers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartMessage:
    """A message about the rich replies of a session, for the linked participant's client.

    Args:
        json_text: The message (`vivavoce.agents.replies.wire`).
        plain: The part as text, for a transport that shows nothing else; empty if there is nothing to show.
        part_id: The part that `data` belongs to.
        data: The bytes of an image or a file; empty if the message is complete without them.
        name: Name of the file.
        media_type: Of `data`.
    """

    json_text: str = field(repr=False)
    plain: str = field(default="", repr=False)
    part_id: str = ""
    data: bytes = field(default=b"", repr=False)
    name: str = field(default="", repr=False)
    media_type: str = ""


class Transport(ABC):
    """A session's link to its caller: audio both ways, text, states.

    Outgoing calls are synchronous and enqueue; the transport sends them in order and logs a failure, and never raises
    it in `send_*`.
    """

    input_rate: int = 16000
    """Hz of the frames for `TransportEvents.audio`."""
    _is_claimed = False

    def claim(self) -> None:
        """Note that a session uses it, from its start on; the session calls `aclose()`, also if its start fails.

        Raises:
            RoomError: A session uses it, or has used it.
        """
        if self._is_claimed:
            name = type(self).__name__
            raise RoomError(f"a {name} serves one session, and this one has had its own; make another")
        self._is_claimed = True

    @abstractmethod
    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Join, publish, call `task_status.started()`, then serve until cancelled.

        Raises:
            RoomError: It cannot be joined (before `started()`).
        """

    @property
    @abstractmethod
    def sink(self) -> AudioSink:
        """Where the agent's audio goes."""

    @property
    def wants_turn_records(self) -> bool:
        """Whether `send_turn_record` has an effect; else the session makes no JSON."""
        return False

    @property
    def caller(self) -> CallerInfo | None:
        """The linked caller as the line names them; None as long as none is there."""
        return None

    async def send_keys(self, keys: str) -> bool:
        """Send keys of a telephone (DTMF) to the caller by a message of the line, one after the other.

        Returns:
            Whether the line has such a message; without one the tones can go out as audio.
        Raises:
            RoomError: It could not be sent.
        """
        return False

    @property
    def is_audible(self) -> bool:
        """Whether the linked participant receives the agent's audio; playout waits for it (limit 10 s)."""
        return True

    def on_audible(self, callback: Callable[[], None]) -> None:
        """Call `callback` once when `is_audible` becomes true (at once if it is)."""
        callback()

    def send_transcript(self, segment: TranscriptSegment) -> None:
        """Show a transcription to the room."""

    def send_agent_state(self, state: str) -> None:
        """Show the agent's state to the room."""

    def send_turn_record(self, json_text: str) -> None:
        """Send a turn record to the linked participant, if the transport is configured to."""

    def send_part(self, message: PartMessage) -> None:
        """Send a message about rich replies to the linked participant, if there is one; else it is dropped.

        The session sends the parts again when the participant has come back. A transport that shows only text shows
        `message.plain`; one without text does nothing.
        """

    @property
    def tail(self) -> float:
        """Seconds, at most, from the moment when the sink has played a sample until the linked participant has heard
        it."""
        return 0.0

    def check_hangup(self) -> None:
        """Check that `hangup()` has all that it needs; a transport that needs keys overrides this.

        Raises:
            ConfigurationError: It lacks something; the error names it.
        """
        if type(self).hangup is Transport.hangup:
            raise ConfigurationError(
                f"needed a transport that can disconnect its caller, got {type(self).__name__}, which has no hangup(); "
                "implement it, or let the caller leave by themselves"
            )

    async def hangup(self) -> None:
        """Disconnect the linked participant; fine if it is gone already.

        Raises:
            ConfigurationError: It lacks something, as `check_hangup()`.
            RoomError: The room refused it, or did not answer in time.
        """
        self.check_hangup()

    async def leave(self) -> None:
        """Leave the room. Bounded by the caller; calling it twice is fine."""

    async def aclose(self) -> None:
        """Free the audio tracks and handlers; the code that connected the room keeps it."""

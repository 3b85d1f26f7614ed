"""LocalTransport and VirtualSink: a caller in the same process, for tests, benchmarks and custom audio devices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.transports.frame_watch import FrameWatch
from vivavoce.agents.transports.pacing import PacedQueue
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.io import (
    AudioSink,
    OfferedFile,
    PartMessage,
    SinkCapabilities,
    TranscriptSegment,
    Transport,
    TransportEvents,
)
from vivavoce.pipelines.media.buffer import RecentFrames
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame, VideoFrame

EARLY_SECONDS = 3.0
"""Seconds of the caller's audio that are kept while a session is still starting."""


@dataclass(frozen=True, slots=True)
class PlayedFrame:
    """A frame that was played, whole or in part.

    Args:
        at: When its first sample was played, in the clock's seconds.
    """

    at: float
    frame: AudioFrame


class VirtualSink(AudioSink):
    """A sink without a listener: plays exactly at the speed of its clock, and records what was played.

    Args:
        clock: Paces the playing; virtual in tests.
        sample_rate: Hz of the frames written.
        is_recording: Whether to keep the played audio; off, `played()` stays empty and memory does not grow.
    """

    def __init__(self, clock: Clock, *, sample_rate: int = 24000, is_recording: bool = True) -> None:
        self._capabilities = SinkCapabilities(sample_rate=sample_rate, exact_position=True)
        self._is_recording = is_recording
        self._written: list[PlayedFrame] = []
        self._queue = PacedQueue(clock, sample_rate)

    @property
    def capabilities(self) -> SinkCapabilities:
        return self._capabilities

    def write(self, frame: AudioFrame) -> None:
        rate = self._capabilities.sample_rate
        if frame.sample_rate != rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the sink plays mono audio of {rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample it first"
            )
        at = self._queue.add(frame.samples)
        if self._is_recording and frame.samples:
            self._written.append(PlayedFrame(at, frame))

    def queued(self) -> int:
        return self._queue.queued()

    def clear(self) -> int:
        dropped = self._queue.clear()
        if self._is_recording:
            _cut_tail(self._written, dropped)
        return dropped

    def frames(self) -> list[PlayedFrame]:
        """Return the frames played by now; the last one may be cut."""
        return _without_tail(self._written, self.queued())

    def played(self) -> bytes:
        """Return all samples played by now, 16-bit mono PCM at the sink's rate, without the silence between."""
        return b"".join(played.frame.data for played in self.frames())


def _without_tail(frames: list[PlayedFrame], samples: int) -> list[PlayedFrame]:
    kept = list(frames)
    _cut_tail(kept, samples)
    return kept


def _cut_tail(frames: list[PlayedFrame], samples: int) -> None:
    while samples > 0 and frames:
        last = frames.pop()
        left = last.frame.samples - samples
        if left > 0:
            data = last.frame.data[: left * BYTES_PER_SAMPLE]
            frames.append(PlayedFrame(last.at, AudioFrame(data, last.frame.sample_rate)))
        samples -= last.frame.samples


class _Shown(Transport):
    """Records the session's output to its room.

    Args:
        is_recording: Whether to keep it.
    """

    def __init__(self, clock: Clock, *, is_recording: bool) -> None:
        self._clock = clock
        self._is_recording = is_recording
        self.transcripts: list[TranscriptSegment] = []
        """Every update of every segment that the session sent."""
        self.transcript_times: list[float] = []
        """When (the clock's seconds), item by item beside `transcripts`."""
        self.states: list[str] = []
        """The agent's states shown to the room, by the session's own names."""
        self.turn_records: list[str] = []
        """Turn records sent, as JSON."""
        self.parts: list[PartMessage] = []
        """Messages about rich replies, which the caller has got."""

    @property
    def wants_turn_records(self) -> bool:
        return self._is_recording

    def send_transcript(self, segment: TranscriptSegment) -> None:
        if self._is_recording:
            self.transcripts.append(segment)
            self.transcript_times.append(self._clock.now())

    def send_agent_state(self, state: str) -> None:
        if self._is_recording:
            self.states.append(state)

    def send_turn_record(self, json_text: str) -> None:
        if self._is_recording:
            self.turn_records.append(json_text)

    def send_part(self, message: PartMessage) -> None:
        if self._is_recording:
            self.parts.append(message)


class LocalTransport(_Shown):
    """A room inside the process: the methods below play the caller's side.

    The first participant is linked and stays the linked one, as in a LiveKit room; others are ignored.

    Args:
        clock: Paces the sink and dates the output: that of the session, `SessionOptions().clock` by default.
        sink: Sink of the agent's audio; None: a `VirtualSink` at `output_rate`.
        input_rate: Hz of the frames given to `push_audio`.
        output_rate: Hz of the sink made here; unused with a `sink`.
        is_audible: Whether the caller hears the agent from the start; otherwise from `set_audible()` on.
        participant: Identity of the participant present at the start, or None for an empty room.
        is_recording: Whether to keep the session's audio and output.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        sink: AudioSink | None = None,
        input_rate: int = 16000,
        output_rate: int = 24000,
        is_audible: bool = True,
        participant: str | None = "caller",
        is_recording: bool = True,
    ) -> None:
        super().__init__(clock, is_recording=is_recording)
        self._sink = sink or VirtualSink(clock, sample_rate=output_rate, is_recording=is_recording)
        self.input_rate = input_rate
        self._is_audible = is_audible
        self._on_audible: list[Callable[[], None]] = []
        self._present = {participant} if participant is not None else set[str]()
        self._linked = participant
        self._events: TransportEvents | None = None
        self._watch: FrameWatch | None = None
        self._has_run = False
        self._early = RecentFrames(EARLY_SECONDS)
        self.is_left = False
        """Whether the session has left the room."""
        self.hung_up: list[str] = []
        """Identities that the session has disconnected, in order."""

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self._has_run = True
        self._events = events
        self._watch = watch = FrameWatch(self._clock, events.audio, events.audio_stopped)
        try:
            task_status.started()
            if self._linked in self._present and self._linked is not None:
                events.participant_linked(self._linked)
                for frame in self._early.drain():
                    watch.frame(frame)
            await anyio.Event().wait()  # no timer: asyncio keeps a cancelled one for long, with the session
        finally:
            watch.close()
            self._events = self._watch = None

    @property
    def sink(self) -> AudioSink:
        return self._sink

    @property
    def is_audible(self) -> bool:
        return self._is_audible

    def on_audible(self, callback: Callable[[], None]) -> None:
        if self._is_audible:
            callback()
        else:
            self._on_audible.append(callback)

    async def hangup(self) -> None:
        if self._linked is not None and self._linked in self._present:
            self.hung_up.append(self._linked)
            self.drop(self._linked)

    async def leave(self) -> None:
        self.is_left = True

    # The caller's side. Before `run()` has begun and after it has ended there is no listener: text is lost, and so is
    # audio, except for the last `EARLY_SECONDS` before it.

    def push_audio(self, frame: AudioFrame) -> None:
        """Play audio of the caller: one mono frame of 20 ms at `input_rate`."""
        if frame.sample_rate != self.input_rate or frame.num_channels != 1:
            raise ConfigurationError(
                f"the caller's frames must be mono at {self.input_rate} Hz, got {frame.sample_rate} Hz with "
                f"{frame.num_channels} channel(s); resample them or set input_rate"
            )
        if self._linked not in self._present:
            return
        if self._watch is not None:
            self._watch.frame(frame)
        elif not self._has_run:  # the caller speaks while the session is still starting
            self._early.push(frame)

    def stop_audio(self) -> None:
        """Stop the caller's microphone; the next `push_audio` brings it back."""
        if self._linked in self._present:
            self._report_stop()

    def push_video(self, frame: VideoFrame, *, thumbnail: bytes = b"") -> None:
        """Show a picture of the caller's camera or screen; the session takes those that it wants.

        Args:
            thumbnail: See `TransportEvents.video`.
        """
        if self._events is not None and self._linked in self._present and self._events.wants_video():
            self._events.video(frame, thumbnail)

    def stop_video(self) -> None:
        """Stop the caller's camera or screen; the next `push_video` brings it back."""
        if self._events is not None and self._linked in self._present:
            self._events.video_stopped()

    def send_text(self, text: str) -> None:
        """Send a typed text of the caller."""
        if self._events is not None and self._linked in self._present:
            self._events.text(text)

    def answer_part(self, json_text: str) -> None:
        """Send an answer of the caller's page to a part of a rich reply (`vivavoce.agents.replies.wire`)."""
        if self._events is not None and self._linked in self._present:
            self._events.part_answered(json_text)

    def send_file(self, name: str, data: bytes, *, media_type: str = "", is_cut_off: bool = False) -> None:
        """Send a file of the caller.

        Args:
            is_cut_off: Whether it does not come whole.
        """
        if self._events is None or self._linked not in self._present:
            return
        file = OfferedFile(id=new_id("upload"), name=name, media_type=media_type)
        limit = self._events.file_offered(file)
        if not limit:
            return
        if is_cut_off or len(data) > limit:
            self._events.file_ended(file, "incomplete" if is_cut_off else "too_large")
        else:
            self._events.file_ended(file, "received", data)

    def press_key(self, key: str) -> None:
        """Press a key of the caller's telephone."""
        if self._events is not None and self._linked in self._present:
            self._events.key(key)

    def press_interrupt(self) -> None:
        """Press the caller's button that stops the agent."""
        if self._events is not None and self._linked in self._present:
            self._events.interrupt()

    def join(self, identity: str) -> None:
        """Let a participant join, or return."""
        if identity in self._present:
            return
        self._present.add(identity)
        if self._linked is None:
            self._linked = identity
        if identity == self._linked and self._events is not None:
            self._events.participant_linked(identity)

    def drop(self, identity: str) -> None:
        """Let a participant leave, together with its microphone."""
        if identity not in self._present:
            return
        self._present.discard(identity)
        if identity != self._linked:
            return
        self._early.drain()
        if self._events is not None:
            self._report_stop()
            self._events.participant_left(identity)

    def _report_stop(self) -> None:
        if self._events is not None and self._watch is not None:
            self._watch.close()  # it is no news a second later
            self._events.audio_stopped()

    def end(self, reason: str) -> None:
        """End the room for good."""
        if self._events is not None:
            self._events.closed(reason)

    def set_audible(self) -> None:
        """Make the agent audible to the caller from now on."""
        self._is_audible = True
        waiting, self._on_audible = self._on_audible, []
        for callback in waiting:
            callback()

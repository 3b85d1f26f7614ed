"""The simulated caller's end of a room: joining, its microphone, and the agent's voice, frame by frame."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import anyio

from vivavoce.agents.caller.far_end import FarEnd
from vivavoce.agents.caller.line import SAMPLE_RATE, Line
from vivavoce.agents.caller.process import NoAnswerError, report
from vivavoce.pipelines.core.errors import RoomError, describe
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from livekit import rtc

    from vivavoce.agents.caller.ears import Ears
    from vivavoce.pipelines.stt.base import STTEvent

CONNECT_LIMIT = 10.0
PROBE_LIMIT = 3.0
ANSWER_LIMIT = 20.0
"""Seconds for the agent to join and publish its track."""
MAX_QUEUED = 0.025
"""Seconds of the caller's audio that may wait to be sent; beyond that, silence is left out until it has caught up."""
NO_ANSWER = (
    "no agent answered the call in time; is a worker registered? `vivavoce dev` has none until its file loads, and "
    "shows the error of the file. A room gets an agent only once: if the job of its agent has failed, call another room"
)


class AgentEnd(Protocol):
    """The agent's end of a call: its voice, and whether it is there."""

    @property
    def is_there(self) -> bool:
        """Whether the agent is on the line."""

    @property
    def failure(self) -> str:
        """The error of the agent's code, if it shows one; else empty."""

    @property
    def ended(self) -> str:
        """How the call ended before the caller hung up; empty while it has not."""

    @property
    def is_lost(self) -> bool:
        """Whether it ended by no act of the agent's."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Listen, until cancelled."""

    async def next_frame(self) -> AudioFrame:
        """Return the next 20 ms of the agent, when they are due."""


class Mouth(Protocol):
    """The caller's microphone."""

    @property
    def waiting(self) -> float:
        """Seconds of audio that wait to be sent."""

    async def send(self, frame: AudioFrame) -> None:
        """Send 20 ms."""

    async def press(self, key: str) -> None:
        """Press a key of a telephone."""


@dataclass(frozen=True, slots=True)
class RoomMouth:
    """The caller's microphone in a room."""

    source: rtc.AudioSource
    participant: rtc.LocalParticipant

    @property
    def waiting(self) -> float:
        """Seconds of audio that wait to be sent."""
        return self.source.queued_duration

    async def send(self, frame: AudioFrame) -> None:
        """Send 20 ms."""
        await self.source.capture_frame(_to_room(frame))

    async def press(self, key: str) -> None:
        """Press a key of a telephone."""
        from vivavoce.agents.transports.livekit.outbound import SDK_ERRORS
        from vivavoce.agents.transports.livekit.phone import KEY_CODES, KEY_LIMIT

        try:
            with anyio.fail_after(KEY_LIMIT):
                await self.participant.publish_dtmf(code=KEY_CODES[key], digit=key)
        except TimeoutError as error:
            raise RoomError(f"the room did not take a key within {KEY_LIMIT} s") from error
        except SDK_ERRORS as error:
            raise RoomError(f"the room did not take a key: {describe(error)}") from error


@dataclass(frozen=True, slots=True)
class Connection:
    """The caller's ears and microphone, and the agent's end."""

    ears: Ears
    mouth: Mouth
    agent: AgentEnd


@asynccontextmanager
async def connected(
    url: str,
    token: str,
    ears: Ears,
    *,
    answer_limit: float = ANSWER_LIMIT,
    on_room: Callable[[rtc.Room], None] | None = None,
) -> AsyncIterator[Connection]:
    """Join the room, publish the microphone, wait for the agent's voice.

    Args:
        ears: Open before the caller joins, since an agent may speak at once.
        answer_limit: Seconds for the agent to join and publish its track.
        on_room: Called with the room before it connects, to listen to more of it.
    Raises:
        RoomError: The room cannot be joined, or no agent came; a NoAnswerError if the caller does not see why.
    """
    from livekit import rtc

    room = rtc.Room()
    far_end = FarEnd(room)
    if on_room is not None:
        on_room(room)
    try:
        with anyio.fail_after(CONNECT_LIMIT):
            await room.connect(url, token)
            source = rtc.AudioSource(SAMPLE_RATE, 1, queue_size_ms=200)
            microphone = rtc.LocalAudioTrack.create_audio_track("microphone", source)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            await room.local_participant.publish_track(microphone, options)
        report("joined", room=room.name)
        with anyio.fail_after(answer_limit):
            for participant in room.remote_participants.values():
                far_end.look_for_failure(participant)
            await far_end.come()
        if far_end.failure:
            raise RoomError(_failed(far_end.failure))
        if far_end.ended:
            raise RoomError(f"no agent answered the call: {far_end.ended}")
        report("answered")
        yield Connection(ears, RoomMouth(source, room.local_participant), far_end)
    except rtc.ConnectError as error:
        if not await _is_open(url):
            raise RoomError(f"no room answers at {url}; start `vivavoce dev app.py` first, or give --url") from error
        raise RoomError(f"the caller could not join {url}: {error}") from error
    except TimeoutError as error:
        raise NoAnswerError(NO_ANSWER) from error
    finally:
        with anyio.move_on_after(1.0, shield=True):
            await room.disconnect()
        far_end.close()


async def _is_open(url: str) -> bool:
    """Return whether anything listens at the address of `url`: the SDK's error is text for people."""
    parts = urlsplit(url)
    try:
        with anyio.fail_after(PROBE_LIMIT):
            probe = await anyio.connect_tcp(
                parts.hostname or "", parts.port or (443 if parts.scheme in ("wss", "https") else 80)
            )
    except (OSError, TimeoutError):
        return False
    await probe.aclose()
    return True


async def converse(
    call: Connection,
    line: Line,
    *,
    limit: float,
    beside: Callable[[], Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Talk until the line hangs up or `limit` seconds are over; in that case `line.hung_up` stays None.

    Args:
        beside: Runs meanwhile, and is cancelled at the end.
    """
    async with anyio.create_task_group() as tasks:
        await tasks.start(call.agent.run)
        if beside is not None:
            tasks.start_soon(beside)
        if call.ears.events is not None:
            tasks.start_soon(_understand, call.ears.events, line)
        with anyio.move_on_after(limit):
            await _talk(call, line)
        tasks.cancel_scope.cancel()


async def _understand(events: AsyncIterator[STTEvent], line: Line) -> None:
    """Pass the recogniser's events to the line, until the recogniser is closed."""
    async for event in events:
        line.understood(event)


async def _talk(call: Connection, line: Line) -> None:
    """Exchange frame for frame until the line hangs up; if the room is lost, report that to the line."""
    while line.hung_up is None:
        if call.agent.failure:
            line.host_failed(_failed(call.agent.failure))
            return
        frame = await call.agent.next_frame()
        if call.agent.is_there != (line.left_at is None):
            _report_presence(call.agent, line)
        out = line.exchange(frame)
        if line.hung_up is not None:
            return
        if line.pressed:
            await call.mouth.press(line.pressed)
        if out is None and call.mouth.waiting > MAX_QUEUED:
            continue
        await call.mouth.send(out or AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE))


def _report_presence(agent: AgentEnd, line: Line) -> None:
    """Report to the line that the agent left or came back; an agent may end a call by ending the room."""
    if agent.is_there:
        line.host_returned()
        report("returned")
        return
    if agent.is_lost:
        line.lost(agent.ended)
        return
    line.host_left(may_return=not agent.ended)
    report("left")


def _failed(error: str) -> str:
    return f"the agent's code failed: {error}"


def _to_room(frame: AudioFrame) -> rtc.AudioFrame:
    from livekit import rtc

    return rtc.AudioFrame(frame.data, frame.sample_rate, frame.num_channels, frame.samples)

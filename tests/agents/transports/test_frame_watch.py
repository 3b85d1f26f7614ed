"""Frames of the caller that stop without a word: each transport reports it once, a second later."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus
from livekit import rtc

from kit.memory import session_with
from vivavoce.agents import Agent
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.console.transport import BLOCK, AudioEnds, ConsoleTransport, Exchange
from vivavoce.agents.transports.frame_watch import FrameWatch
from vivavoce.agents.transports.livekit.inbound import MicrophoneReader
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.io import TransportEvents
from vivavoce.pipelines.media.frame import AudioFrame

FRAME = AudioFrame.silence(0.02, 16000)
Speak = Callable[[float], Awaitable[None]]


class Heard:
    """Records when frames came and stopped, in seconds from the beginning."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._began = clock.now()
        self.frames = 0
        self.stops: list[float] = []

    def audio(self, frame: AudioFrame) -> None:
        self.frames += 1

    def audio_stopped(self) -> None:
        self.stops.append(round(self._clock.now() - self._began, 3))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None  # links, and ends of the room


class Microphone(AudioEnds):
    """A microphone that speaks when it is told to."""

    def __init__(self) -> None:
        self.exchange: Exchange | None = None

    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        self.exchange = exchange
        task_status.started()
        await anyio.sleep_forever()

    async def speak(self, seconds: float) -> None:
        assert self.exchange is not None
        for _ in range(round(seconds * 100)):
            self.exchange.heard(bytes(2 * BLOCK))
            await anyio.sleep(0.01)


class Track:
    """Stands for the SDK's stream of a track, whose frames are put into it."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[Any] = asyncio.Queue()

    def __call__(self, track: object, **_: object) -> Track:
        return self

    def __aiter__(self) -> Track:
        return self

    async def __anext__(self) -> Any:
        frame = await self._frames.get()
        if frame is None:
            raise StopAsyncIteration
        return SimpleNamespace(frame=SimpleNamespace(data=FRAME.data))

    async def speak(self, seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            self._frames.put_nowait(FRAME)
            await anyio.sleep(0.02)

    def end(self) -> None:
        self._frames.put_nowait(None)

    async def aclose(self) -> None:
        pass


async def local(clock: VirtualClock, heard: Heard, act: Callable[[Speak], Awaitable[None]]) -> None:
    transport = LocalTransport(clock)

    async def speak(seconds: float) -> None:
        for _ in range(round(seconds * 50)):
            transport.push_audio(FRAME)
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as tasks:
        await tasks.start(transport.run, heard)
        await act(speak)
        tasks.cancel_scope.cancel()


async def console(clock: VirtualClock, heard: Heard, act: Callable[[Speak], Awaitable[None]]) -> None:
    microphone = Microphone()
    async with anyio.create_task_group() as tasks:
        await tasks.start(ConsoleTransport(microphone, clock, cancels_echo=False).run, heard)
        await act(microphone.speak)
        tasks.cancel_scope.cancel()


async def livekit(clock: VirtualClock, heard: Heard, act: Callable[[Speak], Awaitable[None]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        track = Track()
        patch.setattr(rtc, "AudioStream", track)
        reader = MicrophoneReader(16000, heard.audio, heard.audio_stopped, clock)
        reader.follow(track)  # type: ignore[arg-type]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader.run)
            await act(track.speak)
            tasks.cancel_scope.cancel()


each_transport = pytest.mark.parametrize("transport", [local, console, livekit])


def heard_by(transport: Callable[..., Awaitable[None]], act: Callable[[Speak], Awaitable[None]]) -> Heard:
    """Run a conversation over that transport, and 5 s of silence after it."""
    kept: list[Heard] = []

    async def main() -> None:
        clock = VirtualClock()
        kept.append(Heard(clock))
        await transport(clock, kept[0], act)
        await anyio.sleep(5.0)

    run_virtual(main())
    return kept[0]


@each_transport
def test_frames_that_stop_are_reported_once_a_second_later(transport: Callable[..., Awaitable[None]]) -> None:
    async def act(speak: Speak) -> None:
        await speak(2.0)
        await anyio.sleep(10.0)

    heard = heard_by(transport, act)
    assert heard.stops == [pytest.approx(3.0, abs=0.05)]


@each_transport
def test_frames_that_come_again_within_a_second_have_not_stopped(transport: Callable[..., Awaitable[None]]) -> None:
    async def act(speak: Speak) -> None:
        for _ in range(5):
            await speak(0.5)
            await anyio.sleep(0.9)

    assert heard_by(transport, act).stops == []


@each_transport
def test_frames_that_come_again_and_stop_again_are_reported_again(transport: Callable[..., Awaitable[None]]) -> None:
    async def act(speak: Speak) -> None:
        for _ in range(2):
            await speak(1.0)
            await anyio.sleep(4.0)

    assert heard_by(transport, act).stops == [pytest.approx(2.0, abs=0.05), pytest.approx(7.0, abs=0.05)]


@each_transport
def test_a_caller_who_has_sent_nothing_has_stopped_nothing(transport: Callable[..., Awaitable[None]]) -> None:
    async def act(speak: Speak) -> None:
        await anyio.sleep(10.0)

    assert heard_by(transport, act).stops == []


@each_transport
def test_nothing_is_reported_when_the_session_has_left(transport: Callable[..., Awaitable[None]]) -> None:
    async def act(speak: Speak) -> None:
        await speak(1.0)

    assert heard_by(transport, act).stops == []


def test_a_microphone_that_is_known_to_have_stopped_is_not_reported_twice() -> None:
    async def main() -> None:
        clock = VirtualClock()
        heard, transport = Heard(clock), LocalTransport(clock)
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, heard)
            for stop in (transport.stop_audio, lambda: transport.drop("caller")):
                transport.push_audio(FRAME)
                stop()
                await anyio.sleep(5.0)
            tasks.cancel_scope.cancel()
        assert heard.stops == [0.0, 5.0]

    run_virtual(main())


def test_a_track_that_ends_after_its_frames_have_stopped_is_not_reported_twice() -> None:
    async def main() -> None:
        clock, track = VirtualClock(), Track()
        heard = Heard(clock)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rtc, "AudioStream", track)
            reader = MicrophoneReader(16000, heard.audio, heard.audio_stopped, clock)
            reader.follow(track)  # type: ignore[arg-type]
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(reader.run)
                await track.speak(1.0)
                await anyio.sleep(3.0)
                track.end()
                await anyio.sleep(3.0)
                tasks.cancel_scope.cancel()
        assert heard.stops == [pytest.approx(2.0, abs=0.05)]

    run_virtual(main())


class TrackTransport(LocalTransport):
    """Hears the caller as a LiveKit room does: a task reads the track."""

    def __init__(self, clock: VirtualClock, track: Track) -> None:
        super().__init__(clock)
        self._track = track
        self._own_clock = clock

    async def run(self, events: TransportEvents, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        reader = MicrophoneReader(16000, events.audio, events.audio_stopped, self._own_clock)
        reader.follow(self._track)  # type: ignore[arg-type]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(reader.run)
            await super().run(events, task_status=task_status)


def test_a_hook_that_cancels_the_task_it_runs_in_does_not_end_the_reading_of_a_track() -> None:
    heard: list[AudioFrame] = []

    class Host(Agent):
        def on_speech_in(self, frame: AudioFrame) -> None:
            heard.append(frame)
            if (task := asyncio.current_task()) is not None:
                task.cancel()

    async def main() -> None:
        clock, track = VirtualClock(), Track()
        session = session_with(agent=Host("Help."), clock=clock)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(rtc, "AudioStream", track)
            await session.start(TrackTransport(clock, track))
            await track.speak(2.0)
            report = await session.close()
        assert report.reason == "user_initiated"

    run_virtual(main())
    assert len(heard) == 100


class LateClock(VirtualClock):
    """A clock whose timers come late, as those of a loop that is blocked do."""

    def __init__(self, *late: float) -> None:
        self.late = itertools.chain(late, itertools.repeat(0.0))

    def call_at(self, when: float, callback: Callable[[], None]) -> Any:
        return super().call_at(when + next(self.late), callback)


def test_a_loop_that_was_blocked_has_heard_nothing_meanwhile_and_waits_for_another_second() -> None:
    async def main() -> None:
        clock = LateClock(2.0)
        heard = Heard(clock)
        watch = FrameWatch(clock, heard.audio, heard.audio_stopped)
        watch.frame(FRAME)
        await anyio.sleep(3.5)
        assert heard.stops == []
        await anyio.sleep(3.5)
        assert heard.stops == [4.0]

    run_virtual(main())

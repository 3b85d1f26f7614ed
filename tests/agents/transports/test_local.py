"""VirtualSink and LocalTransport: sample-exact playing by the clock, and a caller driven by the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import ErrorOccurred, KeyPressed
from vivavoce.agents.testing import ScriptedLLM
from vivavoce.agents.transports.local import EARLY_SECONDS, LocalTransport, VirtualSink
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError
from vivavoce.pipelines.io import FileOutcome, OfferedFile, TranscriptSegment
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.testing.virtual_time import VirtualClock, run_virtual

RATE = 24000


def numbered(samples: int, first: int = 0, rate: int = RATE) -> AudioFrame:
    """A frame whose samples are numbers, so that each is distinct."""
    return AudioFrame(b"".join((first + n).to_bytes(2, "little", signed=True) for n in range(samples)), rate)


def numbers(pcm: bytes) -> list[int]:
    return [int.from_bytes(pcm[at : at + 2], "little", signed=True) for at in range(0, len(pcm), 2)]


def virtually(main: Callable[[VirtualClock], Awaitable[None]]) -> None:
    async def run() -> None:
        await main(VirtualClock())

    run_virtual(run())


def test_sink_plays_by_the_clock_to_the_very_sample() -> None:
    async def main(clock: VirtualClock) -> None:
        sink = VirtualSink(clock)
        await anyio.sleep(0.37)
        sink.write(numbered(480))
        sink.write(numbered(480, 480))
        assert sink.queued() == 960
        await anyio.sleep(0.025)
        assert sink.queued() == 360
        assert numbers(sink.played()) == list(range(600))
        await anyio.sleep(0.1)
        assert sink.queued() == 0
        assert [played.at for played in sink.frames()] == pytest.approx([0.37, 0.39])

    virtually(main)


def test_clear_drops_what_was_not_played_and_the_next_frame_plays_at_once() -> None:
    async def main(clock: VirtualClock) -> None:
        sink = VirtualSink(clock)
        for first in (0, 480, 960):
            sink.write(numbered(480, first))
        await anyio.sleep(0.03)
        assert sink.clear() == 720
        assert sink.queued() == 0
        sink.write(numbered(240, 5000))
        await anyio.sleep(1)
        assert numbers(sink.played()) == [*range(720), *range(5000, 5240)]
        assert [(played.at, played.frame.samples) for played in sink.frames()] == [(0.0, 480), (0.02, 240), (0.03, 240)]

    virtually(main)


def test_hours_of_frames_drift_by_no_sample() -> None:
    async def main(clock: VirtualClock) -> None:
        sink = VirtualSink(clock, is_recording=False)
        for _ in range(50_000):  # always 20 ms ahead; 0.02 is no exact float
            sink.write(AudioFrame.silence(0.02, RATE))
            if sink.queued() > 480:
                await anyio.sleep((sink.queued() - 480) / RATE)
        assert sink.queued() == 480
        assert clock.now() == pytest.approx(49_999 * 0.02, abs=1e-6)
        assert sink.played() == b""

    virtually(main)


@pytest.mark.parametrize("frame", [numbered(320, rate=16000), AudioFrame(bytes(960 * 2), RATE, 2)])
def test_sink_refuses_audio_that_is_not_its_own(frame: AudioFrame) -> None:
    async def main(clock: VirtualClock) -> None:
        with pytest.raises(ConfigurationError, match="mono audio of 24000 Hz"):
            VirtualSink(clock).write(frame)

    virtually(main)


class Calls:
    def __init__(self) -> None:
        self.log: list[str] = []

    def audio(self, frame: AudioFrame) -> None:
        self.log.append(f"audio {frame.samples}")

    def wants_video(self) -> bool:
        return False

    def video(self, frame: VideoFrame, thumbnail: bytes = b"") -> None:
        raise AssertionError("nobody wanted a picture")

    def video_stopped(self) -> None:
        pass

    def text(self, text: str) -> None:
        self.log.append(f"text {text}")

    def part_answered(self, json_text: str) -> None:
        self.log.append(f"answer {json_text}")

    def file_offered(self, file: OfferedFile) -> int:
        return 5

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes = b"") -> None:
        self.log.append(f"file {file.name} {outcome} {data!r}")

    def interrupt(self) -> None:
        self.log.append("interrupt")

    def audio_stopped(self) -> None:
        self.log.append("stopped")

    def participant_linked(self, identity: str) -> None:
        self.log.append(f"linked {identity}")

    def key(self, key: str) -> None:
        raise AssertionError("no telephone is here")

    def participant_left(self, identity: str, *, comes_back: bool = True) -> None:
        self.log.append(f"left {identity}")

    def closed(self, reason: str) -> None:
        self.log.append(f"closed {reason}")

    def failed(self, error: VoiceError, *, is_fatal: bool) -> None:
        self.log.append(f"failed {error}")


def test_session_is_told_what_the_caller_does_while_it_listens() -> None:
    async def main(clock: VirtualClock) -> None:
        transport, calls = LocalTransport(clock), Calls()
        transport.push_audio(AudioFrame.silence(0.02, 16000))
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, calls)
            transport.push_audio(AudioFrame.silence(0.02, 16000))
            transport.stop_audio()
            transport.send_text("hello")
            transport.answer_part("{}")
            transport.send_file("a.txt", b"12345")
            transport.send_file("b.txt", b"123456")
            transport.send_file("c.txt", b"1", is_cut_off=True)
            transport.join("guest")
            transport.drop("caller")
            transport.push_audio(AudioFrame.silence(0.02, 16000))
            transport.drop("guest")
            transport.join("caller")
            transport.end("room_deleted")
            tasks.cancel_scope.cancel()
        transport.send_text("too late")
        assert calls.log == [
            "linked caller", "audio 320", "audio 320", "stopped", "text hello", "answer {}",
            "file a.txt received b'12345'", "file b.txt too_large b''", "file c.txt incomplete b''", "stopped",
            "left caller", "linked caller", "closed room_deleted",
        ]  # fmt: skip

    virtually(main)


def test_what_a_caller_says_while_the_session_starts_is_heard_when_it_has() -> None:
    async def main(clock: VirtualClock) -> None:
        transport, calls = LocalTransport(clock), Calls()
        for samples in (320, 160):
            transport.push_audio(AudioFrame(bytes(2 * samples), 16000))
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, calls)
            await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()
        assert calls.log == ["linked caller", "audio 320", "audio 160"]

    virtually(main)


def test_of_a_long_start_only_the_last_seconds_are_kept_and_nothing_of_a_caller_who_has_gone() -> None:
    async def main(clock: VirtualClock) -> None:
        for is_gone, heard in ((False, 150), (True, 0)):
            transport, calls = LocalTransport(clock), Calls()
            for _ in range(200):  # 4 s
                transport.push_audio(AudioFrame.silence(0.02, 16000))
            if is_gone:
                transport.drop("caller")
                transport.join("caller")
            async with anyio.create_task_group() as tasks:
                await tasks.start(transport.run, calls)
                await anyio.sleep(0.1)
                tasks.cancel_scope.cancel()
            assert calls.log.count("audio 320") == heard

    virtually(main)


def test_what_is_kept_of_the_start_is_counted_in_seconds_and_outlives_another_guest() -> None:
    async def main(clock: VirtualClock) -> None:
        transport, calls = LocalTransport(clock), Calls()
        for _ in range(40):  # 4 s
            transport.push_audio(AudioFrame.silence(0.1, 16000))
        transport.join("guest")
        transport.drop("guest")
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, calls)
            tasks.cancel_scope.cancel()
        assert calls.log == ["linked caller", *["audio 1600"] * round(EARLY_SECONDS / 0.1)]

    virtually(main)


def test_first_to_come_into_an_empty_room_is_linked() -> None:
    async def main(clock: VirtualClock) -> None:
        transport, calls = LocalTransport(clock, participant=None), Calls()
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, calls)
            await anyio.sleep(1)
            transport.join("anna")
            transport.join("bert")
            tasks.cancel_scope.cancel()
        assert calls.log == ["linked anna"]

    virtually(main)


def test_what_the_session_shows_is_kept_with_its_times() -> None:
    async def main(clock: VirtualClock) -> None:
        transport = LocalTransport(clock)
        for number in range(3):
            await anyio.sleep(0.5)
            transport.send_transcript(
                TranscriptSegment(segment_id="s", who="agent", text="a " * number, is_final=number == 2)
            )
        transport.send_agent_state("idle")
        transport.send_turn_record("{}")
        await transport.leave()
        assert [segment.is_final for segment in transport.transcripts] == [False, False, True]
        assert transport.transcript_times == [0.5, 1.0, 1.5]
        assert (transport.states, transport.turn_records, transport.is_left) == (["idle"], ["{}"], True)

    virtually(main)


def test_audible_is_told_once() -> None:
    async def main(clock: VirtualClock) -> None:
        transport, calls = LocalTransport(clock, is_audible=False), list[str]()
        transport.on_audible(lambda: calls.append("waited"))
        assert calls == []
        transport.set_audible()
        transport.set_audible()
        transport.on_audible(lambda: calls.append("at once"))
        assert calls == ["waited", "at once"]

    virtually(main)


def test_a_key_that_no_telephone_has_is_an_error_and_none_that_is_pressed() -> None:
    async def main(clock: VirtualClock) -> None:
        keys, errors = list[str](), list[str]()
        transport = LocalTransport(clock, participant="caller")
        session = AgentSession(
            Agent("Help."), CascadingPipeline(llm=ScriptedLLM()), options=SessionOptions(clock=clock)
        )
        session.on(KeyPressed, lambda event: keys.append(event.key))
        session.on(ErrorOccurred, lambda event: errors.append(str(event.error)))
        await session.start(transport)
        for key in "1x#":
            transport.press_key(key)
        await session.close()
        assert keys == ["1", "#"]
        (error,) = errors
        assert "needs one of ('0', '1'" in error

    virtually(main)

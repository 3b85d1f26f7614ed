"""The console's parts: the speakers' queue, echo cancellation, WAV ends, typed text."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.console.devices import SoundDevices
from vivavoce.agents.transports.console.echo import EchoCanceller
from vivavoce.agents.transports.console.speaker import SpeakerQueue
from vivavoce.agents.transports.console.transport import BLOCK, RATE, AudioEnds, ConsoleTransport, Exchange, decibels
from vivavoce.agents.transports.console.typed import TypedTransport
from vivavoce.agents.transports.console.wav import WavEnds
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError
from vivavoce.pipelines.io import FileOutcome, OfferedFile, PartMessage
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.media.wav import read_wav, write_wav


class Ears:
    """Records the session's input."""

    def __init__(self) -> None:
        self.frames: list[AudioFrame] = []
        self.texts: list[str] = []
        self.log: list[str] = []

    def audio(self, frame: AudioFrame) -> None:
        self.frames.append(frame)

    def audio_stopped(self) -> None:
        self.log.append("stopped")

    def wants_video(self) -> bool:
        return False

    def video(self, frame: VideoFrame, thumbnail: bytes = b"") -> None:
        raise AssertionError("nobody wanted a picture")

    def video_stopped(self) -> None:
        pass

    def text(self, text: str) -> None:
        self.texts.append(text)

    def part_answered(self, json_text: str) -> None:
        raise AssertionError("no page is here")

    def file_offered(self, file: OfferedFile) -> int:
        raise AssertionError("no page is here")

    def file_ended(self, file: OfferedFile, outcome: FileOutcome, data: bytes = b"") -> None:
        raise AssertionError("no page is here")

    def interrupt(self) -> None:
        self.log.append("interrupt")

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


def noise(seconds: float, rms: float, seed: int) -> npt.NDArray[np.int16]:
    """Noise in syllables, about as speech comes and goes."""
    count = round(seconds * RATE)
    syllables = 0.5 + 0.5 * np.sin(2 * np.pi * 4 * np.arange(count) / RATE)
    return (np.random.default_rng(seed).normal(0, rms, count) * syllables).astype(np.int16)


def frame(samples: int = BLOCK) -> AudioFrame:
    return AudioFrame(np.full(samples, 1000, np.int16).tobytes(), RATE)


def test_what_is_written_waits_for_the_speakers_is_counted_out_and_filled_up_with_silence() -> None:
    async def main() -> None:
        clock = VirtualClock()
        queue = SpeakerQueue(clock, sample_rate=RATE)
        queue.write(frame(BLOCK + 100))
        assert queue.queued() == BLOCK + 100
        taken: list[bytes] = []
        device = threading.Thread(target=lambda: taken.append(queue.take(BLOCK)))  # as PortAudio does
        device.start()
        device.join()
        queue.count_out()
        assert len(taken[0]) == 2 * BLOCK
        assert queue.queued() == BLOCK + 100
        await anyio.sleep(0.01)
        assert queue.queued() == 100
        assert queue.take(BLOCK).rstrip(b"\0") == frame(100).data
        assert queue.take(BLOCK) == bytes(2 * BLOCK)

    run_virtual(main())


def test_what_is_cleared_is_not_played() -> None:
    async def main() -> None:
        queue = SpeakerQueue(VirtualClock(), sample_rate=RATE)
        queue.write(frame())
        assert queue.clear() == BLOCK
        assert queue.queued() == 0
        assert queue.take(BLOCK) == bytes(2 * BLOCK)
        with pytest.raises(ConfigurationError, match="mono audio of 48000 Hz, got 16000"):
            queue.write(AudioFrame(bytes(320), 16000))

    run_virtual(main())


@pytest.mark.parametrize("delay", [0.02, 0.12])
def test_the_speakers_sound_is_taken_out_of_the_microphones(delay: float) -> None:
    far = noise(8.0, 3000, seed=1)
    late = round(delay * RATE)
    near = np.concatenate([np.zeros(late, np.int16), far[: len(far) - late]]) // 2
    canceller = EchoCanceller(RATE)
    canceller.set_delay(delay)
    cleaned = bytearray()
    for at in range(0, len(far), BLOCK):
        canceller.played(far[at : at + BLOCK].tobytes())
        cleaned += canceller.clean(near[at : at + BLOCK].tobytes())
    half = RATE * 4  # by then it knows the room
    before = decibels(AudioFrame(near[half:].tobytes(), RATE))
    after = decibels(AudioFrame(bytes(cleaned[2 * half :]), RATE))
    print(f"echo {before:.1f} dB -> {after:.1f} dB")
    assert after < before - 20


def test_a_voice_is_heard_while_the_speakers_are_silent() -> None:
    near = noise(4.0, 3000, seed=2)
    canceller = EchoCanceller(RATE)
    cleaned = bytearray()
    for at in range(0, len(near), BLOCK):
        canceller.played(bytes(2 * BLOCK))
        cleaned += canceller.clean(near[at : at + BLOCK].tobytes())
    half = RATE * 2
    lost = decibels(AudioFrame(near[half:].tobytes(), RATE)) - decibels(AudioFrame(bytes(cleaned[2 * half :]), RATE))
    assert lost < 20  # noise, even in syllables, is suppressed in part


def test_a_wav_file_is_heard_in_real_time_and_what_is_played_is_written(tmp_path: Path) -> None:
    write_wav(tmp_path / "in.wav", AudioFrame(noise(1.0, 3000, seed=3)[: RATE // 2].tobytes(), RATE // 2))

    async def main() -> None:
        clock = VirtualClock()
        ends = WavEnds(tmp_path / "in.wav", tmp_path / "out.wav", clock)
        transport, ears = ConsoleTransport(ends, clock), Ears()
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, ears)
            began = clock.now()
            for _ in range(10):
                transport.sink.write(frame())
            await ends.is_over.wait()
            assert clock.now() - began == pytest.approx(1.0, abs=0.05)
            assert transport.level > -40
            await anyio.sleep(1.0)
            assert transport.level < -90
            assert transport.sink.queued() == 0
            tasks.cancel_scope.cancel()
        assert ears.log == ["linked console"]
        assert len(ears.frames) == pytest.approx(100, abs=4)
        assert {each.sample_rate for each in ears.frames} == {16000}

    run_virtual(main())
    heard = read_wav(tmp_path / "out.wav").to_numpy()
    assert np.count_nonzero(heard) == 10 * BLOCK
    assert len(heard) / RATE == pytest.approx(2.0, abs=0.05)


@pytest.mark.parametrize(
    ("source", "target", "words"),
    [
        ("none.wav", "out.wav", "No such file"),
        ("in.wav", "none/out.wav", "there is no folder"),
        (".", "o", "cannot read"),
    ],
)
def test_wav_files_that_cannot_be_are_refused_in_words(tmp_path: Path, source: str, target: str, words: str) -> None:
    write_wav(tmp_path / "in.wav", AudioFrame.silence(0.1, 16000))
    with pytest.raises(ConfigurationError, match=words):
        WavEnds(tmp_path / source, tmp_path / target, VirtualClock())


def test_what_is_typed_is_told_and_nothing_waits_for_a_voice() -> None:
    async def main() -> None:
        transport, ears = TypedTransport(), Ears()
        transport.type("too early")
        async with anyio.create_task_group() as tasks:
            await tasks.start(transport.run, ears)
            transport.type("hello")
            transport.sink.write(AudioFrame.silence(10.0, 24000))
            assert (transport.sink.queued(), transport.sink.clear()) == (0, 0)
            tasks.cancel_scope.cancel()
        assert (ears.texts, ears.log) == (["hello"], ["linked console"])

    run_virtual(main())


class ScriptedSound:
    """Stands for the module `sounddevice`: devices that run for a given number of blocks, then stop without a word."""

    class PortAudioError(Exception):
        """The class of the real library's error."""

    def __init__(self, *speakers_run_for: int, refuses: bool = False) -> None:
        self.opened: list[str] = []
        self.streams: list[ScriptedStream] = []
        self._loop = asyncio.get_running_loop()
        self._runs = list(speakers_run_for)
        self._refuses = refuses

    def RawOutputStream(self, **options: Any) -> ScriptedStream:  # noqa: N802 - its name there
        if self.opened.count("speakers") and self._refuses:
            raise self.PortAudioError("no such device any more")
        return self._made("speakers", bytearray(2 * BLOCK), self._runs.pop(0), options)

    def RawInputStream(self, **options: Any) -> ScriptedStream:  # noqa: N802 - its name there
        return self._made("microphone", bytes(2 * BLOCK), 1_000_000, options)

    def _made(self, what: str, block: bytes | bytearray, runs_for: int, options: Any) -> ScriptedStream:
        stream = ScriptedStream(self._loop, block, runs_for, **options)
        self.streams.append(stream)
        self.opened.append(what)
        return stream


class ScriptedStream:
    """A device; its blocks come on the loop, as often as real time wants them."""

    latency = 0.02

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        block: bytes | bytearray,
        runs_for: int,
        *,
        callback: Any,
        blocksize: int,
        **_: Any,
    ) -> None:
        self._block = block
        self._left = runs_for
        self._callback = callback
        self._size = blocksize
        self._loop = loop
        self.is_open = False

    def start(self) -> None:
        self.is_open = True
        self._loop.call_soon_threadsafe(self._go)

    def _go(self) -> None:
        if self.is_open and self._left:
            self._left -= 1
            self._callback(self._block, self._size, None, None)
            self._loop.call_later(self._size / RATE, self._go)

    def abort(self) -> None:
        self.is_open = False

    def close(self) -> None:
        self.is_open = False


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - blocks come from a device
            await anyio.sleep(0.01)


@asynccontextmanager
async def devices_running(
    monkeypatch: pytest.MonkeyPatch, sound: ScriptedSound
) -> AsyncIterator[tuple[list[int], list[str]]]:
    """Run the devices; yields the sizes of the blocks that the speakers took, and why it ended, if it did."""
    monkeypatch.setitem(sys.modules, "sounddevice", sound)
    monkeypatch.setattr("vivavoce.agents.transports.console.devices.STALLED", 0.2)
    taken: list[int] = []
    gone: list[str] = []

    def take(samples: int) -> bytes:
        taken.append(samples)
        return bytes(2 * samples)

    def ignore(_: object) -> None:
        return None

    async with anyio.create_task_group() as tasks:
        await tasks.start(SoundDevices().run, Exchange(take, ignore, ignore, ignore, gone.append))
        yield taken, gone
        tasks.cancel_scope.cancel()


async def test_speakers_that_stop_are_opened_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = ScriptedSound(5, 1_000_000)
    async with devices_running(monkeypatch, sound) as (taken, gone):
        await until(lambda: sound.opened.count("speakers") == 2)
        await until(lambda: len(taken) >= 15)
        assert gone == []
    assert [stream.is_open for stream in sound.streams] == [False] * len(sound.streams)


async def test_speakers_that_stop_and_cannot_be_opened_anew_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = ScriptedSound(5, refuses=True)
    async with devices_running(monkeypatch, sound) as (taken, gone):
        await until(lambda: bool(gone))
        assert gone == ["an audio device is gone"]
        assert len(taken) == 5
    assert [stream.is_open for stream in sound.streams] == [False] * len(sound.streams)


def test_a_part_of_a_rich_reply_is_shown_as_text_if_it_has_one() -> None:
    shown: list[str] = []
    for transport in (TypedTransport(), ConsoleTransport(_NoEnds(), VirtualClock())):
        transport.send_part(PartMessage(json_text="{}", plain="lost: nothing shows it"))
        transport.show_parts(shown.append)
        transport.send_part(PartMessage(json_text='{"type": "data"}'))
        transport.send_part(PartMessage(json_text="{}", plain="- red\n- blue"))
    assert shown == ["- red\n- blue", "- red\n- blue"]


class _NoEnds(AudioEnds):
    async def run(self, exchange: Exchange, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        raise AssertionError("it is not run")

"""Background under speech, sample by sample: no gap, no click, no delay, and speech that counts itself only."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import numpy.typing as npt
import pytest

from vivavoce.agents.audio.background import AHEAD_SECONDS, BackgroundAudioConfig, BackgroundPlayer
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.io import SinkCapabilities
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.loop import LoopedFile
from vivavoce.pipelines.media.wav import write_wav
from vivavoce.pipelines.tts.base import AudioChunk

RATE = 24000
FADE = 0.05
Samples = npt.NDArray[np.int64]


def tone(hertz: float, amplitude: float, seconds: float) -> npt.NDArray[np.int16]:
    return np.round(amplitude * np.sin(2 * np.pi * hertz * np.arange(round(seconds * RATE)) / RATE)).astype(np.int16)


AMBIENCE = tone(250, 6000, 1.0)  # 96 samples a period: its ends meet
SPEECH = tone(410, 12000, 1.0)


def steps(samples: Samples) -> int:
    return int(np.abs(np.diff(samples, prepend=0, append=0)).max())


class InexactSink(VirtualSink):
    """Counts exactly, and says that it does not."""

    @property
    def capabilities(self) -> SinkCapabilities:
        return SinkCapabilities(sample_rate=RATE, exact_position=False)


class CountingClock(VirtualClock):
    def __init__(self) -> None:
        super().__init__()
        self.timers = 0

    def call_at(self, when: float, callback: Callable[[], None]) -> TimerHandle:
        self.timers += 1
        return super().call_at(when, callback)


class Stage:
    """A playout on a virtual sink, with players of one file."""

    def __init__(self, path: Path, group: anyio.abc.TaskGroup, sink: type[VirtualSink] = VirtualSink) -> None:
        self.clock = CountingClock()
        self.sink = sink(self.clock, sample_rate=RATE)
        self.started: list[float] = []
        self.finished: list[float] = []
        self.written: list[AudioFrame] = []
        self.most_queued = 0
        self.playout = Playout(
            self.clock,
            on_written=self._on_written,
        )
        self.playout.open(self.sink)
        self.playout.begin()
        self._path = path
        self._group = group

    def _on_written(self, frame: AudioFrame) -> None:
        self.written.append(frame)
        self.most_queued = max(self.most_queued, self.sink.queued())

    def background(self, samples: npt.NDArray[np.int16] = AMBIENCE, **config: Any) -> BackgroundPlayer:
        path = self._path / f"{len(self.playout.mix().players)}.wav"
        write_wav(path, AudioFrame(samples.tobytes(), RATE))
        config = {"volume": 1.0, "duck_volume": 1.0, "fade": 0.0, **config}
        player = BackgroundPlayer(
            BackgroundAudioConfig(path, **config), RATE, self.clock, lambda: self.playout.mix().feed()
        )
        self.playout.mix().add(player)
        player.turn(True)
        self._group.start_soon(player.run)
        return player

    def speak(self, samples: npt.NDArray[np.int16] = SPEECH, *, is_finished: bool = True) -> Utterance:
        utterance = Utterance(
            "speech_1",
            RATE,
            on_started=lambda utterance: self.started.append(utterance.started_at or -1.0),
            on_finished=lambda _: self.finished.append(self.clock.now()),
        )
        self.playout.play(utterance)
        utterance.push(AudioChunk(AudioFrame(samples.tobytes(), RATE)))
        if is_finished:
            utterance.finish()
        return utterance

    def heard(self, since: float = 0.0) -> Samples:
        """The audio heard from `since` on, without a gap."""
        frames = self.sink.frames()
        for before, after in zip(frames, frames[1:], strict=False):
            assert after.at == pytest.approx(before.at + before.frame.duration, abs=0.6 / RATE)
        assert frames[0].at == pytest.approx(0.0)
        return np.frombuffer(self.sink.played(), np.int16).astype(np.int64)[round(since * RATE) :]

    def speech_heard(self, since: float) -> Samples:
        """The heard audio without the ambience, which began at 0 at its full volume."""
        heard = self.heard()
        return (heard - np.resize(AMBIENCE, len(heard)))[round(since * RATE) :]


@asynccontextmanager
async def on_stage(path: Path, sink: type[VirtualSink] = VirtualSink) -> AsyncIterator[Stage]:
    async with anyio.create_task_group() as group:
        stage = Stage(path, group, sink)
        yield stage
        stage.playout.close()
        group.cancel_scope.cancel()


def on(path: Path, scene: Callable[[Stage], Awaitable[None]], sink: type[VirtualSink] = VirtualSink) -> None:
    async def main() -> None:
        async with on_stage(path, sink) as stage:
            await scene(stage)

    run_virtual(main())


def test_background_alone_keeps_the_sink_fed_and_loops_to_the_very_sample(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(10.0)
        assert stage.speech_heard(0.0).tolist() == [0] * (10 * RATE)
        assert stage.most_queued <= 0.04 * RATE
        assert stage.started == []

    on(tmp_path, scene)


@pytest.mark.parametrize("at", [0.5, 0.513, 0.123456])
def test_speech_begins_at_once_over_what_was_queued_and_both_are_exact(tmp_path: Path, at: float) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(at)
        utterance = stage.speak()
        assert stage.started == [at]
        await anyio.sleep(0.3)
        assert stage.playout.position(utterance) == round((at + 0.3) * RATE) - round(at * RATE)
        await utterance.done.wait()
        assert stage.finished == [pytest.approx(at + 1.0, abs=2 / RATE)]
        await anyio.sleep(0.5)
        begun = round(at * RATE)
        speech = stage.speech_heard(0.0)
        assert speech[:begun].tolist() == [0] * begun
        assert speech[begun : begun + RATE].tolist() == SPEECH.tolist()
        assert not speech[begun + RATE :].any()
        assert stage.most_queued <= 0.04 * RATE

    on(tmp_path, scene)


@pytest.mark.parametrize("at", [0.013, 0.33337, 0.98])
def test_a_pause_under_background_resumes_at_the_very_sample(tmp_path: Path, at: float) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(1.0)
        utterance = stage.speak()
        await anyio.sleep(at)
        stage.playout.pause()
        assert stage.playout.position(utterance) == round(at * RATE)
        await anyio.sleep(1.0)
        assert stage.playout.position(utterance) == round(at * RATE)
        stage.playout.resume()
        await utterance.done.wait()
        speech = stage.speech_heard(1.0)
        paused = round(at * RATE)
        assert speech[:paused].tolist() == SPEECH[:paused].tolist()
        assert not speech[paused : paused + RATE - 1].any()
        assert speech[len(speech) - (RATE - paused) :].tolist() == SPEECH[paused:].tolist()

    on(tmp_path, scene)


@pytest.mark.parametrize("is_pause", [True, False])
def test_a_fade_under_background_fades_speech_only(tmp_path: Path, is_pause: bool) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(0.5)
        utterance = stage.speak()
        await anyio.sleep(0.40125)
        if is_pause:
            stage.playout.pause(FADE)
        else:
            assert stage.playout.stop(utterance, FADE) == round(0.40125 * RATE)
        assert stage.playout.position(utterance) == round(0.40125 * RATE)
        assert stage.playout.silent_at() == pytest.approx(stage.clock.now() + FADE)
        await anyio.sleep(0.5)
        speech, cut, fade = stage.speech_heard(0.5), round(0.40125 * RATE), round(FADE * RATE)
        assert speech[:cut].tolist() == SPEECH[:cut].tolist()
        assert (np.abs(speech[cut : cut + fade]) <= np.abs(SPEECH[cut : cut + fade]) + 1).all()
        assert not speech[cut + fade :].any()
        assert steps(speech) <= 12000 * 2 * np.pi * 410 / RATE + 2

    on(tmp_path, scene)


def test_speech_that_comes_late_loses_nothing_and_background_fills_the_gap(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(0.5)
        utterance = stage.speak(SPEECH[:2400], is_finished=False)
        await anyio.sleep(0.3)
        assert stage.playout.position(utterance) == 2400
        utterance.push(AudioChunk(AudioFrame(SPEECH[2400:].tobytes(), RATE)))
        utterance.finish()
        await utterance.done.wait()
        speech = stage.speech_heard(0.5)
        assert speech[:2400].tolist() == SPEECH[:2400].tolist()
        assert not speech[2400:7200].any()
        assert speech[7200 : 7200 + RATE - 2400].tolist() == SPEECH[2400:].tolist()

    on(tmp_path, scene)


def test_background_is_quieter_while_the_agent_speaks_and_goes_there_and_back_on_a_ramp(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background(np.full(RATE, 10000, np.int16), volume=0.5, duck_volume=0.1)
        await anyio.sleep(0.5)
        utterance = stage.speak(np.zeros(RATE, np.int16))
        await utterance.done.wait()
        await anyio.sleep(0.5)
        heard = stage.heard()
        assert set(heard[: RATE // 2]) == {5000}
        down = heard[RATE // 2 : RATE // 2 + round(0.2 * RATE)]
        assert (np.diff(down) <= 0).all()
        assert down[len(down) // 2] == pytest.approx(3400, abs=401)  # at most 40 ms were ready at the old volume
        assert set(heard[round(0.74 * RATE) : round(1.5 * RATE)]) == {1000}
        assert set(heard[round(1.74 * RATE) :]) == {5000}
        assert steps(heard[100:-100]) <= 5000  # the ends of the list
        assert int(np.abs(np.diff(heard)).max()) <= 2

    on(tmp_path, scene)


def test_while_the_agent_is_paused_background_stays_quiet(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background(np.full(RATE, 10000, np.int16), volume=0.5, duck_volume=0.1)
        stage.speak(np.zeros(RATE, np.int16))
        await anyio.sleep(0.5)
        stage.playout.pause(FADE)
        await anyio.sleep(1.0)
        assert set(stage.heard(0.5)) == {1000}

    on(tmp_path, scene)


def test_background_never_clicks(tmp_path: Path) -> None:
    """From its start through speech, pauses, cuts, another file in its place, a stop, to the close."""

    async def scene(stage: Stage) -> None:
        quiet = np.zeros(RATE, np.int16)
        player = stage.background(volume=0.8, duck_volume=0.3, fade=0.05)
        await anyio.sleep(0.3017)
        utterance = stage.speak(quiet)
        await anyio.sleep(0.2503)
        stage.playout.pause(FADE)
        await anyio.sleep(0.0112)
        stage.playout.resume()
        await anyio.sleep(0.0731)
        stage.playout.stop(utterance, FADE)
        await anyio.sleep(0.0207)
        second = stage.speak(quiet[:4801])
        await second.done.wait()
        await anyio.sleep(0.0333)
        player.turn(False)
        await anyio.sleep(0.0201)
        player.turn(True)
        await anyio.sleep(0.3)
        player.end()
        stage.background(volume=0.8, fade=0.05)
        await anyio.sleep(0.5)
        await anyio.sleep(stage.playout.mix().fade_out())
        heard = stage.heard()
        own = 2 * np.pi * 250 / RATE * 6000 * 0.8
        # Two at a time where one takes the other's place, each with its ramp.
        assert steps(heard) <= 2 * (own + 6000 * 0.8 / (0.05 * RATE)) + 2
        single = heard[: round(0.9 * RATE)]
        assert int(np.abs(np.diff(single)).max()) <= own + 6000 * 0.8 / (0.05 * RATE) + 2

    on(tmp_path, scene)


def test_a_sink_that_is_not_exact_plays_speech_behind_what_is_queued_and_says_when(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(0.513)
        utterance = stage.speak()
        begun = round(stage.started[0] * RATE)
        assert 0.513 < stage.started[0] <= 0.553
        assert stage.playout.position(utterance) == 0
        await anyio.sleep(0.2)
        assert stage.playout.position(utterance) == pytest.approx(0.713 * RATE - begun, abs=1)
        await utterance.done.wait()
        assert stage.finished == [pytest.approx(stage.started[0] + 1.0, abs=2 / RATE)]
        await anyio.sleep(0.1)
        speech = stage.speech_heard(0.0)
        assert speech[begun : begun + RATE].tolist() == SPEECH.tolist()
        assert not speech[:begun].any()
        assert stage.most_queued <= 0.08 * RATE

    on(tmp_path, scene, InexactSink)


def test_a_pause_on_a_sink_that_is_not_exact_takes_background_back_too(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(0.513)
        utterance = stage.speak()
        await anyio.sleep(0.4)
        position = stage.playout.position(utterance)
        stage.playout.pause()
        assert stage.playout.position(utterance) == position
        await anyio.sleep(0.4)
        stage.playout.resume()
        await utterance.done.wait()
        speech = stage.speech_heard(0.0)
        assert speech[speech != 0].tolist() == SPEECH[SPEECH != 0].tolist()

    on(tmp_path, scene, InexactSink)


def test_background_that_begins_in_mid_speech_shifts_no_position(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        utterance = stage.speak()
        await anyio.sleep(0.4013)
        stage.background(duck_volume=0.5)
        assert stage.playout.position(utterance) == round(0.4013 * RATE)
        await anyio.sleep(0.01)
        stage.playout.pause()
        assert stage.playout.position(utterance) == round(0.4113 * RATE)
        stage.playout.resume()
        await utterance.done.wait()
        assert utterance.written == utterance.total == RATE
        assert stage.finished == [pytest.approx(1.0, abs=2 / RATE)]

    on(tmp_path, scene)


def test_who_observes_what_is_written_gets_the_mix(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background()
        await anyio.sleep(1.0)
        stage.written.clear()
        stage.speak()
        await anyio.sleep(0.5)
        written = np.concatenate([frame.to_numpy() for frame in stage.written])
        assert written[: RATE // 2].tolist() == (SPEECH.astype(int) + AMBIENCE)[: RATE // 2].tolist()

    on(tmp_path, scene)


def test_a_sum_that_is_too_loud_is_clipped(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background(np.full(RATE, 30000, np.int16))
        await anyio.sleep(0.5)
        stage.speak(np.full(RATE, 30000, np.int16))
        await anyio.sleep(0.5)
        assert set(stage.heard(0.5)) == {32767}

    on(tmp_path, scene)


def test_a_file_that_is_played_once_ends_and_then_nothing_costs_anything(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        player = stage.background(AMBIENCE[:-7], looping=False)
        await anyio.sleep(1.5)
        assert player.is_over
        assert steps(stage.heard()) <= 2 * np.pi * 250 / RATE * 6000 + 6000 / (0.005 * RATE) + 2
        timers, written = stage.clock.timers, len(stage.written)
        await anyio.sleep(5.0)
        assert (stage.clock.timers, len(stage.written)) == (timers, written)
        utterance = stage.speak()
        await utterance.done.wait()
        assert np.frombuffer(stage.sink.played(), np.int16)[-RATE:].tolist() == SPEECH.tolist()

    on(tmp_path, scene)


def test_what_sounds_at_times_begins_anew_each_time(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        rising = (np.arange(4 * RATE) // 4).astype(np.int16)
        player = stage.background(rising, thinking_only=True, fade=0.05)
        await anyio.sleep(0.5)
        player.turn(False)
        await anyio.sleep(0.5)
        first = len(stage.heard())
        assert first == pytest.approx(0.55 * RATE, abs=0.04 * RATE + 1)
        player.turn(True)
        await anyio.sleep(0.5)
        second = np.frombuffer(stage.sink.played(), np.int16)[first:]
        assert (
            second[round(0.1 * RATE) : round(0.4 * RATE)].tolist()
            == rising[round(0.1 * RATE) : round(0.4 * RATE)].tolist()
        )

    on(tmp_path, scene)


def test_two_files_sound_at_once(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        stage.background(np.full(RATE, 1000, np.int16))
        stage.background(np.full(RATE, 200, np.int16))
        await anyio.sleep(1.0)
        assert set(stage.heard(0.1)) == {1200}

    on(tmp_path, scene)


def test_a_long_file_is_read_a_little_ahead_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[float] = []
    original = LoopedFile.read

    def counting(self: LoopedFile) -> AudioFrame | None:
        frame = original(self)
        read.append(0.0 if frame is None else frame.duration)
        return frame

    monkeypatch.setattr(LoopedFile, "read", counting)

    async def scene(stage: Stage) -> None:
        stage.background(np.tile(AMBIENCE, 60))
        await anyio.sleep(5.0)
        assert 5.0 < sum(read) <= 5.0 + AHEAD_SECONDS + 1.0
        assert stage.speech_heard(0.0).tolist() == [0] * (5 * RATE)

    on(tmp_path, scene)

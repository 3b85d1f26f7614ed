"""Playout: exact to the sample through pauses, fades, stops, resampling; the audio that it keeps in each place."""

from __future__ import annotations

import array
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest

from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.utterance import LOOKAHEAD_SECONDS, Utterance
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk

RATE = 24000


def ramp(samples: int, first: int = 1) -> AudioFrame:
    """Audio in which every sample identifies its position."""
    return AudioFrame(array.array("h", [(first + n) % 30000 + 1 for n in range(samples)]).tobytes(), RATE)


def samples_of(data: bytes) -> list[int]:
    return array.array("h", data).tolist()


class Stage:
    """A playout on a virtual sink, with its reports."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sink = VirtualSink(self.clock, sample_rate=RATE)
        self.told: list[tuple[str, float]] = []
        self.most_queued = 0
        self.playout = Playout(
            self.clock,
            on_written=self._written,
        )
        self.playout.open(self.sink)
        self.playout.begin()

    def _written(self, frame: AudioFrame) -> None:
        self.most_queued = max(self.most_queued, self.sink.queued())

    def utterance(self, audio: AudioFrame | None = None, *, is_finished: bool = True) -> Utterance:
        utterance = Utterance(
            "speech_1",
            RATE,
            on_started=lambda _: self.told.append(("started", self.clock.now())),
            on_finished=lambda _: self.told.append(("finished", round(self.clock.now(), 9))),
        )
        self.playout.play(utterance)
        if audio is not None:
            utterance.push(AudioChunk(audio))
        if is_finished:
            utterance.finish()
        return utterance


def run(test: Coroutine[Any, Any, None]) -> None:
    run_virtual(test)


def test_an_utterance_is_played_whole_and_told_at_its_exact_times() -> None:
    async def main() -> None:
        stage, audio = Stage(), ramp(RATE + 7)  # not a whole number of frames
        utterance = stage.utterance(audio)
        await utterance.done.wait()
        assert stage.sink.played() == audio.data
        assert stage.told == [("started", 0.0), ("finished", round((RATE + 7) / RATE, 9))]
        assert utterance.written == utterance.total == RATE + 7

    run(main())


def test_the_sink_never_holds_more_than_40_ms() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(3 * RATE))
        await utterance.done.wait()
        assert stage.most_queued <= 0.04 * RATE

    run(main())


@pytest.mark.parametrize("pause_at", [0.013, 0.1, 0.33337, 0.98])
def test_the_position_is_exact_and_a_pause_resumes_at_the_very_sample(pause_at: float) -> None:
    async def main() -> None:
        stage, audio = Stage(), ramp(RATE)
        utterance = stage.utterance(audio)
        await anyio.sleep(pause_at)
        expected = round(pause_at * RATE)
        assert stage.playout.position(utterance) == expected
        stage.playout.pause()
        await anyio.sleep(1.0)
        assert stage.playout.position(utterance) == expected
        assert len(samples_of(stage.sink.played())) == expected
        stage.playout.resume()
        await utterance.done.wait()
        assert stage.sink.played() == audio.data  # nothing lost, nothing twice
        assert stage.told[-1][1] == pytest.approx(2.0, abs=1 / RATE)

    run(main())


def test_a_pause_fades_out_and_resumes_where_the_fade_began() -> None:
    async def main() -> None:
        stage, audio = Stage(), AudioFrame((1000).to_bytes(2, "little") * RATE, RATE)
        utterance = stage.utterance(audio)
        await anyio.sleep(0.5)
        stage.playout.pause(0.05)
        await anyio.sleep(0.5)
        assert stage.playout.position(utterance) == RATE // 2
        heard = samples_of(stage.sink.played())
        fade = heard[RATE // 2 :]
        assert len(fade) == round(0.05 * RATE)
        assert fade == sorted(fade, reverse=True)
        assert fade[0] > 950
        assert fade[-1] < 50
        stage.playout.resume()
        await utterance.done.wait()
        assert len(samples_of(stage.sink.played())) == RATE + len(fade)

    run(main())


def test_stop_returns_what_was_played_before_the_fade_and_frees_the_audio() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(RATE))
        await anyio.sleep(0.4)
        assert stage.playout.stop(utterance, 0.05) == round(0.4 * RATE)
        assert utterance.done.is_set()
        assert stage.playout.current is None
        assert stage.playout.silent_at() == pytest.approx(0.45)
        await anyio.sleep(1.0)
        assert len(samples_of(stage.sink.played())) == round(0.45 * RATE)
        assert [what for what, _ in stage.told] == ["started"]

    run(main())


def test_stopping_what_is_paused_makes_no_sound() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(RATE))
        await anyio.sleep(0.4)
        stage.playout.pause()
        await anyio.sleep(0.4)
        assert stage.playout.stop(utterance, 0.05) == round(0.4 * RATE)
        await anyio.sleep(0.4)
        assert len(samples_of(stage.sink.played())) == round(0.4 * RATE)

    run(main())


def test_stopping_in_the_moment_of_the_first_frame_makes_no_sound() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(RATE))
        assert stage.playout.stop(utterance, 0.05) == 0
        await anyio.sleep(0.4)
        assert stage.sink.played() == b""

    run(main())


def test_a_pause_before_the_first_audio_holds_it_back() -> None:
    async def main() -> None:
        stage, audio = Stage(), ramp(RATE // 2)
        stage.playout.pause()
        utterance = stage.utterance(audio)
        await anyio.sleep(1.0)
        assert stage.told == []
        assert stage.sink.played() == b""
        stage.playout.resume()
        await utterance.done.wait()
        assert stage.sink.played() == audio.data
        assert stage.told == [("started", 1.0), ("finished", 1.5)]

    run(main())


def test_audio_that_comes_late_leaves_a_gap_and_loses_nothing() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(2400), is_finished=False)
        await anyio.sleep(1.0)
        assert stage.playout.position(utterance) == 2400
        assert not utterance.done.is_set()
        utterance.push(AudioChunk(ramp(2400, 2401)))
        utterance.finish()
        await utterance.done.wait()
        assert stage.sink.played() == ramp(4800).data
        assert [round(played.at, 6) for played in stage.sink.frames()][5] == 1.0

    run(main())


def test_nothing_is_played_before_the_caller_can_hear() -> None:
    async def main() -> None:
        stage = Stage()
        stage.playout = Playout(stage.clock)
        stage.playout.open(stage.sink)
        utterance = stage.utterance(ramp(480))
        await anyio.sleep(1.0)
        assert stage.told == []
        stage.playout.begin()
        await utterance.done.wait()
        assert stage.sink.played() == ramp(480).data

    run(main())


def test_another_rate_is_resampled_to_the_expected_length() -> None:
    async def main() -> None:
        stage, utterance = Stage(), Utterance("speech_1", RATE)
        stage.playout.play(utterance)
        for _ in range(50):
            utterance.push(AudioChunk(AudioFrame((1000).to_bytes(2, "little") * 441, 22050)))
        utterance.finish()
        assert utterance.total == pytest.approx(RATE, abs=2)
        await utterance.done.wait()
        heard = samples_of(stage.sink.played())
        assert heard[RATE // 2] == pytest.approx(1000, abs=20)

    run(main())


def test_a_fast_voice_waits_when_the_lookahead_is_full() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(is_finished=False)
        pushed = 0
        with anyio.move_on_after(5.0):
            while True:
                utterance.push(AudioChunk(ramp(RATE)))
                pushed += 1
                await utterance.room()
        assert pushed <= LOOKAHEAD_SECONDS + 5 + 2
        assert pushed >= LOOKAHEAD_SECONDS
        stage.playout.stop(utterance)

    run(main())


def test_a_long_utterance_does_not_keep_what_was_played() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.utterance(ramp(20 * RATE))
        await anyio.sleep(15.0)
        utterance.rewind(20 * RATE)  # goes back only as far as audio is kept
        assert utterance.written > 13 * RATE
        stage.playout.close()

    run(main())

"""Speech that is cut, held and continued: no clicks, and positions that a fade does not shift."""

from __future__ import annotations

import array
import math

import anyio
import pytest

from vivavoce.agents.audio.playout import FADE_IN_SECONDS, Playout
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.transports.local import VirtualSink
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk

RATE = 24000
FADE = 0.05
AMPLITUDE = 16000
HERTZ = 200.0
TONE_STEP = 2 * math.pi * HERTZ / RATE * AMPLITUDE
"""The largest step between two samples of the tone itself."""


def tone(seconds: float) -> array.array[int]:
    wave = (AMPLITUDE * math.sin(2 * math.pi * HERTZ * n / RATE) for n in range(round(seconds * RATE)))
    return array.array("h", [round(value) for value in wave])


class Stage:
    """A playout on a virtual sink, in the middle of a tone."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.sink = VirtualSink(self.clock, sample_rate=RATE)
        self.playout = Playout(self.clock)
        self.playout.open(self.sink)
        self.playout.begin()

    def speak(self, seconds: float = 2.0) -> Utterance:
        utterance = Utterance("speech_1", RATE)
        self.playout.play(utterance)
        utterance.push(AudioChunk(AudioFrame(tone(seconds).tobytes(), RATE)))
        utterance.finish()
        return utterance

    def largest_step(self) -> float:
        heard = [0, *array.array("h", self.sink.played()), 0]
        return max(abs(after - before) for before, after in zip(heard, heard[1:], strict=False))


@pytest.mark.parametrize("at", [0.1013, 0.5, 0.50125, 0.99875])  # peaks and zeros of the tone, and between
def test_a_cut_does_not_click(at: float) -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.speak()
        await anyio.sleep(at)
        stage.playout.stop(utterance, FADE)
        await anyio.sleep(1.0)
        assert stage.largest_step() <= TONE_STEP + 2

    run_virtual(main())


@pytest.mark.parametrize("at", [0.1013, 0.5, 0.50125, 0.99875])
def test_a_pause_and_its_resume_do_not_click(at: float) -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.speak()
        await anyio.sleep(at)
        stage.playout.pause(FADE)
        await anyio.sleep(0.5)
        assert stage.playout.position(utterance) == round(at * RATE)
        stage.playout.resume()
        await utterance.done.wait()
        allowed = TONE_STEP + AMPLITUDE / (FADE_IN_SECONDS * RATE)
        assert stage.largest_step() <= allowed + 2

    run_virtual(main())


def test_a_resumed_speech_fades_in_where_its_pause_began_and_is_exact_after_it() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.speak()
        whole = tone(2.0)
        await anyio.sleep(0.50125)
        stage.playout.pause(FADE)
        await anyio.sleep(0.5)
        stage.playout.resume()
        await utterance.done.wait()
        heard = array.array("h", stage.sink.played())
        paused_at, fade, ramp = round(0.50125 * RATE), round(FADE * RATE), round(FADE_IN_SECONDS * RATE)
        assert heard[:paused_at] == whole[:paused_at]
        resumed = heard[paused_at + fade :]
        assert resumed[ramp:] == whole[paused_at + ramp :]
        assert all(abs(a) <= abs(b) for a, b in zip(resumed[:ramp], whole[paused_at:], strict=False))

    run_virtual(main())


@pytest.mark.parametrize("again_after", [0.001, 0.004, 0.015, 0.03])
def test_a_pause_soon_after_a_resume_neither_clicks_nor_loses_its_place(again_after: float) -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.speak()
        await anyio.sleep(0.50125)
        stage.playout.pause(FADE)
        await anyio.sleep(0.5)
        stage.playout.resume()
        await anyio.sleep(again_after)
        stage.playout.pause(FADE)
        assert stage.playout.position(utterance) == round(0.50125 * RATE) + round(again_after * RATE)
        await anyio.sleep(0.5)
        stage.playout.resume()
        await utterance.done.wait()
        assert stage.largest_step() <= TONE_STEP + AMPLITUDE / (FADE_IN_SECONDS * RATE) + 2

    run_virtual(main())


def test_the_fade_of_a_pause_that_is_still_heard_does_not_shift_the_position() -> None:
    async def main() -> None:
        stage = Stage()
        utterance = stage.speak()
        await anyio.sleep(0.5)
        stage.playout.pause(FADE)
        await anyio.sleep(0.01)
        stage.playout.resume()  # 40 ms of the fade are not heard yet: speech continues behind them
        await anyio.sleep(0.03)
        assert stage.playout.position(utterance) == RATE // 2
        await anyio.sleep(0.015)
        assert stage.playout.position(utterance) == RATE // 2 + round(0.005 * RATE)
        stage.playout.pause()
        assert stage.playout.position(utterance) == RATE // 2 + round(0.005 * RATE)
        stage.playout.resume()
        await utterance.done.wait()
        assert stage.playout.position(utterance) == 2 * RATE

    run_virtual(main())


def test_a_speech_begun_in_the_fade_of_the_one_before_counts_its_own_samples_only() -> None:
    async def main() -> None:
        stage = Stage()
        first = stage.speak()
        await anyio.sleep(0.5)
        stage.playout.stop(first, FADE)
        await anyio.sleep(0.035)  # 15 ms of the fade are left
        second = stage.speak()
        stage.playout.pause()
        assert stage.playout.position(second) == 0
        stage.playout.resume()
        await anyio.sleep(0.1)
        assert stage.playout.position(second) == round(0.1 * RATE)
        stage.playout.close()

    run_virtual(main())

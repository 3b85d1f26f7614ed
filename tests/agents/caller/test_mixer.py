"""The voices that a scripted caller hears, as one sequence of frames on a clock that never stops."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import anyio

from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE
from vivavoce.agents.caller.mixer import Voice, VoiceMixer
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import run_virtual

Scenario = Callable[[VoiceMixer, Voice, Voice], Coroutine[Any, Any, None]]


def tone(level: int) -> AudioFrame:
    return AudioFrame(level.to_bytes(2, "little", signed=True) * FRAME_SAMPLES, SAMPLE_RATE)


async def speak(mixer: VoiceMixer, voice: Voice, level: int, seconds: float) -> None:
    for _ in range(round(seconds / 0.02)):
        mixer.take(voice, tone(level))
        await anyio.sleep(0.02)


def levels_of(scenario: Scenario, *, until: float) -> list[tuple[float, int]]:
    """Return when each frame was given out, in seconds, and its level, with two voices that come at 0."""
    found: list[tuple[float, int]] = []

    async def main() -> None:
        mixer, first, second = VoiceMixer(), Voice(), Voice()
        began = anyio.current_time()
        mixer.start()
        mixer.add(first)
        mixer.add(second)
        with anyio.move_on_after(until):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(scenario, mixer, first, second)
                while True:
                    frame = await mixer.next_frame()
                    level = int.from_bytes(frame.data[:2], "little", signed=True)
                    found.append((round(anyio.current_time() - began, 3), level))

    run_virtual(main())
    return found


def test_one_voice_is_heard_frame_for_frame_as_it_arrives() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        await speak(mixer, first, 7, 0.1)

    assert levels_of(scenario, until=0.3) == [(0.0, 7), (0.02, 7), (0.04, 7), (0.06, 7), (0.08, 7)]


def test_two_voices_at_once_are_mixed_and_take_no_more_time_than_one() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(speak, mixer, first, 20_000, 1.0)
            tasks.start_soon(speak, mixer, second, 20_000, 1.0)

    found = levels_of(scenario, until=1.2)
    assert len(found) == 50
    assert {level for _, level in found[2:]} == {32_767}  # as loud as can be, not wrapped around


def test_a_voice_goes_on_where_another_one_ends_though_its_frames_came_beside_it() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(speak, mixer, first, 1, 0.4)
            tasks.start_soon(speak, mixer, second, 2, 2.0)

    found = levels_of(scenario, until=2.0)
    assert found[-1] == (1.98, 2)
    assert 95 <= len(found) <= 100  # the change costs a tenth of a second at most, and adds nothing


def test_a_voice_that_stalls_has_its_time_filled_up_with_silence() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        await speak(mixer, first, 7, 1.0)
        await anyio.sleep(2.0)
        await speak(mixer, first, 8, 1.0)

    found = levels_of(scenario, until=4.0)
    assert [level for _, level in found].count(0) in range(96, 102)
    assert max(after[0] - before[0] for before, after in zip(found, found[1:], strict=False)) < 0.6
    assert found[-1] == (3.98, 8)


def test_without_any_voice_time_goes_on_at_once() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        await speak(mixer, first, 7, 1.0)
        mixer.remove(first)
        mixer.remove(second)
        mixer.take(first, tone(9))  # still on its way
        assert first.listening.cancel_called

    found = levels_of(scenario, until=2.0)
    assert {level for at, level in found if at > 1.0} == {0}
    assert max(after[0] - before[0] for before, after in zip(found, found[1:], strict=False)) < 0.05
    assert 98 <= len(found) <= 101


def test_frames_that_come_late_through_a_busy_event_loop_are_no_stall() -> None:
    async def scenario(mixer: VoiceMixer, first: Voice, second: Voice) -> None:
        await speak(mixer, first, 7, 0.2)
        await anyio.sleep(0.52)
        await speak(mixer, first, 7, 0.2)

    assert {level for _, level in levels_of(scenario, until=0.95)} == {7}

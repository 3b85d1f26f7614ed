"""The caller's video is shown to a model that takes video: on request, at a bounded rate, newest only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.testing import ScriptedRealtimeModel
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.transports.options import RoomOptions, VideoInputOptions
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedTTS, VirtualClock, run_virtual

SEES = RealtimeCapabilities(takes_video=True)

Scenario = Callable[[AgentSession[None], LocalTransport], Awaitable[None]]


def call(pipeline: Pipeline, scenario: Scenario, **options: float) -> None:
    """Run a session whose room has video."""

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        room_options = RoomOptions(video_input=VideoInputOptions(fps=options.get("fps", 1.0)))
        async with AgentSession[None](Agent("Look."), pipeline, options=SessionOptions(clock=clock)) as session:
            await session.start(room, room_options=room_options)
            await scenario(session, room)

    run_virtual(main())


def picture(number: int) -> VideoFrame:
    return VideoFrame(b"%d" % number, "image/jpeg", 64, 48)


async def show(room: LocalTransport, seconds: float, *, first: int = 0) -> None:
    """Show ten pictures a second."""
    for number in range(round(10 * seconds)):
        room.push_video(picture(first + number))
        await anyio.sleep(0.1)


@pytest.mark.parametrize(("fps", "shown"), [(1.0, [0, 10, 20]), (2.0, [0, 5, 10, 15, 20, 25])])
def test_pictures_are_shown_at_the_rate_asked_for_and_those_between_are_dropped(fps: float, shown: list[int]) -> None:
    model = ScriptedRealtimeModel(capabilities=SEES)

    async def scenario(_: AgentSession[None], room: LocalTransport) -> None:
        await show(room, 2.95)

    call(RealtimePipeline(model), scenario, fps=fps)
    seen = [int(frame.data) for frame in model.connections[0].record.pictures]
    assert seen == pytest.approx(shown, abs=1)  # a tenth of a second more or less, as floats have it
    assert len(seen) == len(shown)


def test_while_there_is_no_connection_pictures_are_dropped_and_not_kept_for_the_next_one() -> None:
    model = ScriptedRealtimeModel(capabilities=SEES, open_delay=5.0)

    async def scenario(_: AgentSession[None], room: LocalTransport) -> None:
        await show(room, 1.0)
        model.fail()
        await show(room, 4.0, first=100)
        await anyio.sleep(3.0)
        room.push_video(picture(200))

    call(RealtimePipeline(model), scenario)
    first, second = model.connections
    assert [frame.data for frame in first.record.pictures] == [b"0"]
    assert [frame.data for frame in second.record.pictures] == [b"200"]


def test_a_muted_caller_is_not_seen_either() -> None:
    model = ScriptedRealtimeModel(capabilities=SEES)

    async def scenario(session: AgentSession[None], room: LocalTransport) -> None:
        session.input.mute()
        await show(room, 2.0)
        session.input.mute(False)
        room.push_video(picture(7))

    call(RealtimePipeline(model), scenario)
    assert [frame.data for frame in model.connections[0].record.pictures] == [b"7"]


@pytest.mark.parametrize(
    "pipeline", [RealtimePipeline(ScriptedRealtimeModel()), CascadingPipeline(tts=ScriptedTTS())], ids=lambda p: p.name
)
def test_a_pipeline_that_sees_nothing_refuses_a_room_that_is_to_be_seen(pipeline: Pipeline) -> None:
    async def scenario(session: AgentSession[None], room: LocalTransport) -> None:
        raise AssertionError("it started")

    with pytest.raises(CapabilityError, match="leave out RoomOptions.video_input"):
        call(pipeline, scenario)


def test_a_model_that_takes_no_video_does_not_take_the_place_of_one_that_is_shown_the_caller() -> None:
    model = ScriptedRealtimeModel(capabilities=SEES)
    others = RealtimePipeline(ScriptedRealtimeModel()), CascadingPipeline(tts=ScriptedTTS())

    async def scenario(session: AgentSession[None], room: LocalTransport) -> None:
        for pipeline in others:
            with pytest.raises(CapabilityError, match="leave out RoomOptions.video_input"):
                _ = session.update_pipeline(pipeline)
        await session.update_components(tts=ScriptedTTS())
        await show(room, 0.5)

    call(RealtimePipeline(model, tts=ScriptedTTS()), scenario)
    assert len(model.connections[-1].record.pictures) == 1


def test_without_being_asked_nothing_is_looked_at() -> None:
    model = ScriptedRealtimeModel(capabilities=SEES)

    async def main() -> None:
        clock = VirtualClock()
        room = LocalTransport(clock)
        options = SessionOptions(clock=clock)
        async with AgentSession[None](Agent("Look."), RealtimePipeline(model), options=options) as session:
            await session.start(room)
            await show(room, 2.0)

    run_virtual(main())
    assert model.connections[0].record.pictures == []


BAD: list[dict[str, Any]] = [
    {"fps": 0.0},
    {"fps": float("nan")},
    {"max_size": 0},
    {"min_change": 1.5},
    {"min_change": -0.1},
    {"source": "window"},
    {"max_turn_images": 0},
    {"max_images": 2, "max_turn_images": 3},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_rates_and_sizes_that_mean_nothing_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(bad))):
        VideoInputOptions(**bad)

"""A caller's video in a room reaches a model that takes video, on the real LiveKit server.

The embedded room carries no video; there the only effect is that the model sees nothing.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from livekit import rtc
from PIL import Image

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import Watched, token
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.testing import ScriptedRealtimeModel
from vivavoce.agents.transports.livekit.video import encode
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90)]

WIDTH, HEIGHT = 640, 480
RED, BLUE = (200, 30, 30), (30, 30, 200)


class SeeingModel(ScriptedRealtimeModel):
    """Tells when it is shown something."""

    def __init__(self) -> None:
        super().__init__(capabilities=RealtimeCapabilities(takes_video=True))
        self.seen = Watched()

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        return SeeingConnection(self, setup)


class SeeingConnection(ScriptedRealtimeConnection):
    def __init__(self, model: SeeingModel, setup: RealtimeSetup) -> None:
        super().__init__(model, setup)
        self._seen = model.seen

    def push_video(self, frame: VideoFrame) -> None:
        super().push_video(frame)
        self._seen.changed()


def frame_of(color: tuple[int, int, int]) -> rtc.VideoFrame:
    data = bytearray(bytes((*color, 255)) * (WIDTH * HEIGHT))
    return rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, data)


def color_of(picture: VideoFrame) -> tuple[int, int, int]:
    """The middle of a JPEG."""
    with Image.open(io.BytesIO(picture.data)) as image:
        assert (image.format, image.size) == ("JPEG", (picture.width, picture.height))
        color = image.convert("RGB").getpixel((image.width // 2, image.height // 2))
    assert isinstance(color, tuple)
    return int(color[0]), int(color[1]), int(color[2])


def is_near(color: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return all(abs(a - b) < 50 for a, b in zip(color, other, strict=True))


@asynccontextmanager
async def showing(
    room: rtc.Room, color: tuple[int, int, int], source_kind: rtc.TrackSource.ValueType
) -> AsyncIterator[None]:
    """Publish a picture of one colour, fifteen times a second."""
    source = rtc.VideoSource(WIDTH, HEIGHT)
    track = rtc.LocalVideoTrack.create_video_track("picture", source)
    options = rtc.TrackPublishOptions(source=source_kind, simulcast=False)
    publication = await room.local_participant.publish_track(track, options)

    async def feed() -> None:
        frame = frame_of(color)
        while True:
            source.capture_frame(frame)
            await anyio.sleep(1 / 15)

    feeding = asyncio.create_task(feed())
    try:
        yield
    finally:
        feeding.cancel()
        await asyncio.gather(feeding, return_exceptions=True)
        await room.local_participant.unpublish_track(publication.sid)
        await source.aclose()


@asynccontextmanager
async def connected(server: RoomEndpoint, room_name: str, identity: str, kind: str = "") -> AsyncIterator[rtc.Room]:
    room = rtc.Room()
    await room.connect(server.url, token(server, room_name, identity, *([kind] if kind else [])))
    try:
        yield room
    finally:
        await room.disconnect()


async def test_a_camera_and_then_a_shared_screen_are_shown_to_the_model_few_and_small(
    livekit_room: RoomEndpoint, room_name: str
) -> None:
    model = SeeingModel()
    options = RoomOptions(video_input=True, video_fps=4.0, video_max_size=160)

    async def until(color: tuple[int, int, int], count: int) -> list[VideoFrame]:
        pictures = model.connection.record.pictures
        await model.seen.until(lambda: sum(is_near(color_of(one), color) for one in pictures) >= count)
        return list(pictures)

    async with (
        connected(livekit_room, room_name, "agent", "agent") as agent_room,
        connected(livekit_room, room_name, "caller") as caller_room,
    ):
        session = AgentSession[None](Agent("Look."), RealtimePipeline(model))
        await session.start(agent_room, room_options=options)
        try:
            async with showing(caller_room, RED, rtc.TrackSource.SOURCE_CAMERA):
                began_at = anyio.current_time()
                pictures = await until(RED, 4)
                seconds = anyio.current_time() - began_at
                assert len(pictures) <= 4.0 * seconds + 2
                assert {(one.width, one.height) for one in pictures} == {(160, 120)}
                async with showing(caller_room, BLUE, rtc.TrackSource.SOURCE_SCREENSHARE):
                    await until(BLUE, 2)
                camera_again = len(model.connection.record.pictures)
                pictures = await until(RED, 4 + 1 + sum(is_near(color_of(p), RED) for p in pictures))
                assert len(pictures) > camera_again
        finally:
            report = await session.close()
    assert report.is_clean


def test_a_picture_is_made_smaller_and_never_larger() -> None:
    small, large = encode(frame_of(RED), 64), encode(frame_of(BLUE), 4000)
    assert (small.width, small.height, small.media_type) == (64, 48, "image/jpeg")
    assert (large.width, large.height) == (WIDTH, HEIGHT)
    assert is_near(color_of(small), RED)
    assert is_near(color_of(large), BLUE)

"""A caller's video in a room reaches a model that sees: a stream to a realtime model, pictures in a cascade's turns."""

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
from kit.limits import LIMIT
from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel
from vivavoce.agents.transports.livekit.video import encode
from vivavoce.agents.transports.options import RoomOptions, VideoInputOptions
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.llm.base import LLMCapabilities
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTS
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

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
async def connected(
    server: RoomEndpoint, room_name: str, identity: str, kind: str = "standard"
) -> AsyncIterator[rtc.Room]:
    room = rtc.Room()
    await room.connect(server.url, token(server, room_name, identity, kind))
    try:
        yield room
    finally:
        await room.disconnect()


async def test_a_camera_and_then_a_shared_screen_are_shown_to_the_model_few_and_small(
    room_server: RoomEndpoint, room_name: str
) -> None:
    model = SeeingModel()
    options = RoomOptions(video_input=VideoInputOptions(fps=4.0, max_size=160, min_change=0.0))

    async def until(color: tuple[int, int, int], count: int) -> list[VideoFrame]:
        pictures = model.connection.record.pictures
        await model.seen.until(lambda: sum(is_near(color_of(one), color) for one in pictures) >= count)
        return list(pictures)

    async with (
        connected(room_server, room_name, "agent", "agent") as agent_room,
        connected(room_server, room_name, "caller") as caller_room,
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


@pytest.mark.parametrize("color", [RED, BLUE, (255, 255, 255), (0, 0, 0), (30, 200, 120)])
@pytest.mark.parametrize("size", [(640, 480), (33, 17)])
def test_a_decoded_picture_has_the_colours_of_a_conversion(color: tuple[int, int, int], size: tuple[int, int]) -> None:
    width, height = size
    pixels = rtc.VideoFrame(width, height, rtc.VideoBufferType.RGBA, bytearray(bytes((*color, 255)) * width * height))
    decoded, thumbnail = encode(pixels.convert(rtc.VideoBufferType.I420), 1024)
    assert (decoded.width, decoded.height) == size
    assert all(abs(a - b) <= 6 for a, b in zip(color_of(decoded), color, strict=True))
    assert len(thumbnail) == 32 * 32


def test_a_picture_is_made_smaller_and_never_larger() -> None:
    (small, small_thumbnail), (large, thumbnail) = encode(frame_of(RED), 64), encode(frame_of(BLUE), 4000)
    assert len(small_thumbnail) == len(thumbnail) == 32 * 32
    assert (small.width, small.height, small.media_type) == (64, 48, "image/jpeg")
    assert (large.width, large.height) == (WIDTH, HEIGHT)
    assert is_near(color_of(small), RED)
    assert is_near(color_of(large), BLUE)


@pytest.mark.parametrize("kind", [rtc.VideoBufferType.RGBA, rtc.VideoBufferType.I420])
@pytest.mark.parametrize(
    ("rotation", "red_side"),
    [
        (rtc.VideoRotation.VIDEO_ROTATION_0, (0, 12)),
        (rtc.VideoRotation.VIDEO_ROTATION_90, (12, 0)),
        (rtc.VideoRotation.VIDEO_ROTATION_180, (31, 12)),
        (rtc.VideoRotation.VIDEO_ROTATION_270, (12, 31)),
    ],
)
def test_a_picture_of_a_telephone_that_is_held_upright_is_turned_upright(
    kind: rtc.VideoBufferType.ValueType, rotation: rtc.VideoRotation.ValueType, red_side: tuple[int, int]
) -> None:
    """The SDK gives the picture as the camera has it, and by how much it is to be turned clockwise."""
    row = bytes((*RED, 255)) * 32 + bytes((*BLUE, 255)) * 32
    frame = rtc.VideoFrame(64, 48, rtc.VideoBufferType.RGBA, bytearray(row * 48))
    frame = frame if kind == frame.type else frame.convert(kind)
    picture, thumbnail = encode(frame, 32, rotation)
    is_turned = rotation in (rtc.VideoRotation.VIDEO_ROTATION_90, rtc.VideoRotation.VIDEO_ROTATION_270)
    assert (picture.width, picture.height) == ((24, 32) if is_turned else (32, 24))
    assert len(thumbnail) == 32 * 32
    with Image.open(io.BytesIO(picture.data)) as image:
        red, _, blue = image.convert("RGB").getpixel(red_side)  # type: ignore[misc]
    assert red > blue


@pytest.mark.both_servers
async def test_a_cascade_sees_the_screen_that_was_shared_when_the_caller_asks(
    room_server: RoomEndpoint, room_name: str
) -> None:
    llm = ScriptedLLM("It is red.", "It is blue.", capabilities=LLMCapabilities(supports_images=True))
    options = RoomOptions(video_input=VideoInputOptions(source="screen", fps=4.0, max_size=160, max_turn_images=2))

    async with (
        connected(room_server, room_name, "agent", "agent") as agent_room,
        connected(room_server, room_name, "caller") as caller_room,
    ):
        pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS())
        session = AgentSession[None](Agent("Look."), pipeline)
        answered = Watched()
        session.on("turn_completed", lambda _: answered.changed())
        await session.start(agent_room, room_options=options)

        async def ask(text: str) -> list[tuple[int, int, int]]:
            turns = len(session.turns)
            await caller_room.local_participant.send_text(text, topic="lk.chat")
            await answered.until(lambda: len(session.turns) > turns)
            message = llm.requests[-1].context.messages("user")[-1]
            assert {(image.width, image.height) for image in message.images} <= {(160, 120)}
            return [color_of(image) for image in message.images]

        def sees(color: tuple[int, int, int]) -> bool:
            return any(is_near(color_of(one), color) for one in session.input.frames())

        async def shown(color: tuple[int, int, int]) -> None:
            with anyio.fail_after(LIMIT):
                while not sees(color):  # noqa: ASYNC110 - a new picture is no event
                    await anyio.sleep(0.1)

        try:
            async with showing(caller_room, BLUE, rtc.TrackSource.SOURCE_CAMERA):
                async with showing(caller_room, RED, rtc.TrackSource.SOURCE_SCREENSHARE):
                    await shown(RED)
                    await anyio.sleep(1.0)  # the same picture, fifteen times a second
                    colors = await ask("Which colour is it?")
                assert len(colors) == 1
                assert is_near(colors[0], RED)
            async with showing(caller_room, BLUE, rtc.TrackSource.SOURCE_SCREENSHARE):
                await shown(BLUE)
                colors = await ask("And now?")
            assert len(colors) == 1
            assert is_near(colors[0], BLUE)
        finally:
            report = await session.close()
    assert report.is_clean

"""VideoReader: reads pictures of the linked participant's video, few and small, and encodes them off the event loop."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import anyio
import anyio.to_thread
from livekit import rtc

from vivavoce.agents.transports.options import VideoSource
from vivavoce.pipelines.core.errors import ConfigurationError, located
from vivavoce.pipelines.media.frame import VideoFrame

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 2.0
ENCODE_LIMIT = 2.0
"""Seconds for one picture; one that takes longer is dropped."""
JPEG_QUALITY = 80
MIN_SIZE = 16
"""Pixels of a real picture's shorter side: the SDK shows a black one of 8 pixels when a track ends."""


THUMBNAIL_SIZE = (32, 32)
LUMA_LEVELS = [max(0, min(255, round((level - 16) * 255 / 219))) for level in range(256)]
CHROMA_LEVELS = [max(0, min(255, round((level - 128) * 255 / 224 + 128))) for level in range(256)]
"""The levels of video (16 to 235, and 16 to 240) as those of JPEG. Source: ITU-R BT.601."""
_TURNS = {
    int(rtc.VideoRotation.VIDEO_ROTATION_90): "ROTATE_270",
    int(rtc.VideoRotation.VIDEO_ROTATION_180): "ROTATE_180",
    int(rtc.VideoRotation.VIDEO_ROTATION_270): "ROTATE_90",
}
"""Pillow's names of turns, which are counterclockwise, by the SDK's, which are clockwise."""
SOURCES: dict[VideoSource, tuple[rtc.TrackSource.ValueType, ...]] = {
    "screen": (rtc.TrackSource.SOURCE_SCREENSHARE,),
    "camera": (rtc.TrackSource.SOURCE_CAMERA,),
    "any": (rtc.TrackSource.SOURCE_SCREENSHARE, rtc.TrackSource.SOURCE_CAMERA, rtc.TrackSource.SOURCE_UNKNOWN),
}


def find_video(participant: rtc.RemoteParticipant, source: VideoSource) -> rtc.RemoteTrackPublication | None:
    """Return the video to read: for `any` a shared screen, else a camera, else video of no named source; none that is
    muted."""
    shown = [
        each
        for each in participant.track_publications.values()
        if each.kind == rtc.TrackKind.KIND_VIDEO and not each.muted
    ]
    for wanted in SOURCES[source]:
        for publication in reversed(shown):  # the newest of a source
            if publication.source == wanted:
                return publication
    return None


def check_encoder() -> None:
    """Check that pictures can be encoded.

    Raises:
        ConfigurationError: Pillow is not installed.
    """
    try:
        import PIL.Image  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ConfigurationError(
            f"RoomOptions.video_input needs Pillow, which does not import ({error}); run: pip install 'vivavoce[video]'"
        ) from error


def encode(
    frame: rtc.VideoFrame,
    max_size: int,
    rotation: int = rtc.VideoRotation.VIDEO_ROTATION_0,
) -> tuple[VideoFrame, bytes]:
    """Return the picture as JPEG, its longer side at most `max_size` pixels, and its thumbnail in grey.

    Args:
        rotation: By how much it is to be turned clockwise (`rtc.VideoRotation`): a telephone held upright needs it.
    Raises:
        ValueError: The SDK cannot convert its format.
        OSError: Pillow cannot encode it.
    """
    from PIL import Image

    shrink = min(1.0, max_size / max(frame.width, frame.height))
    size = (max(1, round(frame.width * shrink)), max(1, round(frame.height * shrink)))
    image = _of_planes(frame, size) if frame.type == rtc.VideoBufferType.I420 else _of_pixels(frame, size)
    if rotation in _TURNS:
        image = image.transpose(Image.Transpose[_TURNS[rotation]])
    written = io.BytesIO()
    image.save(written, "JPEG", quality=JPEG_QUALITY)
    thumbnail = image.convert("L").resize(THUMBNAIL_SIZE, Image.Resampling.BOX)
    return VideoFrame(written.getvalue(), "image/jpeg", image.width, image.height), thumbnail.tobytes()


def _of_planes(frame: rtc.VideoFrame, size: tuple[int, int]) -> Picture:
    """Return the picture of a decoded video, which needs no conversion at its full size: that holds the interpreter
    for several milliseconds, and with it the audio."""
    from PIL import Image

    width, height = frame.width, frame.height
    half = ((width + 1) // 2, (height + 1) // 2)
    data, at, planes = memoryview(frame.data), 0, []
    for plane_size, levels in (((width, height), LUMA_LEVELS), (half, CHROMA_LEVELS), (half, CHROMA_LEVELS)):
        length = plane_size[0] * plane_size[1]
        part = data[at : at + length]
        plane = Image.frombuffer("L", plane_size, part, "raw", "L", 0, 1)  # type: ignore[arg-type]  # any buffer will do
        planes.append(plane.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0).point(levels))
        at += length
    return Image.merge("YCbCr", planes)


def _of_pixels(frame: rtc.VideoFrame, size: tuple[int, int]) -> Picture:
    from PIL import Image

    raw = frame
    if frame.type != rtc.VideoBufferType.RGBA:
        try:
            raw = frame.convert(rtc.VideoBufferType.RGBA)
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing finer
            raise ValueError(f"a picture of type {frame.type} cannot be converted: {error}") from error
    image = Image.frombytes("RGBA", (raw.width, raw.height), bytes(raw.data)).convert("RGB")
    return image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0)


class VideoReader:
    """Reads one track at a time. Only the newest picture is kept, and unwanted ones are not encoded.

    Args:
        wanted: Called for each picture: whether to encode it.
        on_frame: Called with each encoded picture, as JPEG, and its thumbnail.
        on_stopped: Called when there is no track to read any more.
        max_size: Pixels of the longer side.
    """

    def __init__(
        self,
        wanted: Callable[[], bool],
        on_frame: Callable[[VideoFrame, bytes], None],
        on_stopped: Callable[[], None],
        *,
        max_size: int,
    ) -> None:
        self._wanted = wanted
        self._on_frame = on_frame
        self._on_stopped = on_stopped
        self._max_size = max_size
        self._track: rtc.RemoteVideoTrack | None = None
        self._reading: anyio.CancelScope | None = None
        self._changed = anyio.Event()
        self._has_failed = False

    def follow(self, track: rtc.RemoteVideoTrack | None) -> None:
        """Read `track` from now on, or nothing; a repeated call with the same track has no effect."""
        if track is self._track:
            return
        self._track = track
        if track is None:
            self._on_stopped()
        if self._reading is not None:
            self._reading.cancel()
        self._changed.set()

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            self._changed = anyio.Event()
            track = self._track
            if track is None:
                await self._changed.wait()
            elif await self._read(track) and self._track is track:  # the publisher has gone, or publishes again
                self._track = None
                self._on_stopped()

    async def _read(self, track: rtc.RemoteVideoTrack) -> bool:
        """Read until cancelled by another track; return whether the track ended by itself."""
        stream = rtc.VideoStream(track, capacity=1)
        try:
            with anyio.CancelScope() as self._reading:
                async for event in stream:
                    if min(event.frame.width, event.frame.height) >= MIN_SIZE and self._wanted():
                        await self._show(event)
            return not self._reading.cancelled_caught
        finally:
            self._reading = None
            with anyio.move_on_after(CLOSE_LIMIT, shield=True) as limit:
                await stream.aclose()
            if limit.cancelled_caught:
                logger.warning("a video stream did not close within %s s and was left behind", CLOSE_LIMIT)

    async def _show(self, event: rtc.VideoFrameEvent) -> None:
        rotation = cast(int, event.rotation)  # the SDK's annotation names the enumeration
        try:
            with anyio.fail_after(ENCODE_LIMIT):
                picture, thumbnail = await anyio.to_thread.run_sync(
                    encode, event.frame, self._max_size, rotation, abandon_on_cancel=True
                )
        except (OSError, ValueError, TimeoutError) as error:  # this picture is lost; the next may succeed
            if not self._has_failed:
                self._has_failed = True
                logger.warning("a picture could not be encoded and was dropped: %s", located(error))
            return
        if self._track is not None:  # it may have ended meanwhile
            self._on_frame(picture, thumbnail)

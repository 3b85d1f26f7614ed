"""VideoReader: reads pictures of the linked participant's video, few and small, and encodes them off the event loop."""

from __future__ import annotations

import io
import logging
from collections.abc import Callable

import anyio
import anyio.to_thread
from livekit import rtc

from vivavoce.pipelines.core.errors import ConfigurationError, located
from vivavoce.pipelines.media.frame import VideoFrame

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 2.0
ENCODE_LIMIT = 2.0
"""Seconds for one picture; one that takes longer is dropped."""
JPEG_QUALITY = 80


def find_video(participant: rtc.RemoteParticipant) -> rtc.RemoteTrackPublication | None:
    """Return the video to read: a shared screen, else a camera, else video of no named source; none that is muted."""
    shown = [
        each
        for each in participant.track_publications.values()
        if each.kind == rtc.TrackKind.KIND_VIDEO and not each.muted
    ]
    sources = (rtc.TrackSource.SOURCE_SCREENSHARE, rtc.TrackSource.SOURCE_CAMERA, rtc.TrackSource.SOURCE_UNKNOWN)
    for source in sources:
        for publication in reversed(shown):  # the newest of a source
            if publication.source == source:
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


def encode(frame: rtc.VideoFrame, max_size: int) -> VideoFrame:
    """Return the picture as JPEG, its longer side at most `max_size` pixels.

    Raises:
        ValueError: The SDK cannot convert its format.
        OSError: Pillow cannot encode it.
    """
    from PIL import Image

    raw = frame
    if frame.type != rtc.VideoBufferType.RGBA:
        try:
            raw = frame.convert(rtc.VideoBufferType.RGBA)
        except Exception as error:  # noqa: BLE001 - the SDK raises nothing finer
            raise ValueError(f"a picture of type {frame.type} cannot be converted: {error}") from error
    image = Image.frombytes("RGBA", (raw.width, raw.height), bytes(raw.data)).convert("RGB")
    image.thumbnail((max_size, max_size))
    written = io.BytesIO()
    image.save(written, "JPEG", quality=JPEG_QUALITY)
    return VideoFrame(written.getvalue(), "image/jpeg", image.width, image.height)


class VideoReader:
    """Reads one track at a time. Only the newest picture is kept, and unwanted ones are not encoded.

    Args:
        wanted: Called for each picture: whether to encode it.
        on_frame: Called with each encoded picture, as JPEG.
        max_size: Pixels of the longer side.
    """

    def __init__(self, wanted: Callable[[], bool], on_frame: Callable[[VideoFrame], None], *, max_size: int) -> None:
        self._wanted = wanted
        self._on_frame = on_frame
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

    async def _read(self, track: rtc.RemoteVideoTrack) -> bool:
        """Read until cancelled by another track; return whether the track ended by itself."""
        stream = rtc.VideoStream(track, capacity=1)
        try:
            with anyio.CancelScope() as self._reading:
                async for event in stream:
                    if self._wanted():
                        await self._show(event.frame)
            return not self._reading.cancelled_caught
        finally:
            self._reading = None
            with anyio.move_on_after(CLOSE_LIMIT, shield=True) as limit:
                await stream.aclose()
            if limit.cancelled_caught:
                logger.warning("a video stream did not close within %s s and was left behind", CLOSE_LIMIT)

    async def _show(self, frame: rtc.VideoFrame) -> None:
        try:
            with anyio.fail_after(ENCODE_LIMIT):
                picture = await anyio.to_thread.run_sync(encode, frame, self._max_size, abandon_on_cancel=True)
        except (OSError, ValueError, TimeoutError) as error:  # this picture is lost; the next may succeed
            if not self._has_failed:
                self._has_failed = True
                logger.warning("a picture could not be encoded and was dropped: %s", located(error))
            return
        self._on_frame(picture)

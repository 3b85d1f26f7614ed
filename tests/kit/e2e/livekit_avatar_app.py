"""An avatar written with livekit-agents' own avatar classes, run by that package's own Python; nothing of Vivavoce.

Its face is a grey picture, white while it speaks. Environment: LIVEKIT_URL, AVATAR_TOKEN. It prints a line of JSON for
each thing that happens to it.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from typing import Any

from livekit import rtc
from livekit.agents.voice.avatar import (
    AudioSegmentEnd,
    AvatarOptions,
    AvatarRunner,
    DataStreamAudioReceiver,
    VideoGenerator,
)

WIDTH, HEIGHT, FPS = 160, 120, 10
RATE = 24000


def report(what: str, **facts: Any) -> None:
    print(json.dumps({"what": what, "at": time.monotonic(), **facts}), flush=True)


class Face(VideoGenerator):  # type: ignore[misc]  # its package is not in our environment
    """Shows a picture with each 100 ms of audio, and while there is none."""

    def __init__(self) -> None:
        self._audio: asyncio.Queue[Any] = asyncio.Queue()

    async def push_audio(self, frame: Any) -> None:
        await self._audio.put(frame)

    def clear_buffer(self) -> None:
        report("cleared", waiting=self._audio.qsize())
        while not self._audio.empty():
            self._audio.get_nowait()

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._frames()

    async def _frames(self) -> AsyncIterator[Any]:
        idle, speaking = picture(80), picture(250)
        while True:
            try:
                frame = await asyncio.wait_for(self._audio.get(), 0.5 / FPS)
            except TimeoutError:
                yield idle
                await asyncio.sleep(0)
                continue
            if isinstance(frame, AudioSegmentEnd):
                yield frame
                continue
            yield speaking
            yield frame


def picture(grey: int) -> rtc.VideoFrame:
    return rtc.VideoFrame(WIDTH, HEIGHT, rtc.VideoBufferType.RGBA, bytearray((grey, grey, grey, 255) * WIDTH * HEIGHT))


async def main() -> None:
    room = rtc.Room()
    gone = asyncio.Event()
    room.on("disconnected", lambda _: gone.set())
    await room.connect(os.environ["LIVEKIT_URL"], os.environ["AVATAR_TOKEN"])
    receiver = DataStreamAudioReceiver(room)
    options = AvatarOptions(
        video_width=WIDTH, video_height=HEIGHT, video_fps=FPS, audio_sample_rate=RATE, audio_channels=1
    )
    runner = AvatarRunner(room, audio_recv=receiver, video_gen=Face(), options=options)
    finished = receiver.notify_playback_finished

    def notify(playback_position: float, interrupted: bool) -> None:
        report("finished", position=playback_position, interrupted=interrupted)
        finished(playback_position, interrupted)

    receiver.notify_playback_finished = notify
    report("joined")
    await runner.start()
    report("started")
    await gone.wait()
    await runner.aclose()


if __name__ == "__main__":
    asyncio.run(main())

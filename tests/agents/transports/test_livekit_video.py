"""VideoReader: reads one track of the SDK after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from livekit import rtc

from vivavoce.agents.transports.livekit.video import VideoReader
from vivavoce.pipelines.testing import run_virtual


class EndedStream:
    """The stream of a track whose end comes while the reader is at work on a picture."""

    def __init__(self, track: object, capacity: int) -> None:
        pass

    async def __aiter__(self) -> AsyncIterator[Any]:
        await anyio.sleep(1.0)
        return
        yield

    async def aclose(self) -> None:
        """Nothing is open."""


def test_a_track_that_ends_before_the_room_says_so_is_not_shown_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its last picture would go with every turn of the caller for the rest of the call."""
    monkeypatch.setattr(rtc, "VideoStream", EndedStream)
    stopped: list[float] = []

    async def main() -> None:
        reader = VideoReader(lambda: True, lambda *_: None, lambda: stopped.append(anyio.current_time()), max_size=64)
        async with anyio.create_task_group() as group:
            group.start_soon(reader.run)
            began_at = anyio.current_time()
            reader.follow(object())  # type: ignore[arg-type]  # the stream above takes any
            await anyio.sleep(2.0)
            reader.follow(None)
            assert stopped == [began_at + 1.0]
            group.cancel_scope.cancel()

    run_virtual(main())

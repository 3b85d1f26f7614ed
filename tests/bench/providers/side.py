"""What both sides of the measurement do: load, pace, and the report. Imports nothing of vivavoce or of livekit."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from array import array
from collections.abc import Awaitable, Callable

RATE = 16_000
FRAME = 0.02
"""Seconds of each frame of audio."""

STREAMS, STREAM_SECONDS = 8, 20.0
"""Calls that listen side by side, and how long."""

ANSWERS, SPEECHES, SIDE_BY_SIDE = 120, 60, 4
WARM = 4
"""Answers and speeches before the measurement."""

Seen = dict[int, float]
"""Number of a message -> the monotonic time at which the application had it."""

TEXT = ("Good morning, this is the table ", "service. For how many people ", "shall I reserve?")


async def paced(push: Callable[[bytes], None], seconds: float) -> None:
    """Push silence as a call does."""
    frame = bytes(round(FRAME * RATE) * 2)
    begin = time.monotonic()
    for number in range(round(seconds / FRAME)):
        await asyncio.sleep(max(0.0, begin + number * FRAME - time.monotonic()))
        push(frame)


def see_samples(seen: Seen, data: bytes | memoryview) -> None:
    """Note the numbers that a piece of audio carries."""
    now = time.monotonic()
    for number in set(array("H", bytes(data))):
        seen.setdefault(number, now)


async def several(one: Callable[[], Awaitable[None]], count: int) -> None:
    """Do it this often, `SIDE_BY_SIDE` at a time."""
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            await one()

    await asyncio.gather(*(worker() for _ in range(SIDE_BY_SIDE)))


async def measured(load: Awaitable[None], seen: Seen) -> dict[str, object]:
    """Return what the application saw under this load, and the CPU that it took; seconds."""
    seen.clear()
    before = time.process_time()
    await load
    return {"seen": dict(seen), "cpu": time.process_time() - before}


def report(main: Callable[[str], Awaitable[dict[str, object]]]) -> None:
    """Run one side against the server that the command line names, and print what it saw as a line of JSON."""
    print(json.dumps(asyncio.run(main(sys.argv[1]))))  # type: ignore[arg-type]

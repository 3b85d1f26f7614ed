"""Processes that share a session's streams.

Run as `python stream_process.py <role> <sqlite file or Redis URL> <prefix> <session> [<argument>]`.

`writer` writes so many numbers to the stream `numbers`, five at a time side by side, and closes it.
`reader` prints "ready", then each item of the streams with a tag as JSON, until the session ends.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.store_writer import opened  # noqa: E402 - the path comes first
from vivavoce.agents.memory import SessionMemory  # noqa: E402 - as above

AT_ONCE = 5


async def writer(memory: SessionMemory, count: str) -> None:
    """Write numbers."""
    stream = await memory.open_stream("numbers", tags=["numbers"])
    for first in range(0, int(count), AT_ONCE):
        await asyncio.gather(*(stream.write(number) for number in range(first, first + AT_ONCE)))
    await stream.close()


async def reader(memory: SessionMemory, tag: str) -> None:
    """Print items."""
    print(json.dumps("ready"), flush=True)
    async for stream, item in memory.subscribe([tag]):
        if not item.is_end:
            print(json.dumps([stream.name, item.value]), flush=True)


async def main(role: str, where: str, prefix: str, session_id: str, argument: str) -> None:
    """Play a role."""
    store = opened(where, prefix)
    async with SessionMemory.attach(store, session_id, timeout=10.0) as memory:
        await {"writer": writer, "reader": reader}[role](memory, argument)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

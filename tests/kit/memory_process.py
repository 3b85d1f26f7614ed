"""A process that runs a session with the id `call`, prints its snapshot, and goes on until it is killed.

Run as `python memory_process.py <sqlite file or Redis URL> <prefix>`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.memory import session_with, started  # noqa: E402 - the path comes first
from kit.store_writer import opened  # noqa: E402 - as above
from vivavoce.agents import MemoryOptions  # noqa: E402 - as above
from vivavoce.pipelines.core.clock import LoopClock  # noqa: E402 - as above


async def main(where: str, prefix: str) -> None:
    """Run a session."""
    session = session_with(MemoryOptions(store=opened(where, prefix)), clock=LoopClock())
    await started(session, clock=LoopClock())
    await session.memory.data.set("order", {"size": 2})
    session.memory.private.set("visits", 3)
    print(json.dumps(session.snapshot()), flush=True)
    await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

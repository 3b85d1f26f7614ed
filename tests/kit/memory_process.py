"""Processes that share a session's memory.

Run as `python memory_process.py <role> <sqlite file or Redis URL> <prefix>`.

`helper` attaches itself to the session `call`, answers its value `question`, asks it to close and waits for its end.
`caller` runs a session with that id, prints its snapshot, and goes on until it is killed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.memory import session_with, started  # noqa: E402 - the path comes first
from vivavoce.agents import MemoryOptions, RedisStore, SessionMemory, SqliteStore  # noqa: E402 - as above
from vivavoce.agents.memory.stores.store import SessionStore  # noqa: E402 - as above
from vivavoce.pipelines.core.clock import LoopClock  # noqa: E402 - as above


def opened(where: str, prefix: str) -> SessionStore:
    """Return the store at a place."""
    return RedisStore(where, prefix) if "://" in where else SqliteStore(where)


async def helper(store: SessionStore) -> None:
    """Answer the question of the session and ask it to close."""
    async with SessionMemory.attach(store, "call") as memory:
        question = await memory.data.get("question")
        await memory.agent_data("desk").set("answer", question * 2)
        await memory.stop()
        print(json.dumps(await memory.wait(timeout=10.0)), flush=True)


async def caller(store: SessionStore) -> None:
    """Run a session until the process is killed."""
    session = session_with(MemoryOptions(store=store), clock=LoopClock())
    await started(session, clock=LoopClock())
    await session.memory.data.set("order", {"size": 2})
    session.memory.private.set("visits", 3)
    print(json.dumps(session.snapshot()), flush=True)
    await anyio.sleep_forever()


async def main(role: str, where: str, prefix: str) -> None:
    """Play a role."""
    store = opened(where, prefix)
    await {"helper": helper, "caller": caller}[role](store)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

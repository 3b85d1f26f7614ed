"""A process that appends to a list of a shared session store, and prints how many appends were acknowledged.

Run as `python store_writer.py <sqlite file or Redis URL> <prefix> <first> <count>`.
"""

from __future__ import annotations

import asyncio
import sys

from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.store import Place, SessionStore

AT_ONCE = 20
LIMIT = 60.0
"""Seconds for one call; they only guard against a store that hangs."""


def opened(where: str, prefix: str) -> SessionStore:
    """Return the store at a place."""
    if "://" in where:
        from vivavoce.agents.memory.stores.redis import RedisStore

        return RedisStore(where, prefix, timeout=LIMIT)
    from vivavoce.agents.memory.stores.sqlite import SqliteStore

    return SqliteStore(where, timeout=LIMIT)


async def append(store: SessionStore, first: int, count: int, *, at_once: int, shows: bool = False) -> None:
    """Append the numbers from `first` on."""
    data = Namespace(store, Place("session_1", "data"), timeout=LIMIT)
    for number in range(first, first + count, at_once):
        await asyncio.gather(*(data.append("list", one) for one in range(number, number + at_once)))
        if shows:
            print(number + at_once - first, flush=True)


async def main(where: str, prefix: str, first: int, count: int) -> None:
    """Append until it is killed or done."""
    store = opened(where, prefix)
    await append(store, first, count, at_once=AT_ONCE, shows=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

"""A process that appends to a list of a shared session store, and prints how many appends were acknowledged.

Run as `python store_writer.py <sqlite file or Redis URL> <prefix> <first> <count>`.
"""

from __future__ import annotations

import asyncio
import sys

from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Place, SessionStore

AT_ONCE = 20


async def main(where: str, prefix: str, first: int, count: int) -> None:
    """Append the numbers from `first` on."""
    store: SessionStore = RedisStore(where, prefix) if "://" in where else SqliteStore(where)
    data = Namespace(store, Place("session_1", "data"), timeout=60.0)
    for number in range(first, first + count, AT_ONCE):
        await asyncio.gather(*(data.append("list", one) for one in range(number, number + AT_ONCE)))
        print(number + AT_ONCE - first, flush=True)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))

"""The cost of a session's memory against its store itself: Redis commands, and SQLite commits, in one run by hand.

    python tests/bench/store_cost.py

Redis: `memory.data.set` against `HSET`, `Stream.write` against `XADD` (both with the value as JSON), with the same
client library and server. The calls take turns, one of each, so that all meet the same load; the times are the 5th
percentiles, which other work on the machine changes least, and the medians. SQLite: 20 sessions that write to their
streams, one call after the other each, against one thread that commits each record; the fastest of 15.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from redis.asyncio import Redis  # noqa: E402 - the path comes first

from kit.servers.redis_server import running_redis_server  # noqa: E402 - as above
from vivavoce.agents.memory import RedisStore, SqliteStore  # noqa: E402 - as above
from vivavoce.agents.memory.base import MemoryBase  # noqa: E402 - as above
from vivavoce.agents.memory.stores.store import SessionStore  # noqa: E402 - as above
from vivavoce.agents.memory.streams.streams import Streams  # noqa: E402 - as above
from vivavoce.pipelines.core.clock import LoopClock  # noqa: E402 - as above

VALUE = {"text": "a table for two at seven, please", "turn": 7}
CALLS = 3_000
SESSIONS, RECORDS = 20, 200

Call = Callable[[int], Awaitable[object]]


def base_of(store: SessionStore, session_id: str) -> MemoryBase:
    base = MemoryBase(store, timeout=30.0, clock=LoopClock())
    base.open(session_id)
    return base


async def in_redis() -> None:
    """Compare calls to Redis."""
    with running_redis_server() as server:
        raw, store = Redis.from_url(server.url), RedisStore(server.url)
        base = base_of(store, "call")
        data, stream = base.namespace("data"), await Streams(base, lambda: "").open("words", [])
        calls: dict[str, Call] = {
            "HSET": lambda number: raw.hset("raw", f"key{number}", json.dumps(VALUE)),
            "set": lambda number: data.set(f"key{number}", VALUE),
            "XADD": lambda number: raw.xadd("stream", {"t": json.dumps(VALUE)}),
            "write": lambda number: stream.write(VALUE),
        }
        times: dict[str, list[float]] = {name: [] for name in calls}
        for number in range(CALLS):
            for name, call in calls.items():
                began = time.perf_counter()
                await call(number)
                times[name].append(time.perf_counter() - began)
        await raw.aclose()
        await store.aclose()
    for ours, theirs in (("set", "HSET"), ("write", "XADD")):
        for name, rank in (("5th percentile", 0), ("median", 9)):
            mine, other = (statistics.quantiles(times[each], n=20)[rank] for each in (ours, theirs))
            micros = f"{name}: {mine * 1e6:.0f} µs / {other * 1e6:.0f} µs"
            print(f"Redis {ours} / {theirs}: {mine / other:.2f} ({micros}; at most 1.5)")


def one_thread(path: Path) -> float:
    """Return the seconds of one thread that commits each record."""
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE records (session TEXT, log TEXT, number INTEGER, text TEXT)")
    began = time.perf_counter()
    for number in range(SESSIONS * RECORDS):
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO records VALUES (?, ?, ?, ?)", ("call", "words", number, json.dumps(VALUE)))
        database.execute("COMMIT")
    seconds = time.perf_counter() - began
    database.close()
    return seconds


async def sessions(path: Path) -> float:
    """Return the seconds of the sessions."""
    store = SqliteStore(path)
    streams = [await Streams(base_of(store, f"call_{one}"), lambda: "").open("words", []) for one in range(SESSIONS)]

    async def write(one: int) -> None:
        for _ in range(RECORDS):
            await streams[one].write(VALUE)

    began = time.perf_counter()
    async with asyncio.TaskGroup() as tasks:
        for one in range(SESSIONS):
            tasks.create_task(write(one))
    seconds = time.perf_counter() - began
    await store.aclose()
    return seconds


async def in_sqlite() -> None:
    """Compare sessions with a thread."""
    with tempfile.TemporaryDirectory() as folder:
        pairs = [
            (await sessions(Path(folder, f"store{turn}.db")), one_thread(Path(folder, f"raw{turn}.db")))
            for turn in range(15)
        ]
    ours, theirs = (min(each) for each in zip(*pairs, strict=True))
    print(
        f"SQLite, {SESSIONS} sessions / one thread, {SESSIONS * RECORDS} records: {ours / theirs:.2f} "
        f"({ours:.2f} s / {theirs:.2f} s; at most 2)"
    )


if __name__ == "__main__":
    asyncio.run(in_redis())
    asyncio.run(in_sqlite())

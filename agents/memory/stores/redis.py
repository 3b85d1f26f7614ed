"""RedisStore: session state in Redis (6.2 or newer, no modules), which processes of several machines share."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import anyio

from vivavoce.agents.memory.stores.store import (
    METADATA,
    Change,
    Place,
    Record,
    SessionStore,
    SessionSummary,
    decoded,
    is_pinned,
)
from vivavoce.agents.memory.stores.values import MAX_BYTES, check_size, kind
from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError, StoreTypeError, StoreUnavailable

T = TypeVar("T")

TRIES = 200
"""Attempts to change an entry that others change at the same time."""

USED_INTERVAL = 1.0
"""Seconds between two notes that a session is used."""

WAIT_SLICE = 5.0
"""Seconds of one blocking read."""

# Texts are never empty, so that an empty argument means: there is none.
CHANGE = """
local text = redis.call('HGET', KEYS[1], ARGV[1])
if (text or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1]) else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""

# `values.appended`, where the data is: a list begins with its length.
APPEND = """
local text, joined, length = redis.call('HGET', KEYS[1], ARGV[1]), nil, 1
if not text then
    joined = '#1\\n[' .. ARGV[2] .. ']'
elseif string.sub(text, 1, 1) ~= '#' then
    return -1
else
    local at = string.find(text, '\\n', 1, true)
    length = tonumber(string.sub(text, 2, at - 1)) + 1
    local comma = length > 1 and ',' or ''
    joined = '#' .. string.format('%d', length) .. '\\n' .. string.sub(text, at + 1, -2) .. comma .. ARGV[2] .. ']'
end
if #joined > tonumber(ARGV[3]) then return -#joined end
redis.call('HSET', KEYS[1], ARGV[1], joined)
return length
"""

# The id of record n is n+1, since Redis has no record 0.
LOG = """
local last = redis.call('HINCRBY', KEYS[2], ARGV[1], #ARGV - 2)
for i = 3, #ARGV do
    local id = string.format('%d', last - #ARGV + i) .. '-0'
    redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[2], id, 't', ARGV[i])
end
return last
"""

HOLD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and ARGV[3] == '0' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
"""


class RedisStore(SessionStore):
    """Keeps sessions in Redis. It needs the extra `redis`. Use it from one event loop.

    A call is made once: after a lost connection it raises StoreUnavailable, and the next call connects again.

    Args:
        url: `redis://host:port/database`, `rediss://…` or `unix://…`; may hold a password, which nothing shows.
        prefix: Begins each key, so that programs may share a database.
        clock: Time of sessions that are erased when they are idle.
    Raises:
        ConfigurationError: The URL is malformed, or the package `redis` is missing.
    """

    def __init__(self, url: str, prefix: str = "vivavoce", *, clock: Clock | None = None) -> None:
        check_text("prefix", prefix)
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError as error:
            raise ConfigurationError("RedisStore needs the package redis; pip install 'vivavoce[redis]'") from error
        try:
            # No retries: after a lost reply, a second attempt could append twice.
            # Any: the package types its replies for two clients and all formats at once.
            self._redis: Any = Redis.from_url(url, retry=Retry(NoBackoff(), 0), socket_timeout=None)
        except ValueError as error:  # not shown: the URL may hold a password
            raise ConfigurationError(f"a Redis URL must look like redis://host:6379/0: {error}") from None
        self._prefix = prefix
        self._clock = LoopClock() if clock is None else clock
        self._scripts = [self._redis.register_script(text) for text in (CHANGE, APPEND, LOG, HOLD, RELEASE)]
        self._change, self._append, self._log, self._hold, self._release = self._scripts
        self._noted: dict[str, float] = {}
        """When it was last noted that a session is used."""

    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry; None: there is none."""
        async with self._reaching():
            return _text(await self._redis.hget(self._namespace(place), entry))

    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""
        async with self._reaching():
            found = await self._redis.hgetall(self._namespace(place))
        return {name.decode(): text.decode() for name, text in found.items()}

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if there is none. Return whether it was written."""
        async with self._reaching():
            key, calls = self._namespace(place), self._redis.pipeline(transaction=False)
            if nx:
                calls.hsetnx(key, entry, text)
            else:
                calls.hset(key, entry, text)
            self._note_use(calls, place.session_id)
            written = (await calls.execute())[0]
        return bool(written) if nx else True

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function: again with the newer text, if another call came between."""
        for _ in range(TRIES):
            before = await self.read(place, entry)
            after, result = change(before)
            if after == before:
                return result
            async with self._reaching():
                key, arguments = self._namespace(place), [entry, before or "", after or ""]
                if await self._change(keys=[key], args=arguments):
                    await self._use(place.session_id)
                    return result
            await anyio.sleep(random.random() / 1000)
        raise StoreUnavailable(f"an entry could not be changed in {TRIES} attempts: others change it all the time")

    async def append(self, place: Place, entry: str, item: str) -> int:
        """Append `item`, the JSON of a value, to the list of an entry; return the list's length."""
        async with self._reaching():
            length = int(await self._append(keys=[self._namespace(place)], args=[entry, item, MAX_BYTES]))
            await self._use(place.session_id)
        if length > 0:
            return length
        if length == -1:
            text = await self.read(place, entry)
            raise StoreTypeError(
                f"append() needs a list, the key holds {'another type' if text is None else kind(text)}; use set(), or "
                f"another key"
            )
        check_size("x" * -length)
        raise AssertionError("unreachable: the text is too long")

    async def log(self, place: Place, texts: Sequence[str], *, keep: int) -> int:
        """Append records and drop all but the newest `keep`; return the index of the next record to come."""
        async with self._reaching():
            keys = [self._key(place.session_id, "l", place.name), self._key(place.session_id, "counts")]
            following = int(await self._log(keys=keys, args=[place.name, keep, *texts]))
            await self._use(place.session_id)
        return following

    async def records(self, place: Place, start: int, limit: int) -> list[Record]:
        """Return up to `limit` records from index `start` on, or from the oldest one that is left."""
        async with self._reaching():
            key = self._key(place.session_id, "l", place.name)
            found = await self._redis.xrange(key, f"{start + 1}-0", "+", count=limit)
        return [Record(int(id.partition(b"-")[0]) - 1, fields[b"t"].decode()) for id, fields in found]

    async def wait(self, place: Place, start: int, seconds: float) -> None:
        """Return when there is a record with index `start` or higher, or after that time."""
        key, until = self._key(place.session_id, "l", place.name), self._clock.now() + seconds
        while (left := until - self._clock.now()) > 0:
            async with self._reaching():
                block = max(1, round(min(left, WAIT_SLICE) * 1000))
                if await self._redis.xread({key: f"{start}-0"}, count=1, block=block):
                    return

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        """Take or renew the lease of a session; return False if another holder has it."""
        async with self._reaching():
            lease, length = self._key(session_id, "lease"), round(seconds * 1000)
            return bool(await self._hold(keys=[lease], args=[holder, length, int(takes_over)]))

    async def release(self, session_id: str, holder: str) -> None:
        """Give the lease up, if this holder has it."""
        async with self._reaching():
            await self._release(keys=[self._key(session_id, "lease")], args=[holder])

    async def keep(self, session_id: str, seconds: float | None) -> None:
        """Have the session erased once it is idle for so long, unless it is pinned or held; None: never."""
        async with self._reaching():
            calls = self._redis.pipeline(transaction=False)
            if seconds is None:
                calls.hdel(f"{self._prefix}:keep", session_id)
            else:
                calls.hset(f"{self._prefix}:keep", session_id, repr(seconds))
            self._note_use(calls, session_id)
            await calls.execute()

    async def sweep(self) -> list[str]:
        """Erase the sessions whose time is over; return their ids."""
        now, over = self._clock.wall(), []
        async with self._reaching():
            limits = await self._redis.hgetall(f"{self._prefix}:keep")
            used = dict(await self._redis.zrange(f"{self._prefix}:sessions", 0, -1, withscores=True))
        for name, seconds in limits.items():
            session_id = name.decode()
            if now - used.get(name, now) <= float(seconds):
                continue
            async with self._reaching():
                is_held = await self._redis.exists(self._key(session_id, "lease"))
            if not is_held and not is_pinned(await self.read_all(Place(session_id, METADATA))):
                await self.delete(session_id)
                over.append(session_id)
        return over

    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, those written last first."""
        async with self._reaching():
            used = await self._redis.zrange(f"{self._prefix}:sessions", 0, -1, desc=True, withscores=True)
        return [
            SessionSummary(
                id=name.decode(),
                metadata=decoded(await self.read_all(Place(name.decode(), METADATA))),
                used_at=used_at,
            )
            for name, used_at in used
        ]

    async def delete(self, session_id: str) -> bool:
        """Erase a session; return whether there was one."""
        self._noted.pop(session_id, None)
        async with self._reaching():
            async for key in self._redis.scan_iter(match=f"{_literal(self._key(session_id))}:*", count=1000):
                await self._redis.unlink(key)
            await self._redis.hdel(f"{self._prefix}:keep", session_id)
            return bool(await self._redis.zrem(f"{self._prefix}:sessions", session_id))

    async def aclose(self) -> None:
        """Close the connections; a later call connects again."""
        await self._redis.aclose()

    def _namespace(self, place: Place) -> str:
        return self._key(place.session_id, "n", place.name)

    def _key(self, session_id: str, *names: str) -> str:
        return ":".join([self._prefix, "s", *(quote(name, safe="") for name in (session_id, *names))])

    async def _use(self, session_id: str) -> None:
        calls = self._redis.pipeline(transaction=False)
        self._note_use(calls, session_id)
        if len(calls):
            await calls.execute()

    def _note_use(self, calls: Any, session_id: str) -> None:
        now = self._clock.wall()
        if now - self._noted.get(session_id, float("-inf")) >= USED_INTERVAL:
            self._noted[session_id] = now
            calls.zadd(f"{self._prefix}:sessions", {session_id: now})

    @asynccontextmanager
    async def _reaching(self) -> AsyncIterator[None]:
        """Raise Redis' errors as ours; their texts hold no password."""
        from redis.exceptions import BusyLoadingError, ConnectionError, RedisError, TimeoutError

        try:
            yield
        except (ConnectionError, TimeoutError, BusyLoadingError, OSError) as error:
            raise StoreUnavailable(f"Redis could not be reached: {error}") from error
        except RedisError as error:
            raise StoreError(f"Redis refused a call: {error}") from error


def _text(found: bytes | str | None) -> str | None:
    return found.decode() if isinstance(found, bytes) else found


def _literal(text: str) -> str:
    """Escape what a pattern of Redis gives a meaning."""
    return "".join(f"\\{sign}" if sign in "*?[]^\\" else sign for sign in text)

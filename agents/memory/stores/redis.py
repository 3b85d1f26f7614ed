"""RedisStore: session state in Redis (6.2 or newer, no modules), which processes of several machines share."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import quote

import anyio

from vivavoce.agents.core.values import HALF_PAIR, MAX_BYTES, check_size, kind
from vivavoce.agents.memory.stores.limit import CALL_LIMIT
from vivavoce.agents.memory.stores.redis_version import RedisVersion, knows_no_hello, too_old
from vivavoce.agents.memory.stores.store import (
    CALLS,
    KEEP,
    METADATA,
    SWEPT,
    Change,
    LogState,
    Place,
    Record,
    SessionStore,
    SessionSummary,
)
from vivavoce.pipelines.core.checks import check_number, check_text
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    StoreError,
    StoreTypeError,
    StoreUnavailable,
    StoreValueError,
)

T = TypeVar("T")

TRIES = 200
"""The most attempts to change an entry that others change at the same time."""

USED_INTERVAL = 1.0
"""Seconds between two notes that a session is used."""

MAX_NOTED = 10_000
"""The most keys with such a note in memory; beyond that the old notes are dropped."""

PAGE = 100
"""Sessions that one step of a sweep looks at, or that one call reads."""

NEVER = "never"
"""Stands for the time when a session is erased that is never to be erased."""

# Texts are never empty, so that an empty argument means "none".
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

# The id of record n is n+1, since Redis has no record 0. The log's key names it in the hashes of all logs.
LOG = """
if redis.call('HEXISTS', KEYS[3], KEYS[1]) == 1 then return -1 end
local last = redis.call('HINCRBY', KEYS[2], KEYS[1], #ARGV - 2)
for i = 3, #ARGV do
    local id = string.format('%d', last - #ARGV + i) .. '-0'
    redis.call('XADD', KEYS[1], 'MAXLEN', ARGV[1], id, 't', ARGV[i])
end
if ARGV[2] ~= '' then redis.call('HSET', KEYS[3], KEYS[1], ARGV[2]) end
return last
"""

REOPEN = """
local closed = redis.call('HGETALL', KEYS[1])
for i = 1, #closed, 2 do
    if closed[i + 1] == ARGV[1] then redis.call('HDEL', KEYS[1], closed[i]) end
end
return 0
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

# With ARGV[2], a time of last use, only if that is still the last one, and no holder has the session.
ERASE = """
local used = redis.call('ZSCORE', KEYS[6], ARGV[1])
if ARGV[2] ~= '' and ((used and tonumber(used)) ~= tonumber(ARGV[2]) or redis.call('EXISTS', KEYS[2]) == 1) then
    return 0
end
for _, key in ipairs(redis.call('SMEMBERS', KEYS[1])) do redis.call('UNLINK', key) end
redis.call('UNLINK', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
redis.call('HDEL', KEYS[5], ARGV[1])
redis.call('ZREM', KEYS[7], ARGV[1])
return redis.call('ZREM', KEYS[6], ARGV[1])
"""

UNABLE = ("OutOfMemoryError", "ReadOnlyError", "MasterDownError", "OOM", "READONLY", "MASTERDOWN", "MISCONF")
"""Errors that pass: memory or disk are full, or the server is a replica now."""


class RedisStore(SessionStore):
    """Keeps sessions in Redis. It needs the extra `redis`. Use it from one event loop.

    A command is sent once: after a lost connection the call raises StoreUnavailable, and the next call connects again.
    A connection that was closed while it was idle is replaced before that.

    Args:
        url: `redis://host:port/database`, `rediss://…` or `unix://…`; may hold a password, which is never shown.
        prefix: Begins each key, so that programs may share a database.
        clock: Time of sessions that are erased when they are idle.
        timeout: Seconds for one call to Redis; calls of a session end earlier, by `MemoryOptions.timeout`.
    Raises:
        ConfigurationError: The URL is malformed, or the package `redis` is missing.

    With a server older than 6.2, each call raises StoreError. With a wrong password it raises ConfigurationError until
    the server has taken the password once; then a refusal is an outage, StoreUnavailable.
    """

    def __init__(
        self, url: str, prefix: str = "vivavoce", *, clock: Clock | None = None, timeout: float = CALL_LIMIT
    ) -> None:
        check_text("prefix", prefix)
        check_number("timeout", timeout, above=0, unit="s")
        try:
            from redis.asyncio import Redis
            from redis.exceptions import (
                AuthenticationError,
                BusyLoadingError,
                ConnectionError,
                RedisError,
                TimeoutError,
            )

            from vivavoce.agents.memory.stores.redis_pool import pool_of
        except ImportError as error:
            raise ConfigurationError("RedisStore needs the package redis; pip install 'vivavoce[redis]'") from error
        self._clock = LoopClock() if clock is None else clock
        self._version = RedisVersion(RedisError, AuthenticationError)
        try:
            pool = pool_of(url, self._clock, self._version)
        except ValueError:  # not shown: its text may hold the password
            raise ConfigurationError(
                "a Redis URL must look like redis://host:6379/0, with a password as redis://:password@host:6379/0, "
                "in which other characters than letters and digits are percent-encoded"
            ) from None
        # Any: the package types its replies for two clients and all formats at once.
        self._redis: Any = Redis.from_pool(pool)
        self._place = pool.place
        self._denied = AuthenticationError
        self._lost = (ConnectionError, TimeoutError, BusyLoadingError, OSError)
        self._refused = RedisError
        self._url, self._prefix, self._timeout = url, prefix, timeout
        scripts = [self._redis.register_script(text) for text in (CHANGE, APPEND, LOG, REOPEN, HOLD, RELEASE, ERASE)]
        self._change, self._append, self._log, self._reopen, self._hold, self._release, self._erase = scripts
        self._noted: dict[str, float] = {}
        """The time of the last note that a key, and its session, is used."""

    def __reduce__(self) -> tuple[Callable[..., RedisStore], tuple[str, str]]:
        """Make the same store in another process, with connections of its own."""
        return (partial(RedisStore, timeout=self._timeout), (self._url, self._prefix))

    async def read(self, place: Place, entry: str) -> str | None:
        """Return the text of an entry, or None without one."""
        async with self._reaching():
            return _text(await self._redis.hget(self._namespace(place), entry))

    async def read_all(self, place: Place) -> dict[str, str]:
        """Return the texts of all entries, by name."""
        async with self._reaching():
            return _texts(await self._redis.hgetall(self._namespace(place)))

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        """Set the text of an entry; with `nx` only if it does not exist. Return whether it was written."""
        async with self._reaching():
            key = self._namespace(place)
            await self._use(place.session_id, key)
            written = await (self._redis.hsetnx(key, entry, text) if nx else self._redis.hset(key, entry, text))
        return bool(written) if nx else True

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        """Set the texts of these entries, by name, in one command."""
        if texts:
            async with self._reaching():
                await self._use(place.session_id, key := self._namespace(place))
                await self._redis.hset(key, mapping=dict(texts))

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        """Change an entry by a function, and again with the newer text if another call came between."""
        for _ in range(TRIES):
            before = await self.read(place, entry)
            after, result = change(before)
            if after == before:
                return result
            async with self._reaching():
                key, arguments = self._namespace(place), [entry, before or "", after or ""]
                await self._use(place.session_id, key)
                if await self._change(keys=[key], args=arguments):
                    return result
            await anyio.sleep(random.random() / 1000)
        raise StoreUnavailable(f"an entry could not be changed in {TRIES} attempts: others change it all the time")

    async def append(self, place: Place, entry: str, item: str) -> int:
        """Append `item`, the JSON of a value, to the list of an entry; return the list's length."""
        async with self._reaching():
            key = self._namespace(place)
            await self._use(place.session_id, key)
            length = int(await self._append(keys=[key], args=[entry, item, MAX_BYTES]))
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

    async def log(self, place: Place, texts: Sequence[str], *, keep: int, closes: str = "") -> int | None:
        """Append records and drop all but the newest `keep`; return the index of the next record to come."""
        async with self._reaching():
            keys = [self._log_key(place), *self._log_facts(place.session_id)]
            await self._use(place.session_id, keys[0])
            following = int(await self._log(keys=keys, args=[keep, closes, *texts]))
        return following if following >= 0 else None

    async def log_state(self, place: Place) -> LogState:
        """Return the state of a log."""
        async with self._reaching():
            calls = self._redis.pipeline(transaction=True)
            for key in self._log_facts(place.session_id):
                calls.hget(key, self._log_key(place))
            next_index, closed_by = await calls.execute()
        return LogState(int(next_index or 0), _text(closed_by) or "")

    async def reopen(self, session_id: str, closed_by: str) -> None:
        """Open the logs of a session again that were closed for that reason."""
        async with self._reaching():
            await self._reopen(keys=[self._key(session_id, "closed")], args=[closed_by])

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        """Return the next records of logs as soon as there are any, or none after that time."""
        places = {self._log_key(place): place for place in starts}
        after = {key: f"{starts[place]}-0" for key, place in places.items()}
        block = max(1, round(seconds * 1000)) if seconds > 0 else None
        async with self._reaching(seconds):
            found = await self._redis.xread(after, count=limit, block=block)
        return {places[key.decode()]: [_record(*entry) for entry in entries] for key, entries in found or ()}

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        """Take or renew the lease of a session; return False if another holder has it."""
        async with self._reaching():
            lease, length = self._key(session_id, "lease"), round(seconds * 1000)
            return bool(await self._hold(keys=[lease], args=[holder, length, int(takes_over)]))

    async def release(self, session_id: str, holder: str) -> None:
        """Give the lease up, if this holder has it."""
        async with self._reaching():
            await self._release(keys=[self._key(session_id, "lease")], args=[holder])

    async def is_held(self, session_id: str) -> bool:
        """Return whether a holder has the lease of a session."""
        async with self._reaching():
            return bool(await self._redis.exists(self._key(session_id, "lease")))

    async def keep(self, session_id: str, seconds: float | None) -> None:
        """Have the session erased after so many idle seconds, unless it is pinned or held; None for never."""
        async with self._reaching():
            calls, now = self._redis.pipeline(transaction=False), self._clock.wall()
            calls.hset(f"{self._prefix}:keep", session_id, NEVER if seconds is None else repr(seconds))
            if seconds is None:
                calls.zrem(f"{self._prefix}:due", session_id)
            else:
                calls.zadd(f"{self._prefix}:due", {session_id: now + seconds})
            calls.zadd(f"{self._prefix}:sessions", {session_id: now})
            await calls.execute()

    async def sweep(self, limit: int = SWEPT) -> list[str]:
        """Erase up to `limit` sessions whose time is over; return their ids. Each is looked at when its time comes."""
        over: list[str] = []
        while True:
            now = self._clock.wall()
            async with self._reaching():
                due = await self._redis.zrangebyscore(f"{self._prefix}:due", "-inf", f"({now!r}", start=0, num=PAGE)
            for name in due:
                if len(over) == limit:
                    return over
                if await self._was_erased(name.decode(), now):
                    over.append(name.decode())
            if len(due) < PAGE:
                return over

    async def _was_erased(self, session_id: str, now: float) -> bool:
        """Erase a session if its time is over; if not, note when to look again."""
        async with self._reaching():
            kept = _text(await self._redis.hget(f"{self._prefix}:keep", session_id))
            used_at = await self._redis.zscore(f"{self._prefix}:sessions", session_id)
        if used_at is None:
            return await self._forget(session_id)
        if kept == NEVER or session_id == CALLS:
            async with self._reaching():
                await self._redis.zrem(f"{self._prefix}:due", session_id)
            return False
        seconds = KEEP if kept is None else float(kept)
        over_at = used_at + seconds
        if over_at < now and (await self.is_held(session_id) or await self._is_pinned(session_id)):
            over_at = now + max(seconds, USED_INTERVAL)
        if over_at < now:
            return await self._forget(session_id, used_at)
        async with self._reaching():
            await self._redis.zadd(f"{self._prefix}:due", {session_id: over_at})
        return False

    async def _is_pinned(self, session_id: str) -> bool:
        return SessionSummary.of(session_id, await self.read_all(Place(session_id, METADATA)), 0.0).is_pinned

    async def summaries(self) -> list[SessionSummary]:
        """Return all sessions, the one written last first."""
        async with self._reaching():
            used = await self._redis.zrange(f"{self._prefix}:sessions", 0, -1, desc=True, withscores=True)
        found: list[SessionSummary] = []
        for start in range(0, len(used), PAGE):
            page = [(name.decode(), used_at) for name, used_at in used[start : start + PAGE]]
            async with self._reaching():
                calls = self._redis.pipeline(transaction=False)
                for session_id, _ in page:
                    calls.hgetall(self._namespace(Place(session_id, METADATA)))
                metadata = await calls.execute()
            found += [
                SessionSummary.of(session_id, _texts(entries), used_at)
                for (session_id, used_at), entries in zip(page, metadata, strict=True)
            ]
        return found

    async def delete(self, session_id: str) -> bool:
        """Erase a session; return whether it existed."""
        return await self._forget(session_id)

    async def _forget(self, session_id: str, used_at: float | None = None) -> bool:
        """Erase a session; return whether it existed.

        Args:
            used_at: Only if the session was used last at that time, and has no holder.
        """
        async with self._reaching():
            own = [self._key(session_id, "keys"), self._key(session_id, "lease"), *self._log_facts(session_id)]
            keys = [*own, *(f"{self._prefix}:{name}" for name in ("keep", "sessions", "due"))]
            was_there = await self._erase(keys=keys, args=[session_id, "" if used_at is None else repr(used_at)])
        begin = self._key(session_id, "")
        self._noted = {key: at for key, at in self._noted.items() if not key.startswith(begin)}
        return bool(was_there)

    async def aclose(self) -> None:
        """Close the connections; a later call connects again."""
        await self._redis.aclose()

    def _namespace(self, place: Place) -> str:
        return self._key(place.session_id, "n", place.name)

    def _log_key(self, place: Place) -> str:
        return self._key(place.session_id, "l", place.name)

    def _log_facts(self, session_id: str) -> tuple[str, str]:
        """Return the keys of the logs' next indexes, and of the reasons why some are closed."""
        return self._key(session_id, "counts"), self._key(session_id, "closed")

    def _key(self, session_id: str, *names: str) -> str:
        return _joined(self._prefix, session_id, *names)

    async def _use(self, session_id: str, key: str) -> None:
        """Note, from time to time, that a key of a session is used.

        Call it before the write: if the process dies in between, `delete()` still knows the key.
        """
        now = self._clock.wall()
        if now - self._noted.get(key, -math.inf) < USED_INTERVAL:
            return
        calls = self._redis.pipeline(transaction=True)
        calls.zadd(f"{self._prefix}:sessions", {session_id: now})
        calls.zadd(f"{self._prefix}:due", {session_id: now + KEEP}, nx=True)
        calls.sadd(self._key(session_id, "keys"), key)
        await calls.execute()
        if len(self._noted) >= MAX_NOTED:
            self._noted = {noted: at for noted, at in self._noted.items() if now - at < USED_INTERVAL}
        self._noted[key] = now

    def _reaching(self, waiting: float = 0.0) -> _Reaching:
        """Return the block for a call that may wait in Redis for so many seconds."""
        denied = None if self._version.is_known else self._denied
        return _Reaching(self._lost, self._refused, denied, self._timeout + waiting, self._place)


class _Reaching:
    """Limits calls, and raises Redis' errors as ours.

    A refusal is named by its code: Redis' text may quote the values of the call.

    Args:
        lost: Redis' errors of a server that could not be reached.
        refused: Redis' other errors.
        denied: Redis' error for a wrong password; None once the password was right: the server's has changed.
        place: The server's host and port, or its socket.
    """

    __slots__ = ("_denied", "_lost", "_place", "_refused", "_scope", "_seconds")

    def __init__(
        self,
        lost: tuple[type[Exception], ...],
        refused: type[Exception],
        denied: type[Exception] | None,
        seconds: float,
        place: str,
    ) -> None:
        self._place = place
        self._lost = lost
        self._refused = refused
        self._denied = denied
        self._seconds = seconds

    async def __aenter__(self) -> None:
        self._scope = anyio.move_on_after(self._seconds)
        self._scope.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._scope.__exit__(kind, error, trace):
            raise StoreUnavailable(f"Redis did not answer within {self._seconds:g} s")
        if isinstance(error, UnicodeEncodeError):
            raise StoreValueError(HALF_PAIR) from None  # the error shows the text
        if isinstance(error, self._refused) and knows_no_hello(error):
            raise too_old("5 or older") from None
        if self._denied is not None and isinstance(error, self._denied):
            raise ConfigurationError(
                f"the Redis at {self._place} refused the login of RedisStore's URL: its password or name is wrong or "
                "missing; write redis://:password@host:6379/0, or with a user of an ACL "
                "redis://name:password@host:6379/0, percent-encoded"
            ) from None
        if isinstance(error, self._lost):
            raise StoreUnavailable(f"Redis could not be reached: {error}") from error
        if isinstance(error, self._refused):
            code = _code(error)
            if code in UNABLE:
                raise StoreUnavailable(f"Redis takes no calls now: {code}") from None
            raise StoreError(f"Redis refused a call: {code}") from None


def _code(error: Exception) -> str:
    """Return the code of a refusal, such as "MISCONF", or the name of the library's class for it."""
    code = str(error).rpartition("caused error: ")[2].partition(" ")[0]
    return code if code.isalpha() and code.isupper() else type(error).__name__


@lru_cache(maxsize=10_000)
def _joined(prefix: str, *names: str) -> str:
    return ":".join([prefix, "s", *(quote(name, safe="") for name in names)])


def _text(found: bytes | str | None) -> str | None:
    return found.decode() if isinstance(found, bytes) else found


def _texts(found: Mapping[bytes, bytes]) -> dict[str, str]:
    return {name.decode(): text.decode() for name, text in found.items()}


def _record(id: bytes, fields: dict[bytes, bytes]) -> Record:
    return Record(int(id.partition(b"-")[0]) - 1, fields[b"t"].decode())

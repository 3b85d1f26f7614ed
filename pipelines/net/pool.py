"""Pool: warm connections, by address, for requests that come one after the other or side by side."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from vivavoce.pipelines.core.clock import Clock, LoopClock, TimerHandle
from vivavoce.pipelines.core.errors import ConfigurationError, describe
from vivavoce.pipelines.core.owned_tasks import OwnedTasks

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 2.0
"""Seconds for closing all connections."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a connection goes: its URL and its headers, without those of the client."""

    url: str = field(repr=False)  # a query may hold a key
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)


class Poolable(Protocol):
    """A connection that a pool keeps."""

    @property
    def is_lost(self) -> bool:
        """Whether it cannot be used any more."""
        ...

    async def aclose(self) -> None:
        """Close it, within a limit of its own."""
        ...


C = TypeVar("C", bound=Poolable)


class _Kept(Generic[C]):
    """One connection, which opens or is open, and how many use it."""

    def __init__(self, opening: asyncio.Task[C], opened_at: float) -> None:
        self.opening = opening
        self.opened_at = opened_at
        self.users = 0
        self.is_retired = False
        self.idle: TimerHandle | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it is not known to be lost; one that still opens is usable."""
        if self.is_retired:
            return False
        if not self.opening.done():
            return True
        return not self.opening.cancelled() and self.opening.exception() is None and not self.opening.result().is_lost

    def enter(self) -> None:
        self.users += 1
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None

    def leave(self) -> None:
        self.users -= 1

    def rest(self, timer: TimerHandle) -> None:
        self.idle = timer

    def retire(self) -> None:
        self.is_retired = True
        if self.idle is not None:
            self.idle.cancel()
            self.idle = None


class Pool(Generic[C]):
    """Keeps connections open between requests.

    Args:
        open: Opens a connection, within a limit of its own.
        max_age: Seconds after which a connection takes no further request; a server closes it at some age.
        max_idle: Seconds that a connection without a request is kept.
        max_users: Requests that one connection carries side by side.
        name: The component's name for logs and tasks, such as `"cartesia.TTS"`.
    """

    def __init__(
        self,
        open: Callable[[Address], Awaitable[C]],
        *,
        name: str,
        max_age: float,
        max_idle: float,
        max_users: int = 1,
        clock: Clock | None = None,
    ) -> None:
        self._open = open
        self._closed = f"this {name} is closed; make another one"
        self._max_age = max_age
        self._max_idle = max_idle
        self._max_users = max_users
        self._clock = clock or LoopClock()
        self._kept: dict[Address, list[_Kept[C]]] = {}
        self._tasks = OwnedTasks(f"pool of {name}")
        self._is_closed = False

    def __len__(self) -> int:
        return sum(map(len, self._kept.values()))

    def warm(self, address: Address) -> None:
        """Open a connection now, unless there is one that can take a request."""
        if not self._is_closed and self._free(address) is None:
            self._rest(address, self._make(address))

    @asynccontextmanager
    async def lease(self, address: Address) -> AsyncIterator[C]:
        """Give a connection for one request: one that is kept, else a new one.

        A connection that is lost by the end of the block is not kept. Code that leaves a connection in a state that the
        next request cannot use closes it.

        Raises:
            ProviderError: It cannot be opened.
            ConfigurationError: The pool is closed, perhaps while it connects.
        """
        if self._is_closed:
            raise ConfigurationError(self._closed)
        kept = self._free(address) or self._make(address)
        kept.enter()
        try:
            await asyncio.wait({kept.opening})  # another request, or the next one, may wait for it too
            if kept.opening.cancelled():
                raise ConfigurationError(self._closed)
            yield kept.opening.result()
        finally:
            kept.leave()
            if not kept.users:
                self._rest(address, kept)

    async def aclose(self) -> None:
        """Close all connections, also those in use. Calling it twice is fine."""
        self._is_closed = True
        for address in list(self._kept):
            for kept in list(self._kept[address]):
                self._drop(address, kept)
        await self._tasks.finish(CLOSE_LIMIT)

    def _free(self, address: Address) -> _Kept[C] | None:
        """Return a connection that can take a request, the one in use most; others that are lost or old are left."""
        now = self._clock.now()
        for kept in list(self._kept.get(address, ())):
            if not kept.is_usable or now - kept.opened_at >= self._max_age:
                self._leave(address, kept)
        able = [kept for kept in self._kept.get(address, ()) if kept.users < self._max_users]
        return max(able, key=lambda kept: kept.users, default=None)

    def _make(self, address: Address) -> _Kept[C]:
        kept = _Kept(self._tasks.task(self._opened(address), "opening"), self._clock.now())
        self._kept.setdefault(address, []).append(kept)
        return kept

    async def _opened(self, address: Address) -> C:
        return await self._open(address)

    def _rest(self, address: Address, kept: _Kept[C]) -> None:
        """Keep a connection without a request for a while, or close it."""
        if kept.is_retired or not kept.is_usable or self._is_closed:
            self._drop(address, kept)
            return
        now = self._clock.now()
        until = min(now + self._max_idle, kept.opened_at + self._max_age)
        kept.rest(self._clock.call_at(until, lambda: self._drop(address, kept)))

    def _leave(self, address: Address, kept: _Kept[C]) -> None:
        """Give a connection to no further request; it is closed when its last one ends."""
        if kept.users:
            self._forget(address, kept)
            kept.retire()
        else:
            self._drop(address, kept)

    def _drop(self, address: Address, kept: _Kept[C]) -> None:
        self._forget(address, kept)
        kept.retire()
        self._tasks.start(self._close(kept), "closing")

    def _forget(self, address: Address, kept: _Kept[C]) -> None:
        row = self._kept.get(address, [])
        if kept in row:
            row.remove(kept)
        if not row:
            self._kept.pop(address, None)

    async def _close(self, kept: _Kept[C]) -> None:
        if not kept.opening.done():
            kept.opening.cancel()
        try:
            connection = await kept.opening
        except asyncio.CancelledError:
            return
        except Exception as error:  # noqa: BLE001 - each request that waited for it has raised it
            logger.debug("a connection was not opened: %s", describe(error))
            return
        await connection.aclose()

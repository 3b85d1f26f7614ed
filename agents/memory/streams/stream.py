"""Stream: writes, reads and follows the items of one stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import cached_property

from vivavoce.agents.core.values import Json
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.memory.streams.following import follow_one
from vivavoce.agents.memory.streams.items import END, StreamItem, checked_name, control_text, value_text
from vivavoce.agents.memory.streams.places import KEEP, SESSION, place_of
from vivavoce.pipelines.core.checks import check_flag, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError


class Stream:
    """Ordered items that all processes with the session's memory may write and read; it keeps the newest 10,000.

    Get it from `memory.open_stream()`. Its methods raise StoreUnavailable if the store does not answer in time.
    """

    def __init__(self, base: MemoryBase, name: str) -> None:
        self._base = base
        self._name = name

    def __repr__(self) -> str:
        return f"Stream({self._name!r})"

    @property
    def name(self) -> str:
        """The stream's name in its session."""
        return self._name

    async def write(self, value: Json) -> int:
        """Append a value, and return its index.

        Raises:
            StoreValueError: It is no JSON, or longer than 1 MiB.
            StoreError: The stream is closed.
        """
        return await self._append(value_text(value, self._base.clock.wall()))

    async def control(self, code: str, **args: Json) -> int:
        """Append a control message, and return its index.

        Raises:
            ConfigurationError: The code is no name, or `EOS`, which `close()` writes.
            StoreValueError: An argument is no JSON, or they are longer than 1 MiB.
            StoreError: The stream is closed.
        """
        if checked_name("code", code) == END:
            raise ConfigurationError(f"a control message cannot have the code {END!r}; call close() to end the stream")
        return await self._append(control_text(code, args, self._base.clock.wall()))

    async def close(self) -> None:
        """End the stream, in all processes; without effect if it is closed.

        Raises:
            ConfigurationError: It is `memory.stream`, which ends with the session.
        """
        if self._name == SESSION:
            raise ConfigurationError("memory.stream ends with its session, got close(); call memory.stop()")
        await close_log(self._base, self._place, by="stream")

    def read(self, start: int = 0, follow: bool = True) -> AsyncGenerator[StreamItem, None]:
        """Return an iterator of the items from index `start` on, or from the oldest one that is left.

        It ends when the stream is closed, or the session has ended.

        Args:
            follow: Wait for further items; otherwise it ends with the newest item that is there now.
        Raises:
            ConfigurationError: An argument is of another kind.
            StoreUnavailable: From the iterator: the store did not answer in time.
            StoreError: From the iterator: the session was erased.
        """
        check_whole("start", start, at_least=0)
        check_flag("follow", follow)
        return follow_one(self._base, self._place, start, waits=follow)

    @cached_property
    def _place(self) -> Place:
        return place_of(self._base, self._name)

    async def _append(self, text: str) -> int:
        following = await self._base.within(self._base.store.log(self._place, [text], keep=KEEP))
        if following is None:
            raise StoreError(f"the stream {self._name!r} is closed and takes no more items; open another one")
        return following - 1


async def close_log(base: MemoryBase, place: Place, *, by: str) -> None:
    """End a stream; without effect if it is closed.

    Args:
        by: What closes it, for `SessionStore.reopen`.
    """
    text = control_text(END, {}, base.clock.wall())
    await base.within(base.store.log(place, [text], keep=KEEP, closes=by))

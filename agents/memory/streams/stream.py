"""StoredStream: writes, reads and follows the items of one stream in the session's store."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from functools import cached_property

from vivavoce.agents.core.values import Json
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.memory.streams.following import follow_one
from vivavoce.agents.memory.streams.items import checked_name, control_text, value_text
from vivavoce.agents.memory.streams.places import KEEP, SESSION, place_of
from vivavoce.agents.streams import END, Stream, StreamItem
from vivavoce.pipelines.core.checks import check_flag, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError


class StoredStream(Stream):
    """A stream as a log of the store."""

    def __init__(self, base: MemoryBase, name: str) -> None:
        self._base = base
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def write(self, value: Json) -> int:
        return await self._append(value_text(value, self._base.clock.wall()))

    async def control(self, code: str, **args: Json) -> int:
        if checked_name("code", code) == END:
            raise ConfigurationError(f"a control message cannot have the code {END!r}; call close() to end the stream")
        return await self._append(control_text(code, args, self._base.clock.wall()))

    async def close(self) -> None:
        if self._name == SESSION:
            raise ConfigurationError("memory.stream ends with its session, got close(); call memory.stop()")
        await close_log(self._base, self._place, by="stream")

    def read(self, start: int = 0, follow: bool = True) -> AsyncGenerator[StreamItem, None]:
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
        by: The reason, for `SessionStore.reopen`.
    """
    text = control_text(END, {}, base.clock.wall())
    await base.within(base.store.log(place, [text], keep=KEEP, closes=by))

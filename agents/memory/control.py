"""MemoryControl: the session's side of its memory: it opens it at the start and closes it at the end."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.core.values import decode, encode
from vivavoce.agents.extension.extension import Attached, Host
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.history.history_writer import HistoryWriter
from vivavoce.agents.memory.history.memory_history import MemoryHistory
from vivavoce.agents.memory.history.snapshots import Snapshots
from vivavoce.agents.memory.history.stored_items import HISTORY, SNAPSHOT
from vivavoce.agents.memory.lease import SessionLease
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.memory.private import PrivateData
from vivavoce.agents.memory.session_side import SessionSide
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.stored_replies import StoredReplies
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import METADATA
from vivavoce.agents.memory.streams.places import SESSION, place_of
from vivavoce.agents.memory.streams.session_streams import SessionStreams
from vivavoce.agents.memory.streams.streams import BY_SESSION
from vivavoce.agents.memory.writer import NAME as WRITER
from vivavoce.agents.memory.writer import MemoryWriter, Write
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, StoreUnavailable
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

if TYPE_CHECKING:
    from vivavoce.agents.records import TurnRecord

logger = logging.getLogger(__name__)

SWEEP_INTERVAL, SWEEP_LIMIT = 300.0, 60.0
"""Seconds between two sweeps, which erase sessions whose time is over, and the limit of one sweep."""
SWEEPS = 50
"""Calls of the store in one sweep."""


class MemoryControl(Attached):
    """The memory of one session, whose `face` applications use.

    Without `MemoryOptions`, and until the application first asks for it, a memory does nothing; its values are then in
    this process. A store of `MemoryOptions` is shared: the session holds a lease of it while it runs.

    Args:
        base: Of the memory; `open()` opens it.
        keep, user, name, images: As in `MemoryOptions`.
        is_shared: Whether other sessions and processes use its store too.
        is_used: Whether the application has set options.
    """

    close_after = "history"

    def __init__(
        self,
        host: Host,
        base: MemoryBase,
        *,
        keep: float | None,
        user: str,
        name: str,
        images: bool,
        is_shared: bool,
        is_used: bool,
    ) -> None:
        self._context = context = host.context
        self._history = host.history
        self._keep = keep
        self._user, self._name = user, name
        self._is_used = is_used
        self._entries: dict[str, str] = {}
        """The texts of the private data."""
        self._private_listeners: list[Callable[[], None]] = []
        self._begin_listeners: list[Callable[[], None]] = []
        self.base = base
        self.health = StoreHealth(context)
        self.writer = MemoryWriter(context, base, self.health)
        self.streams = SessionStreams(context, base, self.writer, self.health, limit=host.hook_timeout)
        self.replies = StoredReplies(base, self.writer, self.health, is_shared=is_shared)
        self.snapshots = Snapshots(context, base, self.health)
        self._words = MemoryHistory(base, host.history)
        self._lease: SessionLease | None = None
        self._words_writer: HistoryWriter | None = None
        if is_shared:
            self._lease = SessionLease(
                context, base, self.health, self.replies.take_posts, self._begin_again, self._refusal
            )
            self._words_writer = HistoryWriter(context, base, self.health, images=images)
            self._history.keep(self._words_writer)
        self._resumed: Mapping[str, Any] | None = None
        self._has_begun = False
        side = SessionSide(
            context=context,
            history=self._words,
            private=PrivateData(self._entries, self._private_changed),
            streams=self.streams,
            replies=self.replies,
        )
        self._memory = SessionMemory(base, side)

    @property
    def has_work(self) -> bool:
        """Whether the close has something to do: the application has set options, or has asked for the memory."""
        return self._is_used

    @property
    def is_shared(self) -> bool:
        """Whether other sessions and processes use its store too."""
        return self._lease is not None

    @property
    def is_resumed(self) -> bool:
        """Whether it continues the memory of a snapshot."""
        return self._resumed is not None

    @property
    def lost_writes(self) -> int:
        """The number of the session's own writes that the store did not get."""
        return self.writer.lost + (0 if self._words_writer is None else self._words_writer.lost)

    @property
    def face(self) -> SessionMemory:  # type: ignore[override]  # to ask for it is to use it
        """The memory as applications use it. The first access begins it, on the session's event loop."""
        self._is_used = True
        if self.base.is_open and self._lease is None and not self._has_begun:
            inbox = self._context.inbox
            inbox.on_loop(self._begin_late)
            if inbox.is_here:
                self._begin_streams()
            else:  # tasks begin in the session's own task
                inbox.call(self._begin_streams)
        return self._memory

    # --- other extensions

    def on_private_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of private data, in the thread that made it."""
        self._private_listeners.append(listener)

    def on_begin_again(self, listener: Callable[[], None]) -> None:
        """Call `listener` when the session is set again in a store that may have lost it."""
        self._begin_listeners.append(listener)

    def _private_changed(self) -> None:
        for listener in self._private_listeners:
            listener()

    # --- snapshots

    def take(self) -> Callable[[], dict[str, Any]] | None:
        """Take the memory as it is now; the returned call makes its data, from any thread. None if the memory is not
        used.

        It holds the id, the private data, and the namespaces if they are in this process. The places of the agents in
        their streams are in it if the streams may outlive the session.
        """
        if not (self._is_used and self.base.is_open):
            return None
        store, memory_id, private = self.base.store, self.base.id, dict(self._entries)
        positions = self.streams.positions if self.is_shared else {}
        namespaces = store.namespaces(memory_id) if isinstance(store, InProcessStore) else None

        def data() -> dict[str, Any]:
            taken: dict[str, Any] = {"id": memory_id, "private": _values(private), "positions": positions}
            if namespaces is not None:
                values = {name: entries for name, entries in namespaces.items() if name not in (HISTORY, SNAPSHOT)}
                taken["namespaces"] = {name: _values(entries) for name, entries in values.items()}
            return taken

        return data

    def check_taken(self, data: Any) -> None:
        """Check that `restore()` can take that data.

        Raises:
            ConfigurationError: It is no memory.
        """
        parts = (data.get("private"), data.get("namespaces", {})) if isinstance(data, Mapping) else ()
        is_whole = bool(parts) and all(isinstance(part, Mapping) for part in parts)
        if not is_whole or not isinstance(data.get("id"), str):
            raise ConfigurationError("a snapshot's memory needs an 'id', 'private' data and perhaps 'namespaces'")

    def restore(self, data: Any) -> None:
        """Continue the memory of a snapshot; its values replace the values that were set before the start."""
        self._is_used = True
        self._resumed = data
        self._entries.update(_texts(data["private"]))
        self.streams.resume(data.get("positions", {}))

    # --- life

    def open(self) -> Awaitable[None] | None:
        """Begin, or continue the memory of a snapshot. Only a shared store is waited for."""
        self.base.open(self._context.id if self._resumed is None else self._resumed["id"])
        if self._is_used:
            self.writer.open()
        if self._lease is not None:
            return self._open_in_store(self._lease)
        if self._is_used:
            self._fill()
            self.streams.begin()
        return None

    async def _open_in_store(self, lease: SessionLease) -> None:
        """Begin in a shared store.

        Raises:
            StoreError: Another session has the memory, or it is that of another user.
        """
        await lease.take(takes_over=self.is_resumed)
        if not lease.is_first:
            self._history.begin_run(f"_{os.urandom(3).hex()}")
            self._words.read_earlier()
        await self._begin_in_store(is_down=self.health.is_failing)
        if self.is_resumed:
            await self.replies.restore()
        self._context.group.start_soon(self._sweep, name="sweep of the session store")
        assert self._words_writer is not None
        self._words_writer.open()
        self.snapshots.begin()

    async def _refusal(self) -> str:
        """Return why this session may not have the memory: it is that of another user. Empty if it may."""
        base = self.base
        text = await base.within(base.store.read(base.place(METADATA), "user"))
        if text is None or decode(text) in ("", self._user) or (self.is_resumed and not self._user):
            return ""
        owner, remedy = ("another user", "") if self._user else ("a user", "name the user by MemoryOptions(user=…), ")
        erase = f"erase that memory before: await store.delete({base.id!r})"
        return f"the memory {base.id!r} is that of {owner}; {remedy}take another id, or {erase}"

    def entered(self) -> None:
        """Keep the conversation as it has begun."""
        self.snapshots.store()

    def turn_over(self, record: TurnRecord) -> None:
        """Keep the conversation as it is after a turn."""
        self.snapshots.store()

    async def aclose(self) -> None:
        """Make the waiting writes and give up the lease; the caller sets the limit.

        Raises:
            SessionError: Some writes were not made.
        """
        self.streams.release()
        await self.writer.aclose()
        is_left = self.lost_writes and self.health.is_failing  # then the lease runs out by itself
        if self._lease is None and self._has_begun:
            await self.streams.streams.end()
        elif self._lease is not None and self.base.is_open and not is_left:
            if await self._lease.end(self._end_in_store):
                await self.base.within(self.base.store.keep(self.base.id, self._keep))
        if self.writer.lost:
            raise SessionError(f"{self.writer.lost} writes of the memory were not made")

    async def _end_in_store(self) -> None:
        """Keep the conversation as it is at its end, and end the streams, while the lease is there for certain."""
        await self.snapshots.keep()
        await self.streams.streams.end()

    def _begin_late(self) -> None:
        """Begin with the first use in the middle of a session. During the close, only the values are set, without
        streams."""
        if not self._has_begun:
            store = self._fill()
            if self._context.closing.is_asked:
                store.close_log(place_of(self.base, SESSION), BY_SESSION)

    def _begin_streams(self) -> None:
        if not self._context.closing.is_asked:
            self.writer.open()
            self.streams.begin()

    def _fill(self) -> InProcessStore:
        self._has_begun = True
        store, resumed = self.base.store, self._resumed
        assert isinstance(store, InProcessStore)
        if resumed is not None and "namespaces" not in resumed:
            logger.warning("The memory %s is in a store that this session does not have; it begins empty", self.base.id)
        store.fill(self.base.id, self._first_entries())
        return store

    async def _begin_in_store(self, *, is_down: bool) -> None:
        """Set the entries that are missing. If the store is down, do so as soon as it is back."""
        base = self.base
        writes: list[Write] = [
            partial(base.store.write, base.place(name), entry, text, nx=True)
            for name, entries in self._first_entries().items()
            for entry, text in entries.items()
        ]
        if self._user:
            writes.append(self._claim)
        writes.append(partial(base.store.keep, base.id, self._keep))
        if self._resumed is None:
            writes.append(self.replies.begin_anew)
        try:
            while writes and not is_down:
                await base.within(writes[0]())
                writes.pop(0)
        except StoreUnavailable as error:
            self.health.failed(error, WRITER)
        for write in writes:
            self.writer.put(write)
        self.streams.begin()

    async def _claim(self) -> None:
        """Make a memory of no user that of this session's user."""

        def change(before: str | None) -> tuple[str | None, None]:
            return (encode(self._user) if before is None or decode(before) == "" else before), None

        await self.base.store.change(self.base.place(METADATA), "user", change)

    def _begin_again(self) -> None:
        """Set the entries that the store lacks, if it has lost the session. Earlier values, words and parts stay
        lost."""
        self.writer.put(self._set_metadata_again)
        self.writer.put(partial(self.base.store.keep, self.base.id, self._keep))
        self.streams.begin_again()
        self._words.read_earlier()
        self.snapshots.store()
        for listener in self._begin_listeners:
            listener()

    async def _set_metadata_again(self) -> None:
        """Set the metadata again if they are lost; `created_date`, which shows that, comes last."""
        store, place = self.base.store, self.base.place(METADATA)
        if await store.read(place, "created_date") is None:
            for entry, text in reversed(self._first_entries()[METADATA].items()):
                await store.write(place, entry, text, nx=True)

    async def _sweep(self) -> None:
        """Have the store erase sessions whose time is over, from time to time until the close."""
        with self._context.closing.cuts(anyio.CancelScope()):
            while True:
                try:
                    with anyio.move_on_after(SWEEP_LIMIT), strays_as_errors("the session store"):
                        for _ in range(SWEEPS):
                            if not await self.base.store.sweep():
                                break
                except Exception as error:  # noqa: BLE001 - a store is foreign code; the next sweep does it
                    self.health.failed(error)
                await anyio.sleep(SWEEP_INTERVAL)

    @cached_property
    def _created(self) -> str:
        return datetime.fromtimestamp(self._context.clock.wall(), UTC).isoformat()

    def _first_entries(self) -> dict[str, dict[str, str]]:
        """Return the texts with which the memory begins: the texts of the snapshot, and metadata."""
        resumed: Mapping[str, Any] = {} if self._resumed is None else self._resumed.get("namespaces", {})
        entries = {name: _texts(values) for name, values in resumed.items()}
        metadata = {
            "created_date": self._created,
            "user": self._user,
            "name": self._name,
            "pinned": False,
        }
        entries[METADATA] = _texts(metadata) | entries.get(METADATA, {})
        return entries


def _values(entries: Mapping[str, str]) -> dict[str, Any]:
    return {name: decode(text) for name, text in entries.items()}


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: encode(value) for name, value in values.items()}

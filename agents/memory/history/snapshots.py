"""Snapshots: keeps a session's newest snapshot in its store, for `await store.snapshot(session_id)`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.history.stored_items import HEAD, SNAPSHOT
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

NAME = "snapshot"
"""The name of this part in the store's health."""
PAUSE = 5.0
"""Seconds from a failed write to the next try."""

Take = Callable[[], Callable[[], dict[str, Any]]]
"""Takes the conversation as it is now; the returned call makes its data, from any thread, with the ids of its items in
place of the history."""


class Snapshots:
    """Writes the snapshots of one session. Each replaces the snapshot before it, so none is lost for good."""

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth) -> None:
        self._context = context
        self._base = base
        self._health = health
        self._thread = SerialThread("snapshot")
        self._take: Take | None = None
        self._news = anyio.Event()
        self._answered = anyio.Event()
        """Set at the end of a write, and then replaced."""
        self._changes = 0
        self._written = 0
        """The number of the newest change that the store has."""
        self._is_failing = False
        """Whether nothing waits for the store: it is late, or its last write has failed."""
        self._has_any = False
        """Whether there is anything to keep. A session whose start fails leaves the snapshot of an earlier call
        alone."""
        self._is_open = False
        """Whether the task that writes is at work."""

    def open(self, take: Take) -> None:
        """Use that call to take the conversation."""
        self._take = take

    def begin(self) -> None:
        """Begin to write, in a task of the session, until the close begins."""
        self._is_open = True
        self._context.group.start_soon(self._run, name="snapshots in the session store")

    def store(self) -> None:
        """Store the conversation soon, as it is then."""
        self._has_any = True
        self.changed()

    def changed(self) -> None:
        """Note a change, which is stored soon if there is anything to keep."""
        self._changes += 1
        self._news.set()

    async def kept(self, limit: float) -> None:
        """Store the conversation, and wait until the store has it: for so many seconds at most, and not for a store
        that is late or fails."""
        change = self._changes
        if not self._is_open or self._written >= change:
            return
        if not self._has_any:
            self.store()
        with anyio.move_on_after(limit) as scope:
            while self._written < change and self._is_open and not self._is_failing:
                await self._answered.wait()
        if scope.cancelled_caught:
            self._is_failing = True
            late = StoreUnavailable(f"the session's store is late, it has not written within {limit:g} s")
            self._health.failed(late, NAME)

    async def keep(self) -> bool:
        """Store the conversation as it is now; return False if the write failed."""
        if self._base.is_lost or not self._has_any:
            return True
        change = self._changes
        is_kept = await self._keep()
        self._is_failing = not is_kept
        self._written = change if is_kept else self._written
        self._note_answer()
        return is_kept

    def _note_answer(self) -> None:
        self._answered.set()
        self._answered = anyio.Event()

    async def _keep(self) -> bool:
        try:
            with strays_as_errors("the session store"):
                self._base.check_held()
                await self._base.within(self._write())
        except Exception as error:  # noqa: BLE001 - a store is foreign code; the next try keeps a newer snapshot
            self._health.failed(error, NAME)
            return False
        self._health.worked(NAME)
        return True

    async def _run(self) -> None:
        try:
            with self._context.closing.cuts(anyio.CancelScope()):
                while True:
                    await self._news.wait()
                    self._news = anyio.Event()
                    if not await self.keep():
                        await anyio.sleep(PAUSE)
                        self._news.set()
        finally:  # the close keeps the conversation at its end
            self._is_open = False
            self._note_answer()

    async def _write(self) -> None:
        assert self._take is not None, "open() comes first"
        try:
            taken = self._take()
        except ConfigurationError as error:  # the userdata cannot be JSON; `store.snapshot()` says so
            text = json.dumps({"error": str(error)})
        else:
            text = await self._thread.run(_text, taken)
        await self._base.store.write(self._base.place(SNAPSHOT), HEAD, text)


def _text(data: Callable[[], dict[str, Any]]) -> str:
    return json.dumps(data())

"""ConnectionReader: reads the events of one connection, also when it no longer serves the session."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

import anyio

from vivavoce.pipelines.core.boundary import guarded
from vivavoce.pipelines.core.changes import Changes
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.realtime_model.events import RealtimeEvent
from vivavoce.pipelines.realtime_model.guarded import EVENTS, GuardedConnection
from vivavoce.pipelines.realtime_model.turn_items import HeardItems


class ConnectionReader:
    """Runs in a task of its own, from the connection's beginning to its end.

    Args:
        provider: Name for errors.
        heard: The items of the connection.
        take: Called with each event.
        on_end: Called at the end, if the connection was not left before.
    """

    def __init__(
        self,
        connection: GuardedConnection,
        provider: str,
        heard: HeardItems,
        *,
        take: Callable[[RealtimeEvent], None],
        on_end: Callable[[], None],
    ) -> None:
        self.connection = connection
        self.heard = heard
        self.over = anyio.Event()
        """Set when the connection serves no more: it has ended, or was left."""
        self.ended = anyio.Event()
        self.error: ProviderError | None = None
        """The error by which it ended."""
        self._provider = provider
        self._take = take
        self._on_end = on_end
        self._scope = anyio.CancelScope()
        self._changes = Changes()

    async def run(self) -> None:
        """Read until the connection ends."""
        try:
            with self._scope:
                events = guarded(self.connection.events, EVENTS, self._provider, retryable=True)
                async with aclosing(events):
                    async for event in events:
                        self._take(event)
                        self._changes.note()
        except ProviderError as error:
            self.error = error
        finally:
            if not self.over.is_set():
                self._on_end()
            self.over.set()
            self.ended.set()
            self._changes.note()

    async def words_settled(self) -> None:
        """Wait until the connection owes no words, or has ended; the caller sets a limit."""
        while self.heard.owes_words and not self.ended.is_set():
            await self._changes.wait()

    def leave(self, take: Callable[[RealtimeEvent], None]) -> None:
        """The connection serves no more; `take` is called with the events that still come."""
        self._take = take
        self.over.set()

    def stop(self) -> None:
        """Read no more."""
        self.over.set()
        self._scope.cancel()

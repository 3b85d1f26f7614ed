"""HistoryFeed: writes a session's history to its sink, in a task of its own, so that no turn waits for a disk."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Protocol

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.sink import ChangeKind, HistoryChange, HistorySink
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.llm.chat_context import ChatItem

logger = logging.getLogger(__name__)

MAX_WAITING = 1000
"""Changes that may wait for the sink, an hour of talk, besides those of a resumed session; then the oldest are lost."""
BATCH = 100
"""Changes in one write."""
WRITE_LIMIT = 10.0
"""Seconds for one write."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds from a failed write to the next try; doubled each time."""
SOURCE = "history_sink"
"""The source of its `error` events."""


class SinkHealth(Protocol):
    """Notes how the writes of a feed end, and reports failures."""

    def worked(self, by: str = "") -> None:
        """A write of the part `by` was made."""

    def failed(self, error: Exception, by: str = "") -> None:
        """A write failed, and will be tried again."""

    def lost(self, error: Exception) -> None:
        """Changes are lost."""


class OwnSinkHealth:
    """The health of a sink that only its feed calls: one `error` event when writing begins to fail."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._is_failing = False

    def worked(self, by: str = "") -> None:
        """A write was made."""
        self._is_failing = False

    def failed(self, error: Exception, by: str = "") -> None:
        """A write failed, and will be tried again."""
        if not self._is_failing:
            logger.warning("Writing the history failed, it will be tried again: %s", describe(error))
            self._context.report_error(error, SOURCE, is_recovered=True)
        logger.debug("Writing the history failed", exc_info=error)
        self._is_failing = True

    def lost(self, error: Exception) -> None:
        """Changes are lost."""
        logger.error("%s", error)
        self._context.report_error(error, SOURCE)


class HistoryFeed:
    """Takes changes without waiting and writes them in order.

    A write that fails is tried again, with the later changes, until the close, which tries once more. The application
    receives one `error` event when writing begins to fail, and one when changes are lost.

    Args:
        history_id: Returns the id of the history in the sink, from `open()` on, or None if it has become another
            session's, so that the changes are dropped. By default the session's id.
        health: Reports failures; by default the feed does so itself.
    """

    def __init__(
        self,
        context: SessionContext,
        sink: HistorySink,
        *,
        history_id: Callable[[], str | None] | None = None,
        health: SinkHealth | None = None,
    ) -> None:
        self._context = context
        self._health = OwnSinkHealth(context) if health is None else health
        self._history_id = history_id or (lambda: context.id)
        self._sink = sink
        self._waiting: deque[HistoryChange] = deque()
        self._news = anyio.Event()
        self._ended = anyio.Event()
        self._is_closing = False
        self._lost = 0
        self._limit = MAX_WAITING
        self.is_open = False
        """Whether it writes."""

    def open(self) -> None:
        """Begin to write, in a task of the session; changes noted before are written too."""
        self.is_open = True
        self._context.group.start_soon(self._run, name="history sink")

    def begin_with(self, items: Iterable[ChatItem]) -> None:
        """Note the items of an earlier session, however many."""
        self._waiting.extend(HistoryChange("added", item) for item in items)
        self._limit = MAX_WAITING + len(self._waiting)
        self._news.set()

    def put(self, kind: ChangeKind, item: ChatItem) -> None:
        """Note a change; no effect after the close."""
        if self._ended.is_set():
            return
        self._waiting.append(HistoryChange(kind, item))
        if len(self._waiting) > self._limit:
            self._waiting.popleft()
            self._lost += 1
            if self._lost == 1:
                self._health.lost(
                    SessionError(f"the history sink is {self._limit} changes behind; the oldest are lost")
                )
        self._news.set()

    async def aclose(self) -> None:
        """Write the waiting changes and end; the caller limits it.

        Raises:
            SessionError: Some changes were not written.
        """
        self._is_closing = True
        self._news.set()
        await self._ended.wait()
        if self.lost:
            raise SessionError(f"{self.lost} changes of the history were not written")

    @property
    def lost(self) -> int:
        """The changes that were lost; after the close, those that waited in vain too."""
        return self._lost + (len(self._waiting) if self._ended.is_set() else 0)

    async def _run(self) -> None:
        pause = 0.0
        try:
            while self._waiting or not self._is_closing:
                # After a failure the sink rests for a while; the close does not wait for that.
                with anyio.move_on_after(pause) if pause else nullcontext():
                    while not self._is_closing and (pause or not self._waiting):
                        self._news = anyio.Event()
                        await self._news.wait()
                if await self._write():
                    pause = 0.0
                elif self._is_closing:
                    break
                else:
                    pause = min(max(2 * pause, FIRST_PAUSE), LONGEST_PAUSE)
        finally:
            self._ended.set()

    async def _write(self) -> bool:
        batch = [self._waiting[number] for number in range(min(BATCH, len(self._waiting)))]
        if not batch:
            return True
        first_lost, history_id = self._lost, self._history_id()
        if history_id is None:
            self._waiting.clear()
            return True
        try:
            with anyio.move_on_after(WRITE_LIMIT) as scope, strays_as_errors("the history sink"):
                await self._sink.write(history_id, batch)
            if scope.cancelled_caught:
                raise SessionError(f"the history sink did not write {len(batch)} changes within {WRITE_LIMIT:g} s")
        except Exception as error:  # noqa: BLE001 - a sink is foreign code; the conversation goes on without it
            self._health.failed(error, SOURCE)
            return False
        # Changes dropped meanwhile were at the head of the batch, and have been written after all.
        dropped = min(self._lost - first_lost, len(batch))
        self._lost -= dropped
        for _ in range(len(batch) - dropped):
            self._waiting.popleft()
        self._health.worked(SOURCE)
        return True

"""HistoryFeed: writes a session's history to its sink, in a task of its own, so that no turn waits for a disk."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import WriteHealth, WriteQueue, never_refuses
from vivavoce.agents.history.sink import ChangeKind, HistoryChange, HistorySink
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.llm.chat_context import ChatItem

logger = logging.getLogger(__name__)

BATCH = 100
"""Changes in one write."""
WRITE_LIMIT = 10.0
"""Seconds for one write."""
PAUSES = (1.0, 30.0)
"""Seconds from a failed write to the next try, doubled each time: the first and the longest."""
SOURCE = "history_sink"
"""The source of its `error` events."""


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
    """Takes changes without waiting and writes them in order (`WriteQueue`).

    The application receives one `error` event when writing begins to fail, and one when changes are lost.

    Args:
        history_id: Returns the id of the history in the sink, from `open()` on; by default the session's id.
        health: Reports failures; by default the feed does so itself.
        refuses: As `WriteQueue`'s: whether the sink can never take changes; by default it takes them some time.
    """

    def __init__(
        self,
        context: SessionContext,
        sink: HistorySink,
        *,
        history_id: Callable[[], str] | None = None,
        health: WriteHealth | None = None,
        refuses: Callable[[Exception, int], bool] = never_refuses,
    ) -> None:
        self._history_id = history_id or (lambda: context.id)
        self._sink = sink
        self._queue = WriteQueue(
            context,
            "the history sink",
            self._write,
            health or OwnSinkHealth(context),
            name="history sink",
            batch=BATCH,
            pauses=PAUSES,
            refuses=refuses,
        )

    @property
    def is_open(self) -> bool:
        """Whether it writes."""
        return self._queue.is_open

    @property
    def lost(self) -> int:
        """The changes that were lost; after the close, those that waited in vain too."""
        return self._queue.lost

    def open(self) -> None:
        """Begin to write, in a task of the session; changes noted before are written too."""
        self._queue.open()

    def begin_with(self, items: Iterable[ChatItem]) -> None:
        """Note the items of an earlier session, however many."""
        self._queue.begin_with(HistoryChange("added", item) for item in items)

    def put(self, kind: ChangeKind, item: ChatItem) -> None:
        """Note a change; after the close it is lost."""
        self._queue.put(HistoryChange(kind, item))

    async def aclose(self) -> None:
        """Write the waiting changes and end; the caller limits it.

        Raises:
            SessionError: Some changes were not written.
        """
        await self._queue.aclose()
        if self.lost:
            raise SessionError(f"{self.lost} changes of the history were not written")

    async def _write(self, changes: Sequence[HistoryChange]) -> None:
        with anyio.move_on_after(WRITE_LIMIT) as scope:
            await self._sink.write(self._history_id(), changes)
        if scope.cancelled_caught:
            raise SessionError(f"the history sink did not write {len(changes)} changes within {WRITE_LIMIT:g} s")

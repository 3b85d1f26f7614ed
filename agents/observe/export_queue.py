"""ExportQueue: what waits for one exporter: bounded, counted, handed over in batches by the export thread."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

Item = TypeVar("Item")


class ExportQueue(Generic[Item]):
    """Takes items from any thread without waiting; a full queue drops the newest and counts it.

    Args:
        what: What the items are, for people: "spans".
        export: Hands a batch over and tells whether it was taken; it may block, and raise.
        remedy: What to do about an endpoint that never takes any.
    """

    def __init__(
        self,
        what: str,
        export: Callable[[Sequence[Item]], bool],
        *,
        max_queue: int,
        max_batch: int,
        remedy: str = "",
    ) -> None:
        self._what = what
        self._remedy = f" ({remedy})" if remedy else ""
        self._export = export
        self._max_queue = max_queue
        self._max_batch = min(max_queue, max_batch)
        self._items: deque[Item] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._is_failing = False
        self.dropped = 0
        """Items that found the queue full, or came after the end."""
        self.lost = 0
        """Items that were handed to the exporter and could not be delivered."""
        self.delivered = 0
        """Items that the endpoint took."""

    @property
    def waiting(self) -> int:
        """Items in the queue."""
        return len(self._items)

    def put(self, item: Item) -> bool:
        """Take an item; return whether there is a whole batch now."""
        if self._is_closed or len(self._items) >= self._max_queue:
            with self._lock:  # two threads that drop at a time are counted as two
                self.dropped += 1
            return False
        self._items.append(item)
        return len(self._items) >= self._max_batch

    def close(self) -> None:
        """Take nothing more; what waits may still be sent."""
        self._is_closed = True

    def send(self) -> None:
        """Export what waits now, batch by batch; what comes meanwhile waits for the next time. It never raises."""
        for _ in range(-(-len(self._items) // self._max_batch)):
            size = min(len(self._items), self._max_batch)
            batch = [self._items.popleft() for _ in range(size)]
            try:
                is_delivered = self._export(batch)
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the call goes on
                is_delivered = False
                logger.debug("Exporting %s raised %s", self._what, describe(error))
            self._note(is_delivered, size)

    def _note(self, is_delivered: bool, size: int) -> None:
        if is_delivered:
            self.delivered += size
        else:
            self.lost += size
        if is_delivered is self._is_failing:
            self._is_failing = not is_delivered
            if is_delivered:
                told = "Telemetry is delivered again; %d %s were lost, %d dropped"
                logger.info(told, self.lost, self._what, self.dropped)
            else:
                told = "Telemetry (%s) cannot be delivered; calls go on, and this is said once%s"
                logger.warning(told, self._what, self._remedy)

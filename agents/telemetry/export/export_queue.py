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
        self._in_hand = 0
        self._is_given_up = False
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

    @property
    def undelivered(self) -> int:
        """Items not delivered that nobody waits for; what comes through after `give_up()` counts no more."""
        with self._lock:
            unsettled = len(self._items) + self._in_hand if self._is_given_up else 0
            return self.dropped + self.lost + unsettled

    @property
    def unsettled(self) -> int:
        """Items that wait or are just being exported."""
        with self._lock:
            return len(self._items) + self._in_hand

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

    def give_up(self) -> None:
        """Nobody waits any more: what is not delivered by now is counted as such."""
        self._is_given_up = True

    def refuse(self) -> None:
        """The endpoint is none, as somebody has said: what comes is counted as lost, and nothing is tried."""
        self._export = lambda _: False
        self._is_failing = True

    def send(self) -> None:
        """Export what waits now, batch by batch; what comes meanwhile waits for the next time. It never raises."""
        for _ in range(-(-len(self._items) // self._max_batch)):
            size = min(len(self._items), self._max_batch)
            with self._lock:  # so that who counts sees each item once
                batch = [self._items.popleft() for _ in range(size)]
                self._in_hand = size
            try:
                is_delivered = self._export(batch)
            except Exception as error:  # noqa: BLE001 - whatever an exporter raises, the call goes on
                is_delivered = False
                logger.debug("Exporting %s raised %s", self._what, describe(error))
            self._note(is_delivered, size)

    def _note(self, is_delivered: bool, size: int) -> None:
        with self._lock:
            self._in_hand = 0
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

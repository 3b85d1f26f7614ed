"""MemoryWriter: the queue of a session's own writes to its store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import WriteQueue
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.pipelines.core.errors import StoreError, StoreUnavailable

NAME = "memory writer"
"""Of this part, in the store's health."""
TRIES = 5
"""Attempts at a write that fails for a reason which is no outage of the store."""

Write = Callable[[], Awaitable[object]]
"""Makes one write to the store. It is called again after a failure, therefore a write may be made twice."""


class MemoryWriter(WriteQueue[Write]):
    """Makes the writes one after the other, while the session has its memory for certain.

    In an outage (StoreUnavailable) they wait. A write that the store refuses (any other StoreError) is lost, and so is
    one that fails for another reason five times.
    """

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth) -> None:
        def make(writes: Sequence[Write]) -> Awaitable[object]:
            base.check_held()
            return base.within(writes[0]())

        super().__init__(context, "the session store", make, health, name=NAME, refuses=_refuses)


def _refuses(error: Exception, tries: int) -> bool:
    if isinstance(error, StoreError):
        return not isinstance(error, StoreUnavailable)
    return tries >= TRIES

"""MemoryWriter: the queue of a session's own writes to its store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.write_queue import WriteQueue
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth

NAME = "memory writer"
"""The name of this part in the store's health."""
Write = Callable[[], Awaitable[object]]
"""Makes one write to the store. After a failure it is called again, so a write may be made twice."""


class MemoryWriter(WriteQueue[Write]):
    """Makes the writes one after the other, while the session is sure to have its memory."""

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth) -> None:
        def make(writes: Sequence[Write]) -> Awaitable[object]:
            base.check_held()
            return base.within(writes[0]())

        super().__init__(context, "the session store", make, health, name=NAME)

"""MemoryBase: the base of all parts of a memory: its id, its store, and the limit of a call to the store."""

from __future__ import annotations

import math
from collections.abc import Awaitable
from typing import TypeVar

from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.limit import within
from vivavoce.agents.memory.stores.store import METADATA, Place, SessionStore, check_session_id
from vivavoce.pipelines.core.checks import check_instance, check_number
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import SessionNotStartedError, StoreError, StoreUnavailable

T = TypeVar("T")


class MemoryBase:
    """The memory of one session, in a store.

    Its id is that of the session which began it. A session that is resumed continues the memory of the earlier one,
    therefore the id is known when the session starts.

    Args:
        timeout: Seconds for one call to the store.
    """

    def __init__(self, store: SessionStore, *, timeout: float, clock: Clock) -> None:
        self.store = store
        self.timeout = timeout
        self.clock = clock
        self._id: str | None = None
        self._is_lost = False
        self._is_in_doubt = False
        self._held_until = math.inf

    def open(self, memory_id: str) -> None:
        """Set the id of the memory."""
        self._id = memory_id

    def lose(self) -> None:
        """Note that another session has the memory: this session writes nothing more. Called by its lease."""
        self._is_lost = True

    def hold(self, until: float) -> None:
        """Note that the session has the memory until `until`, by its clock. Called by its lease."""
        self._is_in_doubt, self._held_until = False, until

    def doubt(self) -> None:
        """Note that another session may have taken the memory while the store was out of reach. Called by its lease."""
        self._is_in_doubt = True

    @property
    def is_lost(self) -> bool:
        """Whether another session has the memory."""
        return self._is_lost

    @property
    def is_in_doubt(self) -> bool:
        """Whether another session may have the memory. This session does not write until it knows."""
        return self._is_in_doubt or self.clock.now() >= self._held_until

    def check_held(self) -> None:
        """Check that the session may write.

        Raises:
            StoreUnavailable: It is not known whether the session still has the memory.
            StoreError: Another session has it.
        """
        if self._is_lost:
            raise StoreError("another session continues the memory, and this one writes nothing more")
        if self.is_in_doubt:
            raise StoreUnavailable("the store was out of reach, and the session's lease is not confirmed yet")

    @property
    def is_open(self) -> bool:
        """Whether the id is known."""
        return self._id is not None

    @property
    def id(self) -> str:
        """The memory's id, which is the session's in the store.

        Raises:
            SessionNotStartedError: The session was not started.
        """
        if self._id is None:
            raise SessionNotStartedError("a session has its memory from the start on; call start() first")
        return self._id

    def place(self, name: str) -> Place:
        """Return the namespace or log of that name; a name is used for one of the two only."""
        return Place(self.id, name)

    def namespace(self, name: str) -> Namespace:
        """Return the values of that namespace."""
        return Namespace(self.store, self.place(name), timeout=self.timeout)

    def within(self, call: Awaitable[T]) -> Awaitable[T]:
        """Await the result of a call to the store.

        Raises:
            StoreUnavailable: It did not end within the limit.
        """
        return within(self.timeout, call)


def given_base(store: SessionStore, session_id: str, timeout: float) -> MemoryBase:
    """Return the base of the memory with that id, which may be there or not.

    Args:
        timeout: Seconds for a call to the store.
    Raises:
        ConfigurationError: An argument is of another kind.
    """
    check_instance("store", store, SessionStore)
    check_number("timeout", timeout, above=0, unit="s")
    check_session_id(session_id)
    base = MemoryBase(store, timeout=timeout, clock=LoopClock())
    base.open(session_id)
    return base


async def attached_base(store: SessionStore, session_id: str, timeout: float) -> MemoryBase:  # noqa: ASYNC109 - the limit of each call
    """Return the base of the memory of another session.

    Args:
        timeout: Seconds for a call to the store.
    Raises:
        StoreError: The store has no such session.
        ConfigurationError: An argument is of another kind.
    """
    base = given_base(store, session_id, timeout)
    if await base.namespace(METADATA).get("created_date") is None:
        raise StoreError(
            f"the store has no session {session_id!r}; store.sessions() lists them, SessionMemory.create() makes one"
        )
    return base


def memory_base(store: SessionStore | None, timeout: float, clock: Clock) -> MemoryBase:
    """Return the base of a session's memory: in `store`, or in this process without one."""
    return MemoryBase(store or InProcessStore(clock=clock), timeout=timeout, clock=clock)

"""SessionMemory: the memory of a session, in its own process or in another one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.private import PrivateData
from vivavoce.agents.memory.session_side import SessionSide
from vivavoce.agents.memory.session_state import SessionState
from vivavoce.agents.memory.stores.store import METADATA, SessionStore
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.checks import check_instance, check_number, shown
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError


class SessionMemory:
    """State that outlives the call, if the session's options name a store; other processes may share it.

    Args:
        side: The session's own parts; None: another process has attached itself.

    A method that reaches the store raises StoreUnavailable if that does not answer within `MemoryOptions.timeout`.
    """

    def __init__(self, base: MemoryBase, side: SessionSide | None) -> None:
        self._base = base
        self._side = side
        self._state = SessionState(base)

    def __repr__(self) -> str:
        return f"SessionMemory({self._base.id if self._base.is_open else ''!r})"

    @classmethod
    @asynccontextmanager
    async def attach(
        cls,
        store: SessionStore,
        session_id: str,
        *,
        timeout: float = 2.0,  # noqa: ASYNC109 - the limit of each call
    ) -> AsyncIterator[Self]:
        """Share the memory of a session that another process runs, or that has ended.

        Args:
            timeout: Seconds for a call to the store; then it raises StoreUnavailable.
        Raises:
            StoreError: The store has no such session.
            ConfigurationError: An argument is of another kind.
        """
        check_instance("store", store, SessionStore)
        check_number("timeout", timeout, above=0, unit="s")
        if not isinstance(session_id, str) or not session_id:
            raise ConfigurationError(f"need session_id as the id of a session, got {shown(session_id)}")
        base = MemoryBase(store, timeout=timeout, clock=LoopClock())
        base.open(session_id)
        memory = cls(base, None)
        if await memory.metadata.get("created_date") is None:
            raise StoreError(f"the store has no session {session_id!r}; store.sessions() lists them")
        yield memory

    @property
    def id(self) -> str:
        """The session's id in the store; a resumed session has that of the session which it continues."""
        return self._base.id

    # --- data

    @property
    def metadata(self) -> Namespace:
        """Facts about the session; it begins with `created_date`, `user`, `name` and `pinned`."""
        return self._base.namespace(METADATA)

    @property
    def data(self) -> Namespace:
        """The application's values, for all agents."""
        return self._base.namespace("data")

    def agent_data(self, agent: Agent | str) -> Namespace:
        """Return the values of one agent.

        Args:
            agent: The agent, or its id.
        Raises:
            ValueError: It is none.
        """
        return self._base.namespace(f"agent:{_name('agent', agent.id if isinstance(agent, Agent) else agent)}")

    def stream_data(self, stream: str) -> Namespace:
        """Return the values of one stream, by its name.

        Raises:
            ValueError: It is none.
        """
        return self._base.namespace(f"stream:{_name('stream', stream)}")

    @property
    def private(self) -> PrivateData:
        """Values that only the session's own process has.

        Raises:
            StoreError: This is another process.
        """
        if self._side is None:
            raise StoreError("private data are in the session's own process only; share values by memory.data")
        return self._side.private

    async def to_dict(self) -> dict[str, Any]:
        """Return the memory's id, metadata, budget and agents."""
        return {"id": self.id, "metadata": await self.metadata.get_all(), "budget": None, "agents": []}

    # --- life

    async def stop(self) -> None:
        """Ask the session to close; `wait()` waits for the end. Without effect if it has ended."""
        if self._side is None:
            await self._state.ask_stop()
        elif not (context := self._side.context).closing.is_over:
            context.check_open()
            context.closing.request(CloseReason.USER_INITIATED)

    async def wait(self, timeout: float | None = None) -> bool:  # noqa: ASYNC109 - as in Blue and BAF
        """Wait until the session has ended; return whether it has.

        In its own process it is as `session.wait_closed()`: code that the close waits for must not call it.

        Args:
            timeout: Seconds; None: however long.
        """
        check_number("timeout", timeout, at_least=0, unit="s", or_none=True)
        with anyio.move_on_after(timeout):
            if self._side is not None:
                await self._side.context.session.wait_closed()
            else:
                await self._state.ended()
            return True
        return False


def _name(kind: str, name: object) -> str:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ValueError(f"need the {kind}, or its name as printable characters, got {shown(name)}")
    return name

"""SessionLease: a running session's right to its memory in a shared store."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.session_state import Life, SessionState
from vivavoce.agents.memory.store_health import SOURCE, StoreHealth
from vivavoce.agents.states import CloseReason
from vivavoce.pipelines.core.errors import StoreError, StoreUnavailable
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

NAME = "lease"
"""The name of this part in the store's health."""
LEASE = 15.0
"""Seconds that a lease lasts."""
RENEW_INTERVAL = 5.0
"""Seconds between two renewals."""
PAUSE = 1.0
"""Seconds from a failed call to the next one."""


class SessionLease:
    """Takes the lease, renews it in a task of the session, and gives it up.

    The session closes with reason `error` when another one has taken the lease, and by request when another process
    has asked for it (`SessionMemory.stop`).

    Args:
        on_change: Called at the start, and when another process has noted something in the session's log.
        on_begin: Called when the session begins in the store while it runs: late, or again after the store was out of
            reach or has lost the session.
        refusal: Called before the session begins in the store; returns why it may not, or an empty text.
    """

    def __init__(
        self,
        context: SessionContext,
        base: MemoryBase,
        health: StoreHealth,
        on_change: Callable[[], Awaitable[None]],
        on_begin: Callable[[], None],
        refusal: Callable[[], Awaitable[str]],
    ) -> None:
        self._refusal = refusal
        self._refused = ""
        """Why the session may not have the memory; empty if it may."""
        self._on_change = on_change
        self._on_begin = on_begin
        self._context = context
        self._base = base
        self._health = health
        self._state = SessionState(base)
        self._holder = new_id("holder")
        self._takes_over = False
        self._began_at = 0.0
        self._goes_on = False
        """Whether the next begin continues a session that has begun before, in this process or another one."""
        self._is_held = False
        self._has_begun = False
        self.is_first = False
        """Whether this is certainly the first run of the session in the store."""
        self._scope = anyio.CancelScope()

    async def take(self, *, takes_over: bool) -> None:
        """Take the lease; from another holder only if it `takes_over`. If the store is down, do so as soon as it is
        back.

        Raises:
            StoreError: Another session has the lease, or the session may not have the memory.
        """
        self._takes_over = self._goes_on = takes_over
        self._began_at = self._context.clock.wall()
        try:
            self.is_first = await self._hold()
        except StoreUnavailable as error:
            self._failed(error)
        if self._base.is_lost:
            raise StoreError(
                self._refused
                or f"the session {self._base.id!r} runs already, here or in another process; wait for its end, take "
                "another id, or continue it with start(resume_from=…)"
            )
        self._context.group.start_soon(self._run, name="lease of the memory")

    async def end(self, last: Callable[[], Awaitable[None]]) -> bool:
        """Stop renewing the lease, and give it up with a note that the session has ended.

        Args:
            last: Called before that, unless the session has lost the lease, or another one replaces it.
        Returns:
            Whether the session had the lease until now.
        """
        self._scope.cancel()
        if not self._base.is_lost:
            await self._hold()
        if self._base.is_lost:
            return False
        if self._context.closing.reason is not CloseReason.REPLACED:
            await last()
            await self._state.end()
        await self._base.within(self._base.store.release(self._base.id, self._holder))
        return True

    async def _hold(self) -> bool:
        """Take or renew the lease, and begin the session in the store with the first one; return whether the session is
        new there."""
        base, takes_over = self._base, self._takes_over and not self._is_held
        if takes_over and await self._is_refused():
            return False
        until = base.clock.now() + LEASE
        self._is_held = await base.within(base.store.hold(base.id, self._holder, LEASE, takes_over=takes_over))
        if not self._is_held:
            base.lose()
            return False
        if not (self._has_begun or takes_over) and await self._is_refused():
            await base.within(base.store.release(base.id, self._holder))
            return False
        is_new = False
        if not self._has_begun:
            is_new = await (self._state.resume() if self._goes_on else self._state.begin(self._began_at))
            self._has_begun = self._goes_on = True
        base.hold(until)
        return is_new

    async def _is_refused(self) -> bool:
        """Return whether the session may not have the memory; it has lost it then."""
        self._refused = await self._refusal()
        if self._refused:
            self._base.lose()
        return bool(self._refused)

    def _failed(self, error: Exception) -> None:
        self._health.failed(error, NAME)
        self._base.doubt()
        self._has_begun = False  # the store may come back with nothing in it

    async def _run(self) -> None:
        clock = self._context.clock
        renewed = clock.now()
        life: Life | None = None
        """The state when it was read last; None if it may have changed since."""
        seen: Life | None = None
        """The state when `on_change` was called last."""
        has_news = False
        """Whether another process has noted something, for example that it continues the session."""
        with self._scope:
            while not self._base.is_lost:
                try:
                    with strays_as_errors("the session store"):
                        left = renewed + RENEW_INTERVAL - clock.now()
                        if left <= 0 or has_news or not self._has_begun:
                            begins = not self._has_begun
                            await self._hold()
                            renewed, has_news, life = clock.now(), False, None
                            if begins and self._has_begun and not self._context.closing.is_asked:
                                self._on_begin()
                        elif life is None:
                            life = await self._state.read()
                            if life != seen:
                                await self._on_change()
                                seen = life
                            if not life.has_begun:  # erased, here or in another process
                                self._has_begun = False
                            elif life.is_stop_asked:
                                self._context.closing.request(CloseReason.USER_INITIATED)
                        else:
                            await self._state.changed(life, left)
                            if clock.now() - renewed < RENEW_INTERVAL:
                                life, has_news = None, True
                except Exception as error:  # noqa: BLE001 - a store is foreign code; the conversation goes on without it
                    self._failed(error)
                    life = None
                    await anyio.sleep(PAUSE)
                else:
                    self._health.worked(NAME)
            if not self._context.closing.is_asked:
                lost = StoreError(self._refused or "another session continues this one's memory")
                self._context.report_error(lost, SOURCE)
                self._context.closing.request(CloseReason.ERROR, lost)

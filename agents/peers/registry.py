"""AgentRegistry: the agents that can be reached, in this process or, with a store, on all machines that share it."""

from __future__ import annotations

import logging
import math
from functools import partial
from types import TracebackType
from typing import Self

import anyio

from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import CALLS, Place, SessionStore, removing
from vivavoce.agents.peers.card import AgentCard
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError, describe
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.owned_tasks import OwnedTasks

logger = logging.getLogger(__name__)

CARDS = Place(CALLS, "agents")
"""The cards, beside the running calls: a session of the store that is never shown and never erased."""
LEASE = 15.0
"""Seconds after the last renewal at which an entry ends."""
RENEWAL = 5.0
"""Seconds between two renewals."""
CLOSE_LIMIT = 2.0
"""Seconds for the end of the renewal."""
REMOVAL_LIMIT = 10.0
"""Seconds for the removal of all agents."""


class AgentRegistry:
    """The agents that can be reached: `async with AgentRegistry(store) as registry`. An object, for one event loop.

    The process that has registered an agent renews its entry. It ends with `unregister()` and `aclose()`, and 15 s
    after the last renewal if the process has died. The store's clock counts, so that machines need no common time.

    Args:
        store: Shared by the processes: a `RedisStore`, or on one machine a `SqliteStore`. Its maker closes it. None:
            the entries are those of this object alone.
    """

    def __init__(self, store: SessionStore | None = None) -> None:
        check_instance("store", store, SessionStore, or_none=True)
        self._store = store or InProcessStore()
        self._lease = math.inf if store is None else LEASE
        self._holder = new_id("registry")
        self._own: dict[str, AgentCard] = {}
        """The agents that this object has registered."""
        self._tasks = OwnedTasks("agent registry")
        self._is_renewing = False

    def __repr__(self) -> str:
        return f"AgentRegistry({', '.join(self._own)})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await self.aclose()

    async def register(self, card: AgentCard) -> None:
        """Add an agent, in place of the one with that id, and renew its entry until `unregister()`.

        Raises:
            ConfigurationError: It is no `AgentCard`.
            StoreUnavailable: The store did not answer.
        """
        check_instance("card", card, AgentCard)
        await self._store.hold(_lease_of(card.id), self._holder, self._lease, takes_over=True)
        await self._store.write(CARDS, card.id, card.to_json())
        self._own[card.id] = card
        if not self._is_renewing and math.isfinite(self._lease):
            self._is_renewing = True
            self._tasks.start(self._renew(), "renewal")

    @property
    def registered(self) -> tuple[AgentCard, ...]:
        """The agents that this object has registered and renews."""
        return tuple(self._own.values())

    async def find(
        self,
        *,
        id: str | None = None,
        domain: str | None = None,
        capability: str | None = None,
        digest: str | None = None,
    ) -> list[AgentCard]:
        """Return the agents that have all of these, ordered by id; without arguments, all agents.

        Args:
            digest: The digest of a dialogue that it speaks.
        Raises:
            StoreUnavailable: The store did not answer.
        """
        if id is None:
            texts = list((await self._store.read_all(CARDS)).values())
        else:
            text = await self._store.read(CARDS, id)
            texts = [] if text is None else [text]
        found: list[AgentCard] = []
        for text in texts:
            card = AgentCard.of_json(text)
            if card is None:
                logger.warning("An entry of the agent registry cannot be read, and is left out")
                continue
            if not card.fits(id=id, domain=domain, capability=capability, digest=digest):
                continue
            if await self._store.is_held(_lease_of(card.id)):
                found.append(card)
            else:
                await self._store.change(CARDS, card.id, partial(_without, text))
        return sorted(found, key=lambda card: card.id)

    async def unregister(self, id: str) -> None:
        """Remove an agent that this object has registered; fine if another process has its id now.

        Raises:
            ConfigurationError: This object has not registered it.
            StoreUnavailable: The store did not answer.
        """
        card = self._own.pop(id, None)
        if card is None:
            raise ConfigurationError(f"this registry has not registered the agent {id!r}; its process unregisters it")
        if await self._store.hold(_lease_of(id), self._holder, self._lease):  # else another process has its id
            await self._store.change(CARDS, id, removing)
            await self._store.release(_lease_of(id), self._holder)

    async def aclose(self) -> None:
        """Remove all agents that this object has registered, for a short time at most, and stop renewing."""
        self._tasks.cancel()
        await self._tasks.finish(CLOSE_LIMIT)
        self._is_renewing = False
        staying = {*self._own}
        with anyio.move_on_after(REMOVAL_LIMIT):
            for id in list(self._own):
                try:
                    await self.unregister(id)
                    staying.discard(id)
                except Exception as error:  # noqa: BLE001 - a store is foreign code
                    logger.warning("The agent %r was not removed from the registry: %s", id, describe(error))
        self._own.clear()
        if staying:
            logger.warning("%d agents stay registered for up to %g s", len(staying), LEASE)

    async def _renew(self) -> None:
        while True:
            await anyio.sleep(RENEWAL)
            for card in list(self._own.values()):
                try:
                    await self._renew_one(card)
                except Exception as error:  # noqa: BLE001 - a store is foreign code; the others are renewed
                    logger.warning("The entry of the agent %r was not renewed: %s", card.id, describe(error))

    async def _renew_one(self, card: AgentCard) -> None:
        if self._own.get(card.id) is not card:  # it was removed or registered anew during this round
            return
        is_held = await self._store.hold(_lease_of(card.id), self._holder, self._lease)
        if card.id not in self._own:  # it was removed meanwhile
            await self._store.release(_lease_of(card.id), self._holder)
        elif is_held:
            await self._store.write(CARDS, card.id, self._own[card.id].to_json(), nx=True)
        elif self._own[card.id] is card:
            logger.warning("Another process has registered the agent %r", card.id)
            del self._own[card.id]


def _lease_of(id: str) -> str:
    return f"vivavoce.agents/{id}"


def _without(dead: str, text: str | None) -> tuple[str | None, None]:
    """Remove an entry whose process has died, if it is still that text: a `Change`."""
    return (None if text == dead else text), None

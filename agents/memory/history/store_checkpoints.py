"""StoreCheckpoints: keeps the records of running calls in a session store, for the workers of several machines."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import CALLS, Place, SessionStore
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError

PLACE = Place(CALLS, "calls")
"""Its entries are the records, by lease."""


class StoreCheckpoints(CheckpointStore):
    """Keeps the records of running calls, for `CrashSafety(store=…)`.

    With a RedisStore, a worker of another machine continues the calls of a worker that died. Each job process opens the
    store for itself. The records hold the words of running calls; the end of a call removes them.

    Args:
        store: A RedisStore or a SqliteStore; an InProcessStore keeps calls for its own process only, as in tests.
    """

    def __init__(self, store: SessionStore) -> None:
        check_instance("store", store, SessionStore)
        self._store = store

    def __reduce__(self) -> tuple[type[StoreCheckpoints], tuple[SessionStore]]:
        if isinstance(self._store, InProcessStore):
            raise ConfigurationError(
                "an InProcessStore cannot be sent to job processes; use RedisStore or SqliteStore, or "
                "WorkerOptions(executor=TaskExecution())"
            )
        return (StoreCheckpoints, (self._store,))

    async def write(self, checkpoint: Checkpoint) -> None:
        """Keep the record in place of the one with the same lease, if no other process owns that one."""

        def change(before: str | None) -> tuple[str | None, None]:
            is_foreign = before is not None and _checkpoint(before).owner != checkpoint.owner
            return (before if is_foreign else _text(checkpoint)), None

        await self._store.change(PLACE, checkpoint.lease, change)

    async def remove(self, lease: str, *, owner: str) -> None:
        """Remove a record, if it is there and `owner` owns it."""

        def change(before: str | None) -> tuple[str | None, None]:
            is_own = before is not None and _checkpoint(before).owner == owner
            return (None if is_own else before), None

        await self._store.change(PLACE, lease, change)

    async def read(self) -> list[Checkpoint]:
        """Return all records, without their conversations."""
        found = (_checkpoint(text) for text in (await self._store.read_all(PLACE)).values())
        return sorted((replace(call, conversation="") for call in found), key=lambda call: call.lease)

    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> Checkpoint | None:
        """Change the owner of a record, if `owner` owns it."""

        def change(before: str | None) -> tuple[str | None, Checkpoint | None]:
            found = None if before is None else _checkpoint(before)
            if found is None or found.owner != owner:
                return before, None
            claimed = replace(found, owner=by, written_at=at)
            return _text(claimed), claimed

        return await self._store.change(PLACE, lease, change)

    async def aclose(self) -> None:
        """Release the store's connections; a later call acquires them again."""
        await self._store.aclose()


def _text(checkpoint: Checkpoint) -> str:
    return json.dumps(asdict(checkpoint), ensure_ascii=False)


def _checkpoint(text: str) -> Checkpoint:
    return Checkpoint(**json.loads(text))

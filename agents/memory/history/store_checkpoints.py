"""StoreCheckpoints: keeps the records of running calls in a session store, for the workers of several machines."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import CALLS, Place, SessionStore
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError

CALLS_PLACE = Place(CALLS, "calls")
"""Its entries are the records without their conversations, by lease: workers read all of them every few seconds.

A record that is being removed is `{"removed_by": owner}` until its conversation is gone.
"""
WORDS_PLACE = Place(CALLS, "words")
"""Its entries are the conversations, each by lease and owner, so that each has one writer."""

REMOVED_BY = "removed_by"


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

        def change(before: str | None) -> tuple[str | None, bool]:
            kept = _checkpoint(before)
            is_own = kept is None or kept.owner == checkpoint.owner
            return (_text(checkpoint) if is_own else before), is_own

        lease, owner = checkpoint.lease, checkpoint.owner
        if await self._store.change(CALLS_PLACE, lease, change):
            await self._store.write(WORDS_PLACE, _entry(lease, owner), json.dumps(checkpoint.conversation))
            if await self._owner(lease) != owner:  # it was claimed meanwhile
                await self._forget(lease, owner)

    async def remove(self, lease: str, *, owner: str) -> None:
        """Remove a record, if it is there and `owner` owns it."""

        def change(before: str | None) -> tuple[str | None, bool]:
            kept = _checkpoint(before)
            is_own = kept is not None and kept.owner == owner
            return (json.dumps({REMOVED_BY: owner}) if is_own else before), is_own

        if await self._store.change(CALLS_PLACE, lease, change):
            await self._finish(lease, owner)

    async def read(self) -> list[Checkpoint]:
        """Return all records, without their conversations; finish removals whose process has died meanwhile."""
        found: list[Checkpoint] = []
        for lease, text in (await self._store.read_all(CALLS_PLACE)).items():
            if (kept := _checkpoint(text)) is not None:
                found.append(kept)
            else:
                await self._finish(lease, json.loads(text)[REMOVED_BY])
        return sorted(found, key=lambda call: call.lease)

    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> Checkpoint | None:
        """Change the owner of a record, if `owner` owns it."""

        def change(before: str | None) -> tuple[str | None, Checkpoint | None]:
            found = _checkpoint(before)
            if found is None or found.owner != owner:
                return before, None
            claimed = replace(found, owner=by, written_at=at)
            return _text(claimed), claimed

        words = await self._store.read(WORDS_PLACE, _entry(lease, owner))
        if words is not None and by != owner:  # before the claim: a process that dies in between loses no words
            await self._store.write(WORDS_PLACE, _entry(lease, by), words)
        claimed = await self._store.change(CALLS_PLACE, lease, change)
        if claimed is None:
            if by != owner and await self._owner(lease) != by:
                await self._forget(lease, by)
            return None
        if by != owner:
            await self._forget(lease, owner)
        return replace(claimed, conversation="" if words is None else json.loads(words))

    async def _owner(self, lease: str) -> str:
        kept = _checkpoint(await self._store.read(CALLS_PLACE, lease))
        return "" if kept is None else kept.owner

    async def _finish(self, lease: str, owner: str) -> None:
        """Finish a removal: the conversation first, so that none is left without its record."""

        def change(before: str | None) -> tuple[str | None, None]:
            return (None if _checkpoint(before) is None else before), None

        await self._forget(lease, owner)
        await self._store.change(CALLS_PLACE, lease, change)

    async def _forget(self, lease: str, owner: str) -> None:
        await self._store.change(WORDS_PLACE, _entry(lease, owner), lambda _: (None, None))

    async def aclose(self) -> None:
        """Release the store's connections; a later call acquires them again."""
        await self._store.aclose()


def _text(checkpoint: Checkpoint) -> str:
    return json.dumps(asdict(replace(checkpoint, conversation="")), ensure_ascii=False)


def _checkpoint(text: str | None) -> Checkpoint | None:
    """Return a record; None: there is none, or it is being removed."""
    facts = {} if text is None else json.loads(text)
    return None if not facts or REMOVED_BY in facts else Checkpoint(**facts)


def _entry(lease: str, owner: str) -> str:
    return f"{lease} {owner}"

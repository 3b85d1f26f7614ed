"""StoreCheckpoints: keeps the records of running calls in a session store, for the workers of several machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import CALLS, Place, SessionStore
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError

CALLS_PLACE = Place(CALLS, "calls")
"""Its entries are the records without their conversations, by lease: workers read all of them every few seconds.

A record has, as `words`, the owners whose entries of the conversation may exist, the newest last: a claim changes the
record alone, and a process that dies at any moment leaves no entry behind that no record names. A record that is being
removed is `{"removed": true, "words": owners}` until these entries are gone.
"""
WORDS_PLACE = Place(CALLS, "words")
"""Its entries are the conversations, each by lease and owner, so that each has one writer."""


@dataclass(frozen=True, slots=True)
class _Record:
    """An entry of `CALLS_PLACE`; without `call` there is none, or it is being removed."""

    call: Checkpoint | None
    words: tuple[str, ...]

    @classmethod
    def read(cls, text: str | None) -> _Record:
        facts: dict[str, Any] = {"removed": True, "words": []} if text is None else json.loads(text)
        words = tuple(facts.pop("words"))
        return cls(None if "removed" in facts else Checkpoint(**facts), words)

    @property
    def owner(self) -> str:
        return "" if self.call is None else self.call.owner

    def text(self) -> str:
        facts = {"removed": True} if self.call is None else asdict(replace(self.call, conversation=""))
        return json.dumps({**facts, "words": self.words}, ensure_ascii=False)


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
        lease, owner = checkpoint.lease, checkpoint.owner

        def begin(before: _Record) -> _Record | None:
            others = tuple(name for name in before.words if name != owner)
            return _Record(checkpoint, (*others, owner)) if before.owner in ("", owner) else None

        def end(before: _Record) -> _Record | None:
            return replace(before, words=(owner,)) if before.owner == owner else None

        begun = await self._change(lease, begin)
        if begun is None:
            return
        await self._store.write(WORDS_PLACE, _entry(lease, owner), json.dumps(checkpoint.conversation))
        kept = _Record.read(await self._store.read(CALLS_PLACE, lease))
        if owner not in kept.words:  # the call has ended meanwhile, or its new owner has written
            await self._forget(lease, [owner])
        elif len(kept.words) > 1:
            await self._forget(lease, begun.words[:-1])
            await self._change(lease, end)

    async def remove(self, lease: str, *, owner: str) -> None:
        """Remove a record, if it is there and `owner` owns it."""

        def begin(before: _Record) -> _Record | None:
            return replace(before, call=None) if before.owner == owner else None

        if (removed := await self._change(lease, begin)) is not None:
            await self._finish(lease, removed)

    async def read(self) -> list[Checkpoint]:
        """Return all records, without their conversations; finish removals whose process has died meanwhile."""
        found: list[Checkpoint] = []
        for lease, text in (await self._store.read_all(CALLS_PLACE)).items():
            record = _Record.read(text)
            if record.call is not None:
                found.append(record.call)
            else:
                await self._finish(lease, record)
        return sorted(found, key=lambda call: call.lease)

    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> Checkpoint | None:
        """Change the owner of a record, if `owner` owns it."""

        def take(before: _Record) -> _Record | None:
            if before.call is None or before.owner != owner:
                return None
            return replace(before, call=replace(before.call, owner=by, written_at=at))

        claimed = await self._change(lease, take)
        if claimed is None or claimed.call is None:
            return None
        newest_first = claimed.words[::-1]
        for name in newest_first * 2:  # again: the former owner may have moved them meanwhile
            words = await self._store.read(WORDS_PLACE, _entry(lease, name))
            if words is not None:
                return replace(claimed.call, conversation=json.loads(words))
        return claimed.call

    async def _change(self, lease: str, change: Callable[[_Record], _Record | None]) -> _Record | None:
        """Change a record atomically, and return the new one; None: it stays as it is."""

        def carry_out(before: str | None) -> tuple[str | None, _Record | None]:
            after = change(_Record.read(before))
            return (before if after is None else after.text()), after

        return await self._store.change(CALLS_PLACE, lease, carry_out)

    async def _finish(self, lease: str, removed: _Record) -> None:
        """Finish a removal: the conversation first, so that none is left without its record."""
        await self._forget(lease, removed.words)
        text = removed.text()
        await self._store.change(CALLS_PLACE, lease, lambda before: (None if before == text else before, None))

    async def _forget(self, lease: str, owners: Iterable[str]) -> None:
        for owner in owners:
            await self._store.change(WORDS_PLACE, _entry(lease, owner), lambda _: (None, None))

    async def aclose(self) -> None:
        """Release the store's connections; a later call acquires them again."""
        await self._store.aclose()


def _entry(lease: str, owner: str) -> str:
    return f"{lease} {owner}"

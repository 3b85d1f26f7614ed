"""CallsInStore: the records of running calls in a session store, for all processes that may go on with them.

A running call has one record. Its session writes the conversation into it after each turn; the end of the call removes
it. If the call's process dies, the record stays, and another process claims it and continues the call. A claim is a
change of the record's owner: of several processes that claim one record at the same time, one succeeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import CALLS, Place, SessionStore, removing
from vivavoce.pipelines.core.errors import ConfigurationError

CALLS_PLACE = Place(CALLS, "calls")
"""Its entries are the records without their conversations, by lease: workers read all of them every few seconds.

A record has, as `words`, the owners whose entries of the conversation may exist, the newest last: a claim changes the
record alone, and a process that dies at any moment leaves no entry behind that no record names. A record that is being
removed is `{"removed": true, "words": owners}` until these entries are gone.
"""
WORDS_PLACE = Place(CALLS, "words")
"""Its entries are the conversations, each by lease and owner, so that each has one writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCall:
    """A running call, as another process needs it to continue the call. It holds no key and no secret.

    Args:
        lease: Key of the record: the id of the call's first job. It stays the same when the call continues.
        owner: The process that has the call, in the words of the worker.
        url: The call's server.
        room: The call's room.
        agent_name: The name that the call's job was dispatched to.
        dispatch_id: The call's first dispatch.
        metadata: The dispatcher's metadata.
        attributes: The dispatcher's keys and values.
        identity: The agent's identity in the room; empty while it is not known.
        sid: The id that the server gave the agent when it joined the room; empty while it is not known.
        written_at: Time of the last change, in seconds since 1970.
        participant: The participant that the call's job is for; empty for a job of the room.
        dispatched: How often the call was dispatched again.
        conversation: The session's `snapshot()` as JSON text; empty before the first one.
    """

    lease: str
    owner: str
    url: str
    room: str
    agent_name: str = ""
    dispatch_id: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    identity: str = ""
    sid: str = ""
    written_at: float = 0.0
    participant: str = ""
    dispatched: int = 0
    conversation: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class _Record:
    """An entry of `CALLS_PLACE`. Without `call` it does not exist, or is being removed."""

    call: RunningCall | None
    words: tuple[str, ...]

    @classmethod
    def read(cls, text: str | None) -> _Record:
        facts: dict[str, Any] = {"removed": True, "words": []} if text is None else json.loads(text)
        words = tuple(facts.pop("words"))
        return cls(None if "removed" in facts else RunningCall(**facts), words)

    @property
    def owner(self) -> str:
        return "" if self.call is None else self.call.owner

    def text(self) -> str:
        facts = {"removed": True} if self.call is None else asdict(replace(self.call, conversation=""))
        return json.dumps({**facts, "words": self.words}, ensure_ascii=False)


class CallsInStore:
    """Keeps the records of running calls. They hold the words of the calls; the end of a call removes them.

    Args:
        store: With a store that machines share, a worker of another machine continues the calls of a worker that died.
    """

    def __init__(self, store: SessionStore) -> None:
        self.store = store

    def __reduce__(self) -> tuple[type[CallsInStore], tuple[SessionStore]]:
        if isinstance(self.store, InProcessStore):
            raise ConfigurationError(
                "an InProcessStore cannot be sent to job processes; use RedisStore or SqliteStore, or "
                "WorkerOptions(executor=TaskExecution())"
            )
        return (CallsInStore, (self.store,))

    async def write(self, call: RunningCall) -> None:
        """Store the record in place of the record with the same lease; no effect if another process owns that."""
        lease, owner = call.lease, call.owner

        def begin(before: _Record) -> _Record | None:
            others = tuple(name for name in before.words if name != owner)
            return _Record(call, (*others, owner)) if before.owner in ("", owner) else None

        def end(before: _Record) -> _Record | None:
            return replace(before, words=(owner,)) if before.owner == owner else None

        begun = await self._change(lease, begin)
        if begun is None:
            return
        await self.store.write(WORDS_PLACE, _entry(lease, owner), json.dumps(call.conversation))
        kept = _Record.read(await self.store.read(CALLS_PLACE, lease))
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

    async def read(self) -> list[RunningCall]:
        """Return all records, without their conversations; finish removals whose process has died meanwhile."""
        found: list[RunningCall] = []
        for lease, text in (await self.store.read_all(CALLS_PLACE)).items():
            record = _Record.read(text)
            if record.call is not None:
                found.append(record.call)
            else:
                await self._finish(lease, record)
        return sorted(found, key=lambda call: call.lease)

    async def claim(self, lease: str, *, owner: str, by: str, at: float) -> RunningCall | None:
        """Change the owner of a record and return the changed record, or None if it is gone or `owner` does not own it.

        Args:
            owner: The present owner.
            by: The new owner.
            at: The time, in seconds since 1970.
        """

        def take(before: _Record) -> _Record | None:
            if before.call is None or before.owner != owner:
                return None
            return replace(before, call=replace(before.call, owner=by, written_at=at))

        claimed = await self._change(lease, take)
        if claimed is None or claimed.call is None:
            return None
        newest_first = claimed.words[::-1]
        for name in newest_first * 2:  # again: the former owner may have moved them meanwhile
            words = await self.store.read(WORDS_PLACE, _entry(lease, name))
            if words is not None:
                return replace(claimed.call, conversation=json.loads(words))
        return claimed.call

    async def _change(self, lease: str, change: Callable[[_Record], _Record | None]) -> _Record | None:
        """Change a record atomically, and return the new record, or None if it stays as it is."""

        def carry_out(before: str | None) -> tuple[str | None, _Record | None]:
            after = change(_Record.read(before))
            return (before if after is None else after.text()), after

        return await self.store.change(CALLS_PLACE, lease, carry_out)

    async def _finish(self, lease: str, removed: _Record) -> None:
        """Finish a removal: the conversation first, so that none is left without its record."""
        await self._forget(lease, removed.words)
        text = removed.text()
        await self.store.change(CALLS_PLACE, lease, lambda before: (None if before == text else before, None))

    async def _forget(self, lease: str, owners: Iterable[str]) -> None:
        for owner in owners:
            await self.store.change(WORDS_PLACE, _entry(lease, owner), removing)

    async def aclose(self) -> None:
        """Release the store's connections; a later call acquires them again."""
        await self.store.aclose()


def _entry(lease: str, owner: str) -> str:
    return f"{lease} {owner}"

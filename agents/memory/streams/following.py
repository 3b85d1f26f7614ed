"""Reading and following streams: replay, then new items, without a task."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence

from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.session_state import GRACE, SessionState
from vivavoce.agents.memory.stores.limit import within
from vivavoce.agents.memory.stores.store import Place, Record
from vivavoce.agents.memory.streams.items import item_of
from vivavoce.agents.memory.streams.places import SESSION, place_of
from vivavoce.agents.memory.streams.registry import Registry, read_registry
from vivavoce.agents.streams import StreamItem
from vivavoce.pipelines.core.errors import StoreError

BATCH = 100
"""Items of one stream in one call."""

WAIT_SHARE = 0.5
"""The part of its limit for which a call waits for items; the store has the rest to answer."""

Select = Callable[[Registry], Collection[str] | None]
"""Returns the names of the streams to follow, or None to stop following."""


async def follow_one(base: MemoryBase, place: Place, start: int, *, waits: bool) -> AsyncGenerator[StreamItem, None]:
    """Yield the items of one stream, without its end.

    Raises:
        StoreUnavailable: The store did not answer in time.
        StoreError: The session was erased.
    """
    position, life = start, _Session(base)
    until = math.inf if waits else (await base.within(base.store.log_state(place))).next_index
    while position < until:
        records = (await _next_records(base, {place: position}, waits=waits)).get(place, [])
        item = None
        for item in map(item_of, records):
            if item.index >= until:
                return
            position = item.index + 1
            if not item.is_end:
                yield item
        if item is None and not waits:
            return
        if waits and (item is None or item.is_end) and await life.has_closed(place, position):
            return


async def follow_matching(
    base: MemoryBase, select: Select, positions: dict[str, int]
) -> AsyncGenerator[tuple[str, StreamItem], None]:
    """Yield the items of all selected streams with the streams' names, each stream's end included.

    Args:
        select: Called again when a stream or an agent was announced, and from time to time.
        positions: For each stream the index to go on with; noted when the next item is asked for.
    Raises:
        StoreUnavailable: The store did not answer in time.
        StoreError: The session was erased.
    """
    session, life, over = place_of(base, SESSION), _Session(base), set[str]()
    state = await base.within(base.store.log_state(session))
    announced = state.next_index  # the registry has what was announced before
    names: list[str] = []
    is_stale = True
    while True:
        if is_stale:
            selected = select(await read_registry(base) or Registry())
            if selected is None:
                return
            names = [name for name in selected if name not in over]
        places = {place_of(base, name): name for name in names}
        starts = {place: positions.get(name, 0) for place, name in places.items()}
        found = await _next_records(base, {**starts, session: announced}, waits=not state.closed_by)
        news = found.pop(session, [])
        announced = news[-1].index + 1 if news else announced
        if news and found:  # an agent may have been removed before these items were written: they are read again
            is_stale = True
            continue
        batches = {places[place]: [item_of(record) for record in records] for place, records in found.items()}
        ended = False
        for name, item in in_order(batches, BATCH):
            yield name, item
            positions[name] = item.index + 1
            if item.is_end and await life.has_closed(place_of(base, name), positions[name]):
                over.add(name)
                ended = True
        names = [name for name in names if name not in over]
        is_idle = not (news or found)
        is_stale = bool(news) or is_idle
        # The end of the session closes its own stream first; the ends of the others are waited for, within reason.
        if (is_idle or (not names and (news or ended))) and await life.has_ended():
            return


async def _next_records(base: MemoryBase, starts: Mapping[Place, int], *, waits: bool) -> dict[Place, list[Record]]:
    seconds = WAIT_SHARE * base.timeout if waits else 0.0
    return await within(seconds + base.timeout, base.store.follow(starts, BATCH, seconds))


class _Session:
    """Tells one reader whether the session of its streams still exists."""

    def __init__(self, base: MemoryBase) -> None:
        self._base = base
        self._held_at = base.clock.now()

    async def has_closed(self, place: Place, position: int) -> bool:
        """Return whether a stream that was read up to a position gets no more items.

        Raises:
            StoreError: The session was erased.
        """
        state = await self._base.within(self._base.store.log_state(place))
        if position < state.next_index:
            return False
        return bool(state.closed_by) or await self.has_ended()

    async def has_ended(self) -> bool:
        """Return whether the session has ended, or its process has died and no other one has resumed it.

        Raises:
            StoreError: It was erased.
        """
        base, clock = self._base, self._base.clock
        if await read_registry(base) is None:
            raise StoreError(f"the session {base.id!r} was erased with its streams")
        if (await base.within(base.store.log_state(place_of(base, SESSION)))).closed_by:
            return True
        has_lease = (await SessionState(base).read()).has_call  # a memory in this process only has none
        if not has_lease or await base.within(base.store.is_held(base.id)):
            self._held_at = clock.now()
        return clock.now() - self._held_at > GRACE


def in_order(batches: Mapping[str, Sequence[StreamItem]], size: int) -> list[tuple[str, StreamItem]]:
    """Merge the next items of several streams by their times; the order within a stream never changes.

    Args:
        size: A batch of that length may be incomplete: items of other streams that are later than its last one are left
            out for now.
    """
    entries: list[tuple[float, str, StreamItem]] = []
    horizon = math.inf
    for name, items in batches.items():
        latest = -math.inf
        for item in items:
            latest = max(latest, item.at)
            entries.append((latest, name, item))
        if len(items) >= size:
            horizon = min(horizon, latest)
    return [(name, item) for at, name, item in sorted(entries, key=lambda entry: entry[0]) if at <= horizon]

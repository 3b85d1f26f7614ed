"""Streams: the agents and streams of one memory, in the session's own process or in another one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from typing import Any

from vivavoce.agents.core.values import Json
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.streams.following import follow_matching
from vivavoce.agents.memory.streams.items import (
    ADD_AGENT,
    ADD_STREAM,
    REMOVE_AGENT,
    checked_name,
    control_text,
)
from vivavoce.agents.memory.streams.places import KEEP, SESSION, place_of
from vivavoce.agents.memory.streams.registry import AgentMember, Registry, change_registry, read_registry
from vivavoce.agents.memory.streams.stream import StoredStream, close_log
from vivavoce.agents.memory.streams.tags import Wanted, checked_tags, checked_wanted, matches
from vivavoce.agents.streams import Stream, StreamItem
from vivavoce.pipelines.core.checks import check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, StoreError

BY_SESSION = "session"
"""The reason of a log that was closed by the end of the session."""


class Streams:
    """Registers and announces agents and streams.

    Args:
        floor: Returns the id of the agent that has the conversation; empty in another process.
    """

    def __init__(self, base: MemoryBase, floor: Callable[[], str]) -> None:
        self._base = base
        self._floor = floor

    # --- agents

    async def add_agent(self, agent_id: str, tags: Sequence[Wanted], exclude: Sequence[Wanted]) -> bool:
        """Add an agent; return False, and change nothing, if it is there already."""
        member = AgentMember(
            id=checked_name("the agent's id", agent_id),
            tags=checked_wanted("tags", tags),
            exclude=checked_wanted("exclude", exclude),
        )

        def add(registry: Registry) -> bool:
            return registry.agents.setdefault(member.id, member) is member

        await self._check_open()
        is_new = await change_registry(self._base, add)
        if is_new:
            await self._announce(ADD_AGENT, {"agent": member.id})
        return is_new

    async def remove_agent(self, agent_id: str) -> bool:
        """Remove an agent; return False if it is not there."""
        name = checked_name("the agent's id", agent_id)
        await self._check_open()
        was_there = await change_registry(self._base, lambda registry: registry.agents.pop(name, None) is not None)
        if was_there:
            await self._announce(REMOVE_AGENT, {"agent": name})
        return was_there

    async def list_agents(self) -> list[AgentMember]:
        """Return the agents, including the agent with the floor."""
        registry = await read_registry(self._base) or Registry()
        registry.set_floor(self._floor() or registry.floor)
        return registry.members()

    # --- streams

    @property
    def session_stream(self) -> Stream:
        """The stream with the announcements."""
        return StoredStream(self._base, SESSION)

    async def open(self, name: str, tags: Collection[str]) -> Stream:
        """Return a stream; announce it if it, or one of its tags, is new."""
        await self.announce(name, tags, self._floor())
        return StoredStream(self._base, name)

    async def announce(self, stream: str, tags: Collection[str], creator: str) -> bool:
        """Register a stream and its tags, and announce them; return False if nothing is new.

        Raises:
            StoreError: The session has ended.
        """
        name, wanted = checked_name("the stream's name", stream), checked_tags(tags)
        if name == SESSION:
            raise ConfigurationError(f"need another name than {SESSION!r}, which is that of memory.stream")
        known = (await read_registry(self._base) or Registry()).streams.get(name)
        if known is not None and set(wanted) <= set(known.tags):
            return False
        await self._check_open()
        facts = await change_registry(self._base, lambda registry: registry.add_stream(name, wanted, creator))
        if facts is None:
            return False
        await self._announce(ADD_STREAM, {"stream": name, "agent": creator, "tags": list(facts.tags)})
        return True

    async def debug_info(self) -> dict[str, dict[str, Any]]:
        """Return creator, tags and length of each stream."""
        registry = await read_registry(self._base) or Registry()
        found: dict[str, dict[str, Any]] = {}
        for name, facts in registry.streams.items():
            state = await self._base.within(self._base.store.log_state(place_of(self._base, name)))
            length = min(state.next_index, KEEP) - bool(state.closed_by)  # the end is none of its items
            found[name] = {"creator": facts.creator, "tags": list(facts.tags), "length": length}
        return found

    def subscribe(
        self, tags: Sequence[Wanted], exclude: Sequence[Wanted], start: Mapping[str, int] | None = None
    ) -> AsyncGenerator[tuple[Stream, StreamItem], None]:
        """Return an iterator of the items of all matching streams, each with its stream."""
        wanted, unwanted = checked_wanted("tags", tags), checked_wanted("exclude", exclude)
        if not wanted:
            raise ConfigurationError("subscribe() needs a tag or more, got none; it would match no stream")
        return self._subscribe(wanted, unwanted, _checked_start(start))

    async def _subscribe(
        self, wanted: Sequence[Wanted], exclude: Sequence[Wanted], start: dict[str, int]
    ) -> AsyncGenerator[tuple[Stream, StreamItem], None]:
        async for name, item in follow_matching(self._base, lambda found: selected(found, wanted, exclude), start):
            yield StoredStream(self._base, name), item

    # --- begin and end

    async def reopen(self) -> None:
        """Open the streams again that the end of the session has closed."""
        await self._base.within(self._base.store.reopen(self._base.id, BY_SESSION))

    async def end(self) -> None:
        """End all streams: none can be announced or takes items any more."""
        await close_log(self._base, place_of(self._base, SESSION), by=BY_SESSION)
        for name in (await read_registry(self._base) or Registry()).streams:
            await close_log(self._base, place_of(self._base, name), by=BY_SESSION)

    async def _announce(self, code: str, args: Mapping[str, Json]) -> None:
        text = control_text(code, args, self._base.clock.wall())
        if await self._base.within(self._base.store.log(place_of(self._base, SESSION), [text], keep=KEEP)) is None:
            raise self._ended()

    async def _check_open(self) -> None:
        """Check that the session has not ended, before the registry is changed; the final check is in `_announce`."""
        state = await self._base.within(self._base.store.log_state(place_of(self._base, SESSION)))
        if state.closed_by:
            raise self._ended()

    def _ended(self) -> StoreError:
        return StoreError(f"the session {self._base.id!r} has ended; its agents and streams stay as they are")


def _checked_start(start: object) -> dict[str, int]:
    """Return a copy of the positions from which streams are read.

    Raises:
        ConfigurationError: They are none.
    """
    if start is None:
        return {}
    if not isinstance(start, Mapping) or not all(isinstance(name, str) for name in start):
        raise ConfigurationError(f"start must be a dict of names of streams and indexes, or None, got {shown(start)}")
    for name, index in start.items():
        check_whole(f"start[{name!r}]", index, at_least=0)
    return dict(start)


def selected(registry: Registry, wanted: Sequence[Wanted], exclude: Sequence[Wanted]) -> list[str]:
    """Return the names of the matching streams."""
    return [name for name, facts in registry.streams.items() if matches(facts.tags, wanted, exclude)]

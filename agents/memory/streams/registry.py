"""Registry: the agents and the streams of a session, in one entry of its store, which changes atomically."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vivavoce.agents.core.values import Json, decode, encode
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.streams.tags import Wanted

T = TypeVar("T")

NAMESPACE, ENTRY = "streams", "registry"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMember:
    """An agent of a session.

    Args:
        id: The agent's id.
        tags: It gets the items of streams that match one of them: a tag, or tags that must all match.
        exclude: It gets no items of streams that match one of these.
        has_floor: Whether it has the conversation.
    """

    id: str
    tags: tuple[Wanted, ...] = ()
    exclude: tuple[Wanted, ...] = ()
    has_floor: bool = False

    def to_json(self) -> dict[str, Json]:
        """Return its facts as JSON."""
        return {"id": self.id, "tags": _plain(self.tags), "exclude": _plain(self.exclude), "has_floor": self.has_floor}


@dataclass(frozen=True, slots=True)
class StreamFacts:
    """The facts of a stream.

    Args:
        creator: The id of the agent that opened or announced it; "runtime" for the transcripts; empty for another
            process.
    """

    creator: str
    tags: tuple[str, ...]


@dataclass(slots=True)
class Registry:
    """The content of the registry.

    Args:
        floor: The id of the agent that has the conversation.
    """

    agents: dict[str, AgentMember] = field(default_factory=dict)
    streams: dict[str, StreamFacts] = field(default_factory=dict)
    floor: str = ""

    def add_stream(self, name: str, tags: tuple[str, ...], creator: str) -> StreamFacts | None:
        """Add a stream, or tags to it; return its facts, or None if nothing is new."""
        before = self.streams.get(name)
        known = () if before is None else before.tags
        added = tuple(tag for tag in tags if tag not in known)
        if before is not None and not added:
            return None
        facts = StreamFacts(creator if before is None else before.creator, (*known, *added))
        self.streams[name] = facts
        return facts

    def set_floor(self, agent_id: str) -> None:
        """Note the agent that has the conversation."""
        self.floor = agent_id

    def members(self) -> list[AgentMember]:
        """Return the agents in the order in which they came, the one with the floor among them."""
        ids = dict.fromkeys((*self.agents, *([self.floor] if self.floor else [])))
        found = (self.agents.get(name, AgentMember(id=name)) for name in ids)
        return [
            AgentMember(id=one.id, tags=one.tags, exclude=one.exclude, has_floor=one.id == self.floor) for one in found
        ]


async def read_registry(base: MemoryBase) -> Registry | None:
    """Return the registry, or None if the session has none or was erased."""
    text = await base.within(base.store.read(base.place(NAMESPACE), ENTRY))
    return None if text is None else _decoded(text)


async def change_registry(base: MemoryBase, change: Callable[[Registry], T]) -> T:
    """Change the registry in place, atomically, and return the result; `change` may be called more than once.

    Raises:
        StoreValueError: The registry would become longer than 1 MiB.
    """

    def carry_out(before: str | None) -> tuple[str | None, T]:
        registry = Registry() if before is None else _decoded(before)
        result = change(registry)
        return _encoded(registry), result

    return await base.within(base.store.change(base.place(NAMESPACE), ENTRY, carry_out))


def _encoded(registry: Registry) -> str:
    return encode(
        {
            "agents": {
                one.id: {"tags": _plain(one.tags), "exclude": _plain(one.exclude)} for one in registry.agents.values()
            },
            "streams": {
                name: {"creator": facts.creator, "tags": list(facts.tags)} for name, facts in registry.streams.items()
            },
            "floor": registry.floor,
        }
    )


def _decoded(text: str) -> Registry:
    data: dict[str, Any] = decode(text)
    return Registry(
        agents={
            name: AgentMember(id=name, tags=_wanted(one["tags"]), exclude=_wanted(one["exclude"]))
            for name, one in data["agents"].items()
        },
        streams={name: StreamFacts(one["creator"], tuple(one["tags"])) for name, one in data["streams"].items()},
        floor=data["floor"],
    )


def _plain(entries: tuple[Wanted, ...]) -> list[Json]:
    return [entry if isinstance(entry, str) else list(entry) for entry in entries]


def _wanted(entries: list[Any]) -> tuple[Wanted, ...]:
    return tuple(entry if isinstance(entry, str) else tuple(entry) for entry in entries)

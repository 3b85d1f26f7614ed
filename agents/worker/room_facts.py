"""Facts of rooms, as the server's API returns them to a worker that looks for callers without an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomFacts:
    """A room that is open.

    Args:
        sid: The server's id of the room; a room of the same name that is opened later has another one.
        callers: Number of participants that are no agents; the server may be some seconds late with it.
    """

    name: str
    sid: str = ""
    callers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantFacts:
    """A participant of a room.

    Args:
        sid: The id that the server gave it when it joined; each of several with one identity has its own.
        is_agent: Whether it joined with the token of an agent.
        is_caller: Whether it is a person: neither an agent nor a service of the server.
        agent_name: The name that the agent's worker registered; None if it is unknown.
    """

    identity: str
    sid: str = ""
    is_agent: bool = False
    is_caller: bool = True
    agent_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchedJob:
    """A job that a worker has accepted, listed some seconds later. Only the development room lists how it ended.

    Args:
        identity: The identity of its agent.
        is_over: Whether it is known to have ended in success.
        error: The error of its code, if it is known to have failed.
    """

    id: str
    identity: str = ""
    is_over: bool = False
    error: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchFacts:
    """A dispatch of a room.

    Args:
        heals: The dispatch in whose place it was made; else empty.
        resumes: The lease of the call that it continues; else empty.
    """

    id: str
    agent_name: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    heals: str = ""
    resumes: str = ""
    jobs: tuple[DispatchedJob, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDispatch:
    """A dispatch that a worker makes, for a call whose own dispatch was lost or whose agent died."""

    room: str
    agent_name: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)
    heals: str = ""
    resumes: str = ""

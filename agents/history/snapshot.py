"""Snapshot: a conversation as JSON data that another session continues, after a crash, a deployment, a hot reload.

It holds the agent's id, the committed history (no call without its output, no unheard words), the userdata, the
counters that keep ids and sequence numbers unique, and the states of the session's extensions by their keys: `memory`
(`vivavoce.agents.memory`), `budget`, `graph`, and those that the application has added. It also holds the open work, a
turn of the user without an answer and tool calls that run: the new session answers. It does not hold options,
instructions, pipelines and keys: the application makes the new session with them. All data of the userdata is in it,
except the text of pydantic's `SecretStr`.

Version 1 had no memory, and in version 2 the memory held the states of budget and graph too.

Userdata is None, JSON data, a dataclass or a pydantic model. Values that JSON does not have (a datetime, a nested
dataclass) keep their type only if the new session receives a userdata of the same class, which is made from the data;
otherwise the userdata is plain data. A snapshot without userdata leaves the session's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.open_work import NO_OPEN_WORK, OpenWork
from vivavoce.pipelines.core.characters import whole_data
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatContext

SNAPSHOT_VERSION = 3
READABLE = (1, 2, SNAPSHOT_VERSION)
"""Versions that are read."""

TakeExtensions = Callable[[], Callable[[], Mapping[str, Any]]]
"""Takes the states of the extensions as they are now; the returned call makes their data, from any thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The conversation that a session continues.

    Args:
        last_sequence: The highest sequence number of any item, a removed one included.
        turns: The number of user turns.
        extensions: The states of extensions by their keys.
        unjudged: The ids of the caller's messages that wait for the verdict of a content guard.
        open_work: The turn without an answer, and the calls that had begun.
    """

    history: ChatContext
    userdata: Any = field(repr=False)
    last_sequence: int
    turns: int
    extensions: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unjudged: frozenset[str] = frozenset()
    open_work: OpenWork = field(default=NO_OPEN_WORK, repr=False)


def take_snapshot(
    *,
    session_id: str,
    agent: str,
    history: HistoryControl,
    userdata: object,
    turns: int,
    extensions: TakeExtensions,
    open_work: OpenWork,
    only_ids: bool = False,
) -> Callable[[], dict[str, Any]]:
    """Take the conversation as it is now.

    The returned call, from any thread, makes the data that `read_snapshot` takes, for `json.dumps`.

    Args:
        only_ids: Whether the history is a list of the ids of its items, for a store that has the items.
    Raises:
        ConfigurationError: The userdata cannot be JSON; the error names the part.
    """
    items, last_sequence, plain = history.copy(), history.last_sequence, _plain(userdata)
    states, unjudged = extensions(), [message.id for message in history.caller_words.unjudged]

    def data() -> dict[str, Any]:
        return {
            "version": SNAPSHOT_VERSION,
            "session_id": session_id,
            "agent": agent,
            "history": [item.id for item in items] if only_ids else items.to_json(images=True),
            "userdata": whole_data(plain),
            "counters": {"items": last_sequence, "turns": turns},
            "extensions": whole_data(states()),
            "unjudged": unjudged,
            "open": open_work.to_json(),
        }

    return data


def read_snapshot(data: object, *, agent: str, userdata: object) -> Snapshot:
    """Return the conversation to continue.

    Args:
        agent: The id of the session's agent.
        userdata: The new session's own; the snapshot's data becomes an object of its class.
    Raises:
        ConfigurationError: The snapshot is of another version or shape, of another agent, or its userdata does not fit.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"resume_from must be what snapshot() returned, got {type(data).__name__}")
    if data.get("version") not in READABLE:
        raise ConfigurationError(
            f"a snapshot must be of version {READABLE[0]} to {READABLE[-1]}, got {data.get('version')!r}; resume it "
            "with the release of vivavoce that took it"
        )
    if data.get("agent") != agent:
        raise ConfigurationError(
            f"the snapshot's conversation is with the agent {data.get('agent')!r}, got {agent!r}; make the session "
            'with the agent that snapshot["agent"] names'
        )
    counters = data.get("counters")
    if not isinstance(counters, Mapping) or any(type(counters.get(name)) is not int for name in ("items", "turns")):
        raise ConfigurationError("a snapshot needs counters with whole numbers for 'items' and 'turns'")
    history = ChatContext.from_json(data.get("history") or {})
    last = max([counters["items"], *(item.sequence for item in history)])
    given = _restored(data.get("userdata"), userdata)
    return Snapshot(
        history=history,
        userdata=given,
        last_sequence=last,
        turns=counters["turns"],
        extensions=_extensions(data),
        unjudged=_ids_of(data.get("unjudged", [])),
        open_work=OpenWork.read(data.get("open")),
    )


def _extensions(data: Mapping[str, Any]) -> Mapping[str, Any]:
    if data["version"] == SNAPSHOT_VERSION:
        given = data.get("extensions")
        if not isinstance(given, Mapping):
            raise ConfigurationError(f"a snapshot needs 'extensions' as an object, got {shown(given)}")
        return given
    memory = data.get("memory")
    if not isinstance(memory, Mapping):
        return {} if memory is None else {"memory": memory}
    states = {key: memory[key] for key in ("graph", "budget") if key in memory}
    own = {key: value for key, value in memory.items() if key not in states}
    if own.get("private") or own.get("positions") or own.get("namespaces", True):  # else it was that of a graph alone
        states["memory"] = own
    return states


def _ids_of(given: object) -> frozenset[str]:
    if not isinstance(given, list) or not all(isinstance(item_id, str) for item_id in given):
        raise ConfigurationError(f"a snapshot needs 'unjudged' as a list of ids of messages, got {shown(given)}")
    return frozenset(given)


def _plain(userdata: object) -> Any:
    if userdata is None:  # pydantic takes 0.1 s to load, which other calls of the event loop would wait for
        return None
    from pydantic_core import to_jsonable_python

    try:
        return to_jsonable_python(userdata)
    except Exception as error:  # noqa: BLE001 - serialising runs the userdata's own code
        place, part = _culprit(userdata, "userdata", set())
        raise ConfigurationError(
            f"{place} must be JSON data, a dataclass or a pydantic model, got {type(part).__name__}; "
            "keep what cannot be saved outside of userdata, or in a field that pydantic excludes"
        ) from error


def _culprit(value: object, place: str, above: set[int]) -> tuple[str, object]:
    """Return the place of the innermost part that cannot be JSON, and the part."""
    from pydantic_core import to_jsonable_python

    for name, part in _parts(value):
        if id(part) in above:
            return f"{place}{name} (which holds itself)", part
        try:
            to_jsonable_python(part)
        except Exception:  # noqa: BLE001 - the search is for this failure
            return _culprit(part, place + name, above | {id(value), id(part)})
    return place, value


def _parts(value: object) -> Iterator[tuple[str, object]]:
    from pydantic import BaseModel

    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{number}]", part) for number, part in enumerate(value))
    elif isinstance(value, BaseModel):
        yield from ((f".{name}", getattr(value, name)) for name in type(value).model_fields)
    elif is_dataclass(value) and not isinstance(value, type):
        yield from ((f".{part.name}", getattr(value, part.name)) for part in fields(value))


def _restored(plain: Any, given: object) -> Any:
    from pydantic import BaseModel, PydanticUserError, TypeAdapter, ValidationError

    if plain is None:
        return given
    kind = type(given)
    if not (is_dataclass(kind) or issubclass(kind, BaseModel)):
        return deepcopy(plain)  # sessions that continue one snapshot share nothing
    try:
        return TypeAdapter(kind).validate_python(plain)
    except ValidationError as error:
        places = "; ".join(f"{'.'.join(map(str, part['loc'])) or 'userdata'}: {part['msg']}" for part in error.errors())
        raise ConfigurationError(f"the snapshot's userdata does not make a {kind.__name__}: {places}") from None
    except (PydanticUserError, NameError) as error:
        raise ConfigurationError(f"{kind.__name__} cannot be made from a snapshot's userdata: {error}") from error

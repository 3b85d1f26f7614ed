"""The conversations of a dialogue as JSON, for snapshots. Times are wall time, since the session's clock ends with it.

A conversation that has ended is only known by its last message, which the other agent may send again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.dialogues.conversations import (
    MAX_CONVERSATIONS,
    Conversation,
    DialogueMessage,
    Ended,
    Kept,
    fingerprint,
)
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, describe

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.dialogues.edge import Edge, Node

V = TypeVar("V")

WAITING, SENDING = "waiting", "sending"
"""The state of a message that waits for its handlers, and of an own one whose delivery has not ended."""


@dataclass(frozen=True, slots=True)
class Times:
    """Translates between the session's clock and wall time, which is taken once.

    Args:
        now: The session's clock.
        wall: Wall time at that moment, in seconds since the Unix epoch.
    """

    now: float
    wall: float

    def wall_of(self, at: float) -> float:
        """Return the wall time of a time of the session's clock."""
        return self.wall - (self.now - at)

    def clock_of(self, wall: float) -> float:
        """Return a time of the session's clock, at most now, though the wall clock may have been set back."""
        return self.now - max(0.0, self.wall - wall)


# --- to JSON


def dialogue_data(
    structure: DialogueStructure, conversations: Mapping[str, Conversation], ended: Mapping[str, Ended], times: Times
) -> dict[str, Any]:
    """Return the conversations of a dialogue as JSON data."""
    over = dict(ended)
    going_on: list[dict[str, Any]] = []
    for id, one in conversations.items():
        if one.node is not None and structure.is_end(one.node) and not (one.waiting or one.sending):
            over[id] = Ended(one.used_at, _last_of(one))
        else:
            going_on.append(_conversation_data(id, one, times))
    newest = sorted(over, key=lambda id: over[id].used_at)[-MAX_CONVERSATIONS:]
    return {
        "name": structure.name,
        "digest": structure.digest,
        "conversations": going_on,
        "ended": [
            {"id": id, "used_at": times.wall_of(over[id].used_at), "last": over[id].last}
            for id in newest
            if over[id].last
        ],
    }


def _last_of(conversation: Conversation) -> str:
    last = conversation.messages[-1] if conversation.messages else None
    if last is None or not last.position or last.message.sender != conversation.peer:
        return ""
    return fingerprint(last.message.sender, last.position, last.model, last.text)


def _conversation_data(id: str, conversation: Conversation, times: Times) -> dict[str, Any]:
    return {
        "id": id,
        "peer": conversation.peer,
        "node": _name_of(conversation.node),
        "moves": conversation.moves,
        "used_at": times.wall_of(conversation.used_at),
        "messages": _messages_data(conversation, times),
    }


def _messages_data(conversation: Conversation, times: Times) -> list[dict[str, Any]]:
    written = [one for one in conversation.messages if one.text]
    numbers = {id(one): number for number, one in enumerate(written)}
    return [_message_data(one, conversation, times, numbers.get(id(one.answers), -1)) for one in written]


def _message_data(kept: Kept, conversation: Conversation, times: Times, answers: int) -> dict[str, Any]:
    state = WAITING if kept in conversation.waiting else SENDING if kept in conversation.sending else ""
    return {
        "model": kept.model,
        "content": kept.text,
        "sender": kept.message.sender,
        "receiver": kept.message.receiver,
        "at": times.wall_of(kept.message.at),
        "edge": _name_of(kept.edge),
        "before": _name_of(kept.before),
        "position": kept.position,
        "state": state,
        "answers": answers,
    }


def _name_of(part: Node | Edge | None) -> str:
    return "" if part is None else part.name


# --- from JSON


@dataclass(frozen=True, slots=True)
class SavedDialogue:
    """The conversations of a dialogue in a snapshot, whose shape is checked, and whose contents are not."""

    name: str
    digest: str
    conversations: Mapping[str, Mapping[str, Any]]
    ended: Mapping[str, Mapping[str, Any]]


def saved_dialogues(data: object) -> list[SavedDialogue]:
    """Return the dialogues of a snapshot.

    Raises:
        ConfigurationError: The data have another shape.
    """
    if not isinstance(data, Mapping):
        raise ConfigurationError(f"a snapshot's dialogues must be what snapshot() returned, got {shown(data)}")
    return [_saved(one) for one in _list(data, "dialogues")]


def _saved(data: Mapping[str, Any]) -> SavedDialogue:
    conversations, ended = _list(data, "conversations"), _list(data, "ended")
    for one in conversations:
        for key, kind in (("id", str), ("peer", str), ("node", str), ("moves", int)):
            _part(one, key, kind)
        _time(one, "used_at")
        for message in _list(one, "messages"):
            for key in ("model", "content", "sender", "receiver", "edge", "before", "state"):
                _part(message, key, str)
            _part(message, "position", int), _part(message, "answers", int)
            _time(message, "at")
    for one in ended:
        _part(one, "id", str), _part(one, "last", str), _time(one, "used_at")
    return SavedDialogue(
        name=_part(data, "name", str),
        digest=_part(data, "digest", str),
        conversations={one["id"]: one for one in conversations},
        ended={one["id"]: one for one in ended},
    )


def _list(data: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = _part(data, key, list)
    if not all(isinstance(one, Mapping) for one in found):
        raise ConfigurationError(f"a snapshot's dialogues need {key!r} as a list of objects")
    return found


def _part(data: Mapping[str, Any], key: str, kind: type[V]) -> V:
    value = data.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ConfigurationError(
            f"a snapshot's dialogues need {key!r} as {kind.__name__}, got {type(value).__name__}; give what snapshot() "
            "returned"
        )
    return value


def _time(data: Mapping[str, Any], key: str) -> float:
    value = data.get(key)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ConfigurationError(f"a snapshot's dialogues need {key!r} as seconds, got {type(value).__name__}")
    return float(value)


def ended_of(saved: SavedDialogue, times: Times) -> dict[str, Ended]:
    """Return the conversations that had ended, by their ids."""
    return {id: Ended(times.clock_of(one["used_at"]), one["last"]) for id, one in saved.ended.items()}


def conversations_of(
    saved: SavedDialogue, structure: DialogueStructure, times: Times
) -> tuple[dict[str, Conversation], list[Exception]]:
    """Return the conversations that go on, by their ids, and an error if there are others."""
    made: dict[str, Conversation] = {}
    failed: list[Exception] = []
    for id, data in saved.conversations.items():
        try:
            made[id] = _conversation_of(data, structure, times)
        except Exception as error:  # noqa: BLE001 - the user-callback boundary: validators of models
            failed.append(error)
    if not failed:
        return made, []
    return made, [
        ConfigurationError(
            f"{len(failed)} of {len(saved.conversations)} conversations of the dialogue {saved.name!r} are not "
            f"continued, since the snapshot does not fit: {describe(failed[0])}"
        )
    ]


def changed_error(saved: SavedDialogue, digest: str | None) -> ConfigurationError:
    """Return the error for a dialogue that the session does not have as it was.

    Args:
        digest: Of the session's dialogue with that name; None without one.
    """
    count = len(saved.conversations)
    why = "the session has no dialogue of that name" if digest is None else f"its digest is {digest} now"
    return ConfigurationError(
        f"{count} conversation{'' if count == 1 else 's'} of the dialogue {saved.name!r} cannot be continued: the "
        f"snapshot's has the digest {saved.digest}, and {why}; resume them with the definition that they began with"
    )


def _conversation_of(data: Mapping[str, Any], structure: DialogueStructure, times: Times) -> Conversation:
    """Return a conversation as it was.

    Raises:
        ConfigurationError: The dialogue has no such node or edge, or a message does not fit its model.
        Exception: A validator of a model has failed.
    """
    made = Conversation(times.clock_of(data["used_at"]), data["peer"], _node_of(data["node"], structure), data["moves"])
    read: dict[int, Kept] = {}
    """The messages, by their numbers in the data."""
    for number, one in enumerate(data["messages"]):
        edge = structure.edge(one["edge"]) if one["edge"] else None
        model = next((other.model for other in structure.edges if other.digest == one["model"]), None)
        if model is None and edge is None:
            continue  # a message of the application's own, of a model that the dialogue does not have
        content = _content_of(one["content"], model)
        message = DialogueMessage(
            model=type(content).__name__,
            content=content,
            sender=one["sender"],
            receiver=one["receiver"],
            at=times.clock_of(one["at"]),
        )
        before, answers = _node_of(one["before"], structure), read.get(one["answers"])
        read[number] = kept = Kept(message, one["content"], edge, before, one["position"], answers)
        if edge is not None and one["state"] == WAITING:
            made.waiting.append(kept)
        elif edge is not None and one["state"] == SENDING:
            made.sending.append(kept)
    made.messages.extend(read.values())
    return made


def _content_of(text: str, model: type[BaseModel] | None) -> BaseModel:
    from pydantic import ValidationError

    if model is None:
        raise ConfigurationError("a message is of a model that the dialogue does not have")
    try:
        with application_code(f"validators of the model {model.__name__}"):
            return model.model_validate_json(text, by_alias=False, by_name=True)
    except ValidationError:  # whose text quotes the content
        raise ConfigurationError(f"a message does not fit the model {model.__name__}") from None


def _node_of(name: str, structure: DialogueStructure) -> Node | None:
    if not name:
        return None
    for node in structure.nodes:
        if node.name == name:
            return node
    raise ConfigurationError(f"the dialogue {structure.name!r} has no node {name!r}")

"""Conversations: the conversations of one dialogue by their ids: place, messages, idle time. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vivavoce.agents.dialogues.edge import Edge, Message, Node
from vivavoce.agents.dialogues.structure import DialogueStructure
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pydantic import BaseModel


MAX_CONVERSATIONS = 1000
"""Conversations of one dialogue; one more removes another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueMessage:
    """A message of a conversation.

    Args:
        model: Name of its model.
        at: Session clock, seconds.
    """

    model: str
    content: BaseModel = field(repr=False)
    sender: str
    receiver: str
    at: float


@dataclass(frozen=True, slots=True)
class Move:
    """A move of a conversation, for `take_back()`.

    Args:
        before: The node before, or None if the conversation began with this move.
        number: Counts the moves of the conversation.
    """

    edge: Edge
    before: Node | None
    number: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A conversation that was removed, as it was.

    Args:
        peer: Id of the agent that it was with; "" if no message was sent or received.
        state: Name of its node; "" if it had not moved.
        is_finished: Whether no message could follow.
    """

    session_id: str
    peer: str
    state: str
    is_finished: bool


@dataclass(slots=True)
class _Conversation:
    used_at: float
    peer: str = ""
    node: Node | None = None
    moves: int = 0
    messages: list[DialogueMessage] = field(default_factory=list)


class Conversations:
    """The conversations of one dialogue.

    With more than `MAX_CONVERSATIONS`, one is due for removal at once: of the finished conversations the one that has
    been idle for longest, or of all if none is finished.

    Args:
        timeout: Idle seconds after which a conversation is removed; 0: never.
    """

    def __init__(self, structure: DialogueStructure, timeout: float) -> None:
        self._structure = structure
        self._timeout = timeout or math.inf
        self._all: dict[str, _Conversation] = {}

    def state(self, session_id: str) -> str:
        """Return the name of the conversation's node; "" if it is unknown or has not moved."""
        found = self._all.get(session_id)
        return "" if found is None or found.node is None else found.node.name

    def is_finished(self, session_id: str) -> bool:
        """Return whether the conversation has ended: no message may follow."""
        found = self._all.get(session_id)
        return found is not None and found.node is not None and self._structure.is_end(found.node)

    def next_edge(self, session_id: str, message: Message) -> Edge | None:
        """Return the edge that a message takes now, or None if it may not come now."""
        return self._structure.next_edge(self._node(session_id), message)

    def may_come(self, session_id: str, message: Message) -> bool:
        """Return whether the message may come now."""
        return self.next_edge(session_id, message) is not None

    def expectation(self, session_id: str) -> str:
        """Return the messages that may come now, as the beginning of a sentence."""
        edges = self._structure.edges_from(self._node(session_id))
        models = " or ".join(edge.model.__name__ for edge in edges if edge.model is not None)
        expected = models or "no message, since the conversation is over"
        return f"the dialogue {self._structure.name!r} expects {expected}"

    def peer(self, session_id: str) -> str | None:
        """Return the id of the other agent; "" if that is not known yet, None if the conversation is unknown."""
        found = self._all.get(session_id)
        return None if found is None else found.peer

    def move(self, session_id: str, message: Message, now: float, peer: str = "") -> Move:
        """Move the conversation along the message's edge. An unknown id begins a conversation.

        Args:
            peer: The agent at the other end, if it is known.
        Raises:
            ConfigurationError: The message may not come now.
        """
        edge = self.next_edge(session_id, message)
        if edge is None:
            raise ConfigurationError(f"{self.expectation(session_id)}, got {_named(message)}")
        found = self._all.setdefault(session_id, _Conversation(now))
        move = Move(edge, found.node, found.moves + 1)
        found.node, found.used_at, found.moves, found.peer = edge.child, now, move.number, peer or found.peer
        return move

    def take_back(self, session_id: str, move: Move, message: DialogueMessage) -> None:
        """Undo a move and forget its message, which did not arrive; a conversation that began with it is removed.

        A conversation that has moved on since then stays where it is.
        """
        found = self._all.get(session_id)
        if found is None or found.moves != move.number:
            return
        found.messages = [one for one in found.messages if one is not message]
        found.node = move.before
        if move.before is None and not found.messages:
            del self._all[session_id]

    def add(self, session_id: str, message: DialogueMessage) -> None:
        """Keep a message. An unknown id begins a conversation."""
        found = self._all.setdefault(session_id, _Conversation(message.at))
        found.messages.append(message)
        found.used_at = message.at

    def messages(self, session_id: str, model: str | None = None) -> list[DialogueMessage]:
        """Return the messages of a conversation, or only those of `model`."""
        found = self._all.get(session_id)
        return [] if found is None else [one for one in found.messages if model in (None, one.model)]

    def remove(self, session_id: str) -> Removed | None:
        """Forget a conversation; return its last state, or None if it was unknown."""
        found = self._all.get(session_id)
        if found is None:
            return None
        state, is_finished = self.state(session_id), self.is_finished(session_id)
        del self._all[session_id]
        return Removed(session_id, found.peer, state, is_finished)

    def next_deadline(self) -> float | None:
        """Return when the next conversation is due for removal; a time in the past if there are too many."""
        oldest = min((one.used_at for one in self._all.values()), default=math.inf)
        due = oldest if len(self._all) > MAX_CONVERSATIONS else oldest + self._timeout
        return due if due < math.inf else None

    def expire(self, now: float) -> list[Removed]:
        """Remove the conversations that have been idle for too long, then those above the limit; return them."""
        by_age = sorted(self._all, key=lambda session_id: self._all[session_id].used_at)
        due = [one for one in by_age if self._all[one].used_at + self._timeout <= now]
        left = sorted(by_age[len(due) :], key=lambda session_id: not self.is_finished(session_id))
        due += left[: max(0, len(left) - MAX_CONVERSATIONS)]
        return [removed for session_id in due if (removed := self.remove(session_id)) is not None]

    def _node(self, session_id: str) -> Node | None:
        found = self._all.get(session_id)
        return None if found is None else found.node


def _named(message: Message) -> str:
    if isinstance(message, str):
        return f"a message with the digest {message!r}"
    return (message if isinstance(message, type) else type(message)).__name__

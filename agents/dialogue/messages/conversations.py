"""Conversations: the conversations of one dialogue by their ids: place, messages, idle time. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel

from vivavoce.agents.dialogue.messages.edge import Message, Node
from vivavoce.agents.dialogue.messages.structure import DialogueStructure
from vivavoce.pipelines.core.errors import ConfigurationError


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


@dataclass(slots=True)
class _Conversation:
    used_at: float
    node: Node | None = None
    messages: list[DialogueMessage] = field(default_factory=list)


class Conversations:
    """The conversations of one dialogue.

    Args:
        timeout: Idle seconds after which a conversation is removed; 0: never.
    """

    def __init__(self, structure: DialogueStructure, timeout: float) -> None:
        self._structure = structure
        self._timeout = timeout
        self._all: dict[str, _Conversation] = {}

    def state(self, session_id: str) -> str:
        """Return the name of the conversation's node; "" if it is unknown or has not moved."""
        found = self._all.get(session_id)
        return "" if found is None or found.node is None else found.node.name

    def is_finished(self, session_id: str) -> bool:
        """Return whether no message may follow."""
        found = self._all.get(session_id)
        return found is not None and found.node is not None and self._structure.is_end(found.node)

    def may_come(self, session_id: str, message: Message) -> bool:
        """Return whether that message may come now."""
        return self._structure.next_edge(self._node(session_id), message) is not None

    def expected(self, session_id: str) -> list[str]:
        """Return the names of the models that may come now."""
        edges = self._structure.edges_from(self._node(session_id))
        return [edge.model.__name__ for edge in edges if edge.model is not None]

    def move(self, session_id: str, message: Message, now: float) -> None:
        """Move the conversation along the message's edge; an unknown one begins.

        Raises:
            ConfigurationError: The message may not come now.
        """
        edge = self._structure.next_edge(self._node(session_id), message)
        if edge is None:
            expected = " or ".join(self.expected(session_id)) or "no message, since the conversation is over"
            raise ConfigurationError(f"the dialogue {self._structure.name!r} expects {expected}, got {_named(message)}")
        found = self._all.setdefault(session_id, _Conversation(now))
        found.node, found.used_at = edge.child, now

    def add(self, session_id: str, message: DialogueMessage) -> None:
        """Keep a message; an unknown conversation begins."""
        found = self._all.setdefault(session_id, _Conversation(message.at))
        found.messages.append(message)
        found.used_at = message.at

    def messages(self, session_id: str, model: str | None = None) -> list[DialogueMessage]:
        """Return the messages of a conversation, of one model if it is named."""
        found = self._all.get(session_id)
        return [] if found is None else [one for one in found.messages if model in (None, one.model)]

    def remove(self, session_id: str) -> bool:
        """Forget a conversation; return whether there was one."""
        return self._all.pop(session_id, None) is not None

    def next_deadline(self) -> float | None:
        """Return when the next conversation has been idle for too long."""
        if not self._timeout:
            return None
        return min((one.used_at + self._timeout for one in self._all.values()), default=None)

    def expire(self, now: float) -> list[str]:
        """Remove the conversations that have been idle for too long; return their ids, the longest idle first."""
        if not self._timeout:
            return []
        due = sorted(
            (one.used_at, session_id) for session_id, one in self._all.items() if one.used_at + self._timeout <= now
        )
        for _, session_id in due:
            del self._all[session_id]
        return [session_id for _, session_id in due]

    def _node(self, session_id: str) -> Node | None:
        found = self._all.get(session_id)
        return None if found is None else found.node


def _named(message: Message) -> str:
    if isinstance(message, str):
        return f"a message with the digest {message!r}"
    return (message if isinstance(message, type) else type(message)).__name__

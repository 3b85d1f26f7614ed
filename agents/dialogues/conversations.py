"""Conversations: the conversations of one dialogue by their ids: place, messages, idle time. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vivavoce.agents.dialogues.edge import Edge, Message, Node, digest_of, sha256_of
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


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A message as a conversation keeps it.

    Args:
        text: The message as JSON; "" if it cannot be JSON, so that no snapshot has it.
        edge: The edge that it took; None if the application has added it.
        before: The node before it; None if the conversation began with it.
        position: Which message of the conversation it is, from 1 on, by the count of its sender; 0: not known.
        answers: The message whose handlers have sent it.
    """

    message: DialogueMessage
    text: str = field(repr=False)
    edge: Edge | None = None
    before: Node | None = None
    position: int = 0
    answers: Kept | None = field(default=None, repr=False)

    @property
    def model(self) -> str:
        """The digest of its model."""
        return digest_of(self.message.content) if self.edge is None else self.edge.digest


@dataclass(frozen=True, slots=True)
class Ended:
    """A conversation that had ended before the session was resumed: its last message may still be sent again.

    Args:
        last: The fingerprint of its last message; "" if that was an own one.
    """

    used_at: float
    last: str


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
class Conversation:
    """The state of one conversation.

    Args:
        used_at: When it had its last message, by the session's clock.
        moves: How often it has moved.
        waiting: The messages that have come and whose handlers have not ended, or whose answer has not arrived.
        sending: The own messages whose delivery has not ended.
    """

    used_at: float
    peer: str = ""
    node: Node | None = None
    moves: int = 0
    messages: list[Kept] = field(default_factory=list)
    waiting: list[Kept] = field(default_factory=list)
    sending: list[Kept] = field(default_factory=list)

    def copy(self) -> Conversation:
        """Return a copy that does not change."""
        return replace(self, messages=self.messages.copy(), waiting=self.waiting.copy(), sending=self.sending.copy())


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
        self._all: dict[str, Conversation] = {}
        self._ended: dict[str, Ended] = {}

    @property
    def ids(self) -> list[str]:
        """The ids of all conversations, in the order of their begin."""
        return list(self._all)

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

    def move(self, session_id: str, message: Message, now: float, peer: str = "") -> tuple[Edge, Node | None]:
        """Move the conversation along the message's edge. An unknown id begins a conversation.

        Args:
            peer: The agent at the other end, if it is known.
        Returns:
            The edge, and the node before, or None if the conversation begins.
        Raises:
            ConfigurationError: The message may not come now.
        """
        edge = self.next_edge(session_id, message)
        if edge is None:
            raise ConfigurationError(f"{self.expectation(session_id)}, got {_named(message)}")
        found = self._all.setdefault(session_id, Conversation(now))
        before, found.node = found.node, edge.child
        found.used_at, found.moves, found.peer = now, found.moves + 1, peer or found.peer
        return edge, before

    def send(self, session_id: str, message: DialogueMessage, text: str, answers: Kept | None = None) -> Kept:
        """Move along the edge of an own message, and keep it, until `delivered()` or `take_back()`.

        Args:
            text: The message as JSON.
            answers: The message whose handlers send it: it waits no more.
        Raises:
            ConfigurationError: The message may not come now.
        """
        edge, before = self.move(session_id, message.content, message.at, message.receiver)
        found = self._all[session_id]
        kept = Kept(message, text, edge, before, found.moves, answers)
        found.messages.append(kept)
        found.sending.append(kept)
        if answers is not None:
            self.handled(session_id, answers)
        return kept

    def receive(self, session_id: str, message: DialogueMessage, text: str, position: int, edge: Edge) -> Kept:
        """Move along the edge of a message that has come, and keep it; it waits for its handlers.

        Args:
            text: The message as JSON.
            position: As in the envelope.
            edge: The edge that it takes, as of `next_edge()`.
        """
        _, before = self.move(session_id, edge.digest, message.at, message.sender)
        found = self._all[session_id]
        kept = Kept(message, text, edge, before, position)
        found.messages.append(kept)
        found.waiting.append(kept)
        return kept

    def repeated(self, session_id: str, sender: str, position: int, model: str, text: str) -> Kept | Ended | None:
        """Return the message, if it has come before, or the ended conversation whose last message it was."""
        if not position:
            return None
        found = self._all.get(session_id)
        if found is None:
            ended = self._ended.get(session_id)
            is_last = ended is not None and ended.last == fingerprint(sender, position, model, text)
            return ended if is_last else None
        if position > found.moves:
            return None
        for one in reversed(found.messages):
            if (one.position, one.message.sender, one.text) == (position, sender, text) and one.model == model:
                return one
        return None

    def handled(self, session_id: str, kept: Kept) -> None:
        """Note that a message waits for its handlers no more."""
        if (found := self._all.get(session_id)) is not None and kept in found.waiting:
            found.waiting.remove(kept)

    def waits(self, session_id: str, kept: Kept) -> bool:
        """Return whether a message waits for its handlers, or for its answer."""
        found = self._all.get(session_id)
        return found is not None and kept in found.waiting

    def delivered(self, session_id: str, kept: Kept) -> None:
        """Note that an own message has arrived."""
        if (found := self._all.get(session_id)) is not None and kept in found.sending:
            found.sending.remove(kept)

    def take_back(self, session_id: str, kept: Kept) -> None:
        """Undo the move of an own message that did not arrive, and forget it; a conversation that began with it is
        removed. The message that it answers waits for its handlers again.

        A conversation that has moved on since then stays where it is.
        """
        self.delivered(session_id, kept)
        found = self._all.get(session_id)
        if found is None or found.moves != kept.position:
            return
        if kept.answers is not None and kept.answers not in found.waiting:
            found.waiting.append(kept.answers)
        found.messages = [one for one in found.messages if one is not kept]
        found.node, found.moves = kept.before, found.moves - 1
        if kept.before is None and not found.messages:
            del self._all[session_id]

    def add(self, session_id: str, message: DialogueMessage, text: str = "") -> None:
        """Keep a message that the application has added. An unknown id begins a conversation.

        Args:
            text: The message as JSON; "" if it cannot be JSON.
        """
        found = self._all.setdefault(session_id, Conversation(message.at))
        found.messages.append(Kept(message, text))
        found.used_at = message.at

    def messages(self, session_id: str, model: str | None = None) -> list[DialogueMessage]:
        """Return the messages of a conversation, or only those of `model`."""
        found = self._all.get(session_id)
        kept = [] if found is None else [one.message for one in found.messages]
        return [one for one in kept if model in (None, one.model)]

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
        self._ended = {id: one for id, one in self._ended.items() if one.used_at + self._timeout > now}
        by_age = sorted(self._all, key=lambda session_id: self._all[session_id].used_at)
        due = [one for one in by_age if self._all[one].used_at + self._timeout <= now]
        left = sorted(by_age[len(due) :], key=lambda session_id: not self.is_finished(session_id))
        due += left[: max(0, len(left) - MAX_CONVERSATIONS)]
        return [removed for session_id in due if (removed := self.remove(session_id)) is not None]

    # --- snapshots

    def taken(self) -> tuple[dict[str, Conversation], dict[str, Ended]]:
        """Return copies of the conversations, and those that had ended before the session was resumed, by their ids."""
        return {id: one.copy() for id, one in self._all.items()}, dict(self._ended)

    def restore(self, conversations: Mapping[str, Conversation], ended: Mapping[str, Ended]) -> None:
        """Go on with the conversations of a snapshot."""
        self._all.update(conversations)
        self._ended.update(ended)

    def open_work(self) -> list[tuple[str, Conversation]]:
        """Return the conversations with messages that wait, or that are being sent, by their ids."""
        return [(id, one.copy()) for id, one in self._all.items() if one.waiting or one.sending]

    def _node(self, session_id: str) -> Node | None:
        found = self._all.get(session_id)
        return None if found is None else found.node


def fingerprint(sender: str, position: int, model: str, text: str) -> str:
    """Return the fingerprint of a message by its sender, its position, the digest of its model and its JSON."""
    return sha256_of([sender, position, model, text])


def _named(message: Message) -> str:
    if isinstance(message, str):
        return f"a message with the digest {message!r}"
    return (message if isinstance(message, type) else type(message)).__name__

"""MessageChannel: the port by which the sessions of several agents exchange messages.

A member of a channel is a session. Its address is the id of the agent that it started with, which it keeps through
handoffs. The digest of a dialogue is the address of all members that speak it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageStatus:
    """How the delivery of a message ended.

    Args:
        status: The receiver has taken it; it has rejected it, since it expects another message; or it could not be
            reached. Unless it was delivered, the conversation has not moved.
        destination: Id of the agent that it was sent to.
        session_id: Id of the conversation.
        detail: Why it was not delivered, with the names of the models that the receiver expects. Never any content.
    """

    status: Literal["delivered", "rejected", "failed"]
    destination: str
    session_id: str
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """A message, or a notice, on its way from one member to another.

    Args:
        kind: A message, or the notice that the conversation was removed, since it was idle for too long.
        dialogue: Digest of the dialogue.
        session_id: Id of the conversation.
        sender: Id of the agent that sends it.
        receiver: Id of the agent that gets it.
        model: Digest of the message's model; "" for a notice.
        content: The message as JSON; "" for a notice.
        position: Which message of the conversation it is, from 1 on, by the count of its sender. A message that is sent
            again has the same position and content, and is taken once; 0: not known.
    """

    kind: Literal["message", "expired"]
    dialogue: str
    session_id: str
    sender: str
    receiver: str
    model: str = ""
    content: str = field(default="", repr=False)
    position: int = 0

    def status(self, status: Literal["delivered", "rejected", "failed"], detail: str = "") -> MessageStatus:
        """Return how its delivery ended."""
        return MessageStatus(status=status, destination=self.receiver, session_id=self.session_id, detail=detail)


class ChannelMember(Protocol):
    """A session on a channel."""

    @property
    def id(self) -> str:
        """Id of its agent, its address."""
        ...

    @property
    def digests(self) -> frozenset[str]:
        """The digests of the dialogues that it speaks."""
        ...

    def receive(self, envelope: Envelope) -> MessageStatus:
        """Take or reject a message, at once. Call it on the event loop in which the member has joined."""
        ...


@runtime_checkable
class KeepingMember(ChannelMember, Protocol):
    """A member that keeps its messages in a store, as each session does that has one."""

    async def kept(self) -> None:
        """Wait until the store has all messages that were taken, for a short time. Call it as `receive`."""
        ...


async def taken(member: ChannelMember, envelope: Envelope) -> MessageStatus:
    """Have a member take or reject a message; return its answer when the member's store has a message that it took."""
    status = member.receive(envelope)
    if status.status == "delivered" and isinstance(member, KeepingMember):
        await member.kept()
    return status


class MessageChannel(ABC):
    """Connects sessions. The application makes it and gives it to them by `DialogueOptions(channel=…)`.

    A session gives each call a limit, after which the call is cancelled. `taken()` hands an envelope to a member, and
    waits until the member's store has the message.
    """

    @abstractmethod
    async def join(self, member: ChannelMember) -> None:
        """Add a member, until `leave()`.

        Raises:
            ConfigurationError: The channel has another member of that id.
        """

    @abstractmethod
    async def leave(self, member: ChannelMember) -> None:
        """Remove a member; fine if it has not joined."""

    @abstractmethod
    async def speakers(self, digest: str) -> Sequence[str]:
        """Return the ids of the members that speak a dialogue."""

    @abstractmethod
    async def deliver(self, envelope: Envelope) -> MessageStatus:
        """Hand an envelope to its receiver and return its answer; `failed` if there is no such member."""

"""DialogueContext: the argument `ctx` of the handlers of a dialogue."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

from vivavoce.agents.core.message_channel import MessageStatus
from vivavoce.agents.dialogues.conversations import DialogueMessage
from vivavoce.agents.session_type import Session

if TYPE_CHECKING:
    from pydantic import BaseModel

Messages: TypeAlias = Callable[[], list[DialogueMessage]]
"""Returns the messages of a conversation."""
Send: TypeAlias = "Callable[[str, BaseModel], Awaitable[MessageStatus]]"
"""Sends the next message of a conversation to an agent."""


class DialogueContext:
    """The argument `ctx` of a handler: one conversation of a dialogue."""

    def __init__(self, session: Session, session_id: str, messages: Messages, send: Send) -> None:
        self._session = session
        self._session_id = session_id
        self._messages = messages
        self._send = send

    @property
    def session(self) -> Session:
        """The session that the dialogue serves."""
        return self._session

    @property
    def session_id(self) -> str:
        """Id of the conversation."""
        return self._session_id

    @property
    def dialogue(self) -> list[DialogueMessage]:
        """The messages of the conversation so far, in their order."""
        return self._messages()

    async def send(self, destination: str, message: BaseModel) -> MessageStatus:
        """Send the next message of the conversation.

        Args:
            destination: The agent that the conversation is with: `sender`.
        Returns:
            How the delivery ended; `failed` too if the conversation was removed.
        Raises:
            ConfigurationError: The conversation is with another agent, or the message may not come now; nothing has
                left then.
            SessionClosedError: The session is closed.
            SessionError: It was called on another event loop.
        """
        return await self._send(destination, message)

"""DialogueContext: the argument `ctx` of the handlers of a dialogue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.agents.core.message_channel import MessageStatus
from vivavoce.agents.dialogues.conversations import DialogueMessage
from vivavoce.agents.dialogues.dialogue import DialogueControl, DialogueLink
from vivavoce.agents.session_type import Session

if TYPE_CHECKING:
    from pydantic import BaseModel


class DialogueContext:
    """The argument `ctx` of a handler: one conversation of a dialogue."""

    def __init__(self, link: DialogueLink, control: DialogueControl, session: Session, session_id: str) -> None:
        self._link = link
        self._control = control
        self._session = session
        self._session_id = session_id

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
        return self._control.conversations.messages(self._session_id)

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
        return await self._link.send(self._control, self._session_id, destination, message)

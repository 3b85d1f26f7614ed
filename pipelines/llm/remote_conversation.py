"""RemoteConversation: the history, told to a model that keeps a conversation of its own."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.media.frame import VideoFrame


class RemoteConversation:
    """What a model that keeps a conversation of its own is told of the session's.

    What keeps none is sent the history with each request, and need not care: so does this class.
    """

    def append(self, item: ChatItem, said_as: Sequence[str] = ()) -> None:
        """The history got an item that the model has not heard.

        Args:
            said_as: What the model that said it calls it; its present connection may not be the one that did.
        """

    def bind_turn(self, turn_id: str, remote_reply_id: str) -> None:
        """What was heard and committed so far is the user's turn of that id; the remote answer, if any, is to it."""

    def show(self, frame: VideoFrame) -> None:
        """This is to be seen now; it is no part of the history."""

    def remove(self, item: ChatItem) -> None:
        """An item was taken out of the history: the model is to forget it, if it can."""

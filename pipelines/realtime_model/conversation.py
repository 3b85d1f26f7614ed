"""ModelConversation: reports changes of a session's history to a realtime model."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage
from vivavoce.pipelines.llm.remote_conversation import RemoteConversation
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel


class ModelConversation(RemoteConversation):
    """Maps the session's items to the model's names for them."""

    def __init__(self, model: ReconnectingModel) -> None:
        self._model = model
        self._answered: dict[str, str] = {}
        self._names: dict[str, tuple[str, ...]] = {}

    def append(self, item: ChatItem, said_as: Sequence[str] = ()) -> None:
        """Send the item unless the model's present connection has heard or said it."""
        if self._model.known.isdisjoint(said_as):
            self._model.append(item)
        self._names[item.id] = tuple(said_as) or (item.id,)

    def amend(self, item: ChatMessage) -> None:
        """Send the message's words unless the model's present connection has heard them."""
        if self._model.amend(item):
            self._names[item.id] = (item.id,)

    def reply_began(self, reply_id: str, item_id: str) -> None:
        """Note that the model's server answers that item on its own."""
        self._answered[reply_id] = item_id

    def bind_turn(self, turn_id: str, remote_reply_id: str) -> None:
        """Note which of the model's items belong to that turn."""
        self._model.bind(turn_id, self._answered.pop(remote_reply_id, ""))

    def show(self, frame: VideoFrame) -> None:
        """Send a picture to a model that takes video; without a connection it is dropped."""
        self._model.show(frame)

    def remove(self, item: ChatItem) -> None:
        """Have the model forget a message."""
        if isinstance(item, ChatMessage):
            self._model.remove(item.turn_id if item.role == "user" else "", self._names.pop(item.id, ()))

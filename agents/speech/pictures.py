"""Pictures: images that one answer gets besides the conversation (`reply(frames=…)`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.remote_conversation import RemoteConversation
from vivavoce.pipelines.media.frame import VideoFrame


class Pictures:
    """Images that follow the history in each request of that answer, and are not added to the history."""

    def __init__(self, frames: Sequence[VideoFrame]) -> None:
        self.messages = [ChatMessage(role="user", content="", images=tuple(frames))] if frames else []

    @contextmanager
    def shown_in(self, conversation: RemoteConversation) -> Iterator[None]:
        """Show the images to a model that keeps its own conversation, since it gets no history with requests."""
        for message in self.messages:
            conversation.append(message)
        try:
            yield
        finally:
            for message in self.messages:
                conversation.remove(message)

"""CallerWords: the caller's messages that no model may get yet, and the words that edits have replaced."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.history.voices import HeardVoices
from vivavoce.pipelines.core.words import same_words
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A message of the caller without a verdict.

    Args:
        is_withheld: Whether a model that keeps the conversation itself has not got the message.
    """

    message: ChatMessage
    is_withheld: bool


class CallerWords:
    """Knows the messages of the caller that wait for the content guard, and the spoken words of messages whose text was
    edited.

    Args:
        are_judged: Whether a content guard judges the caller. Without one, no message waits.
    """

    def __init__(self, *, are_judged: bool) -> None:
        self._are_judged = are_judged
        self._unjudged: dict[str, Unjudged] = {}
        self._said: dict[str, str] = {}
        self.voices = HeardVoices()
        """The speakers of the words that were heard."""

    # --- verdicts

    def heard(self, message: ChatMessage, *, is_new: bool) -> bool:
        """Take words that the caller has said; return whether they wait for a verdict."""
        self._said.pop(message.id, None)
        if self._are_judged:
            before = self._unjudged.get(message.id)
            self._unjudged[message.id] = Unjudged(message, is_new if before is None else before.is_withheld)
        return self._are_judged

    @property
    def unjudged(self) -> list[ChatMessage]:
        """The messages that wait for a verdict, oldest first."""
        return [waiting.message for waiting in self._unjudged.values()]

    def get_unjudged(self, item_id: str) -> ChatMessage | None:
        """Return the message in its form that waits for a verdict, or None if it does not wait."""
        waiting = self._unjudged.get(item_id)
        return None if waiting is None else waiting.message

    def judged(self, item_id: str) -> bool:
        """Note that a message has passed; return whether a model that keeps the conversation itself has to get it
        now."""
        waiting = self._unjudged.pop(item_id, None)
        return waiting is not None and waiting.is_withheld

    def without_unjudged(self, context: ChatContext, but: str = "") -> ChatContext:
        """Return the conversation without the messages that wait, except for the one with the id `but`."""
        if not self._unjudged:
            return context
        return ChatContext([item for item in context if item.id not in self._unjudged or item.id == but])

    # --- edits

    def edited(self, before: ChatMessage, after: ChatMessage) -> None:
        """Note that the application or the guard has changed the text of a message."""
        self._said.setdefault(after.id, before.content)
        waiting = self._unjudged.get(after.id)
        if waiting is not None:
            self._unjudged[after.id] = Unjudged(after, waiting.is_withheld)

    def is_edit_of(self, item_id: str, text: str) -> bool:
        """Return whether the message of that id is an edit of the same words as `text`."""
        said = self._said.get(item_id)
        return said is not None and same_words(said, text)

    def removed(self, item_id: str) -> bool:
        """Note that a message was removed; return whether it was withheld from a model that keeps the conversation
        itself."""
        self._said.pop(item_id, None)
        waiting = self._unjudged.pop(item_id, None)
        return waiting is not None and waiting.is_withheld

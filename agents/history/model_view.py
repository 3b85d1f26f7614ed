"""ModelView: the part of the conversation that the model of the present agent gets."""

from __future__ import annotations

from collections.abc import Iterable

from vivavoce.agents.history.voices import LabelledVoices
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.chat_units import completed


class ModelView:
    """All of the history, or the part that an agent carries on from its handoff with everything since then.

    Items that are changed or removed later change in the view too; those that the carried part shortens stay short.
    Where several voices have spoken, their messages have labels.
    """

    def __init__(self) -> None:
        self._carried: tuple[ChatItem, ...] | None = None
        self._before: frozenset[str] = frozenset()
        self._rewritten: dict[str, ChatItem] = {}
        """Items of the history, by id, that the carried part has in another form."""
        self._voices = LabelledVoices()

    @property
    def is_whole(self) -> bool:
        """Whether it shows all of the history."""
        return self._carried is None

    def show_all(self) -> None:
        self._carried, self._before, self._rewritten = None, frozenset(), {}

    def carry(self, part: Iterable[ChatItem], history: ChatContext) -> None:
        """Show `part` in place of all items of `history`, each call with its output."""
        present = {item.id: item for item in history}
        self._before = frozenset(present)
        self._carried = tuple(completed(list(part), history.items, ()))
        self._rewritten = {item.id: present[item.id] for item in self._carried if present.get(item.id, item) != item}

    def of(self, history: ChatContext) -> ChatContext:
        """Return the part of the history that the model gets."""
        return self._voices.of(self._part(history))

    def _part(self, history: ChatContext) -> ChatContext:
        if self._carried is None:
            return history
        present = {item.id: item for item in history}
        carried = [
            item if present.get(item.id) == self._rewritten.get(item.id) else present.get(item.id, item)
            for item in self._carried
        ]
        shown = [item for item in carried if item.id in present or item.id not in self._before]
        return ChatContext([*shown, *(item for item in history if item.id not in self._before)])

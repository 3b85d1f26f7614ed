"""TurnDialogue: the port by which a conversation graph judges a turn of the caller before that is answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from vivavoce.pipelines.llm.tools import ToolCall

if TYPE_CHECKING:
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.extension.text_parts import TextParts
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder


class TurnTaken(Protocol):
    """Takes how far the graph is with a turn."""

    def __call__(self, *, is_judged: bool) -> None:
        """Note whether the graph has taken the turn."""


@dataclass(frozen=True, slots=True, eq=False)
class SpokenTurn:
    """A turn of the caller that a graph judges.

    Args:
        handle: Of the speech that answers it.
        text: The caller's words.
        answer: Called once a body answers, with its text; before that the body has not begun.
        taken: Called with `is_judged=True` when the graph has moved by the turn or has judged it, and with False when
            it has taken its move back.
        is_remote: Whether the model's server has begun the answer.
    """

    handle: SpeechHandle
    turn_id: str
    text: str = field(repr=False)
    record: TurnRecordBuilder
    answer: Callable[[TextParts], None]
    taken: TurnTaken
    is_remote: bool = False


class TurnDialogue(ABC):
    """The graph of a session, as its answers know it."""

    @property
    @abstractmethod
    def judges_speech(self) -> bool:
        """Whether speech is judged before it is answered, so that no answer to it can be begun ahead."""

    @abstractmethod
    async def judge(self, turn: SpokenTurn) -> None:
        """Wait until the turn is judged, or a body answers it; without a body the model answers."""

    @abstractmethod
    def undo(self, speech_id: str) -> None:
        """The turn that this speech was to answer goes on: take its move back, unless a body has begun to answer."""

    @abstractmethod
    async def called(self, call: ToolCall, output: str) -> None:
        """A tool has its result: wait until the graph has taken that, before a model gets it."""

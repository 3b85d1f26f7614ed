"""IntentClassifier: the port that judges the intent of the caller's words before they are answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.checks import awaited, check_instance, check_number, check_text
from vivavoce.pipelines.llm.chat_context import ChatContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.graphs.graph.intent import Intent


@dataclass(frozen=True, slots=True)
class IntentMatch:
    """The intent of the caller's words.

    Args:
        name: Of the intent.
        score: From 0 to 1; below 0.4 it is no intent.
        slots: The details in the words, as the object of the intent's model, or None without a model.
    """

    name: str
    score: float = 1.0
    slots: BaseModel | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_text("name", self.name)
        check_number("score", self.score, at_least=0)


class IntentClassifier(ABC):
    """Judges the intent of words before they are answered. It is a description that sessions share.

    It needs a pipeline whose turns the session decides, since a server that decides them answers at once.
    """

    @abstractmethod
    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        """Return the best of `intents` for the caller's words; None if none fits.

        If it raises, or takes longer than `SpeechLimits.hook_timeout`, the words have no intent, and the session emits
        an `error` event.

        Args:
            intents: The intents of the state and of the global states.
            history: The conversation, the words included; a copy.
        """


async def match_of(
    classifier: IntentClassifier, text: str, intents: Sequence[Intent], history: ChatContext
) -> IntentMatch | None:
    """Ask a classifier; return its match with one of these intents.

    Raises:
        ConfigurationError: It is not async, or returned something else than a match or None.
    """
    name = f"{type(classifier).__name__}.classify()"
    match: IntentMatch | None = await awaited(name, classifier.classify(text, intents, history))
    check_instance(f"the result of {name}", match, IntentMatch, or_none=True)
    if match is None or match.name not in [intent.name for intent in intents]:
        return None
    return replace(match, score=float(match.score))  # traces hold no other numbers


class ModelIntents:
    """Lets the answering model choose: each intent is a tool of the model, and the graph moves when the model calls it.

    The default. It costs no time before the answer, and works where a model's server decides turns. Fallback bodies
    and `when_no_intent_matched()` need a classifier instead, since nothing is judged before the answer.
    """

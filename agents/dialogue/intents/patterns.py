"""PatternIntents: judges intents by their examples, offline and within a millisecond."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from vivavoce.agents.dialogue.intents.classifier import IntentClassifier, IntentMatch
from vivavoce.pipelines.core.checks import check_items
from vivavoce.pipelines.llm.chat_context import ChatContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.dialogue.graph.intent import Intent

FUNCTION_WORDS = frozenset(
    "a an and are as at be can could do for from have help hi hello i id i'd i'll i'm im in is it its like me my need "
    "of on or our please so some that the there this to us want was we what will with would you your".split()
)
"""English words that say nothing about an intent."""

MAX_TEXT = 1000
"""Characters of a turn that are judged."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SLOT = re.compile(r"\{(\w+)\}")


class PatternIntents(IntentClassifier):
    """Compares the words with the examples of each intent; the best example counts.

    The score is the part of the example's words that the caller has said. An example may be a template, such as
    `"a table for {people} on {day}"`: it fits words in that order, score 1, and its places are the fields of the
    intent's model (`slots`), whose values must pass it. Case, accents and punctuation do not count. Of a longer text
    the first 1,000 characters are judged.

    Args:
        ignored: Words that say nothing about an intent; an example of such words only counts as it is.
    Raises:
        ConfigurationError: `ignored` is something else than words.
    """

    def __init__(self, *, ignored: Collection[str] = FUNCTION_WORDS) -> None:
        words = check_items("ignored", sorted(ignored), str, remedy="such as {'a', 'the'}")
        self._ignored = frozenset(_plain(word) for word in words)

    async def classify(self, text: str, intents: Sequence[Intent], history: ChatContext) -> IntentMatch | None:
        """Return the intent with the best score, of equal ones the first."""
        text = text[:MAX_TEXT]
        said = _plain(text)
        found = [match for intent in intents if (match := self._best(said, text, intent)) is not None]
        return max(found, key=lambda match: match.score, default=None)

    def _best(self, said: str, text: str, intent: Intent) -> IntentMatch | None:
        best: IntentMatch | None = None
        for example in intent.examples:
            if _SLOT.search(example):
                score, slots = self._fit(text, example, intent)
            else:
                score, slots = self._share(said, example), None
            if score and (best is None or score > best.score):
                best = IntentMatch(intent.name, score, slots)
        return best

    def _share(self, said: str, example: str) -> float:
        wanted = set(_words(_plain(example)))
        telling = wanted - self._ignored or wanted
        return len(telling & set(_words(said))) / len(telling) if telling else 0.0

    def _fit(self, text: str, template: str, intent: Intent) -> tuple[float, BaseModel | None]:
        match = _pattern(template).search(text)
        if match is None:
            return 0.0, None
        if intent.slots is None:
            return 1.0, None
        from pydantic import ValidationError

        values: dict[str, Any] = {name: value.strip() for name, value in match.groupdict().items()}
        try:
            return 1.0, intent.slots.model_validate(values)
        except ValidationError:  # the words do not fit the model: this example does not hold
            return 0.0, None


def _plain(text: str) -> str:
    """Return the text without case and accents."""
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'")).casefold()
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


@lru_cache(maxsize=1000)
def _pattern(template: str) -> re.Pattern[str]:
    """Return the expression that finds the template's words in their order; a place takes at most six words.

    Words and the space between them are possessive, so that a text has one reading: else the search takes for ever.
    """
    between, word = r"\W++", r"\w++(?:['’.:-]++\w++)*+"
    place = rf"{word}(?:{between}{word}){{0,5}}"
    names: set[str] = set()
    fixed, places = _SLOT.split(template)[::2], _SLOT.findall(template)
    expression: list[str] = []
    for number, text in enumerate(fixed):
        expression += [re.escape(word) for word in _words(text)]
        if number < len(places):
            name = places[number]
            lazy = place.replace("{0,5}", "{0,5}?") if number + 1 < len(fixed) and _words(fixed[number + 1]) else place
            expression.append(f"(?P={name})" if name in names else f"(?P<{name}>{lazy})")
            names.add(name)
    return re.compile(rf"\b{between.join(expression)}\b", re.IGNORECASE)

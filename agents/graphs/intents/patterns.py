"""PatternIntents: judges intents by their examples, offline and within a millisecond."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

from vivavoce.agents.graphs.intents.classifier import IntentClassifier, IntentMatch
from vivavoce.pipelines.core.checks import check_items
from vivavoce.pipelines.core.words import is_spaceless, spaceless_runs
from vivavoce.pipelines.llm.chat_context import ChatContext

if TYPE_CHECKING:
    from pydantic import BaseModel

    from vivavoce.agents.graphs.graph.intent import Intent

FUNCTION_WORDS = frozenset(
    "a an and are as at be can could do for from have help hi hello i id i'd i'll i'm im in is it its like me my need "
    "of on or our please so some that the there this to us want was we what will with would you your".split()
)
"""English words that say nothing about an intent."""

MAX_TEXT = 1000
"""Characters of a turn that are judged."""

MAX_PLACE = 6
"""The most words that a place of a template takes. A word with signs inside, such as "10:30", counts once."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SLOT = re.compile(r"\{(\w+)\}")
_SIGNS = re.compile(r"['’.:-]+")
"""The signs between two words that count as one in a place."""


class PatternIntents(IntentClassifier):
    """Compares the words with the examples of each intent; the best example counts.

    The score is the part of the example's words that the caller has said. An example may be a template, such as
    `"a table for {people} on {day}"`: it fits words in that order, score 1, and its places are the fields of the
    intent's model (`slots`), whose values must pass it. Case, accents and punctuation do not count. Of a longer text
    the first 1,000 characters are judged.

    Chinese, Japanese, Thai, Lao, Khmer and Burmese have no spaces between words: two signs in a row of Han or Kana
    count as a word there, four of the others. An example of fewer signs counts in full where the caller says nothing
    else, and as its part of a word within other signs. A place of a template may begin and end behind each sign.

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
        said = _Said(text[:MAX_TEXT])
        found = [match for intent in intents if (match := self._best(said, intent)) is not None]
        return max(found, key=lambda match: match.score, default=None)

    def _best(self, said: _Said, intent: Intent) -> IntentMatch | None:
        best: IntentMatch | None = None
        for example in intent.examples:
            if _SLOT.search(example):
                score, slots = self._fit(said, example, intent)
            else:
                score, slots = self._share(said, example), None
            if score and (best is None or score > best.score):
                best = IntentMatch(intent.name, score, slots)
        return best

    def _share(self, said: _Said, example: str) -> float:
        wanted = _wanted(example)
        telling = wanted - self._ignored or wanted
        return sum(said.known.get(word, 0.0) for word in telling) / len(telling) if telling else 0.0

    def _fit(self, said: _Said, template: str, intent: Intent) -> tuple[float, BaseModel | None]:
        values = said.values(_parts(template))
        if values is None:
            return 0.0, None
        if intent.slots is None:
            return 1.0, None
        from pydantic import ValidationError

        try:
            return 1.0, intent.slots.model_validate(values)
        except ValidationError:  # the words do not fit the model: this example does not count
            return 0.0, None


@dataclass(frozen=True, slots=True)
class _Place:
    """A place of a template."""

    name: str


_Parts: TypeAlias = "tuple[str | _Place, ...]"
"""A template: plain words and places, in their order."""


class _Said:
    def __init__(self, text: str) -> None:
        self._text = unicodedata.normalize("NFC", text)
        tokens = _tokens(self._text)
        self._spans = [(begin, end) for begin, end, _ in tokens]
        self._plain = [_plain(self._text[begin:end]) for begin, end in self._spans]
        self.known = dict.fromkeys(self._plain, 1.0) | _grams(self._text, with_parts=True)
        """The words, and the parts of words of scripts without spaces, with the part of a word that each is."""
        gaps = [self._text[self._spans[at][1] : self._spans[at + 1][0]] for at in range(len(self._spans) - 1)]
        self._ends = [at + 1 for at, gap in enumerate(gaps) if not _SIGNS.fullmatch(gap)] + [len(self._spans)]
        """Numbers of the words behind which a place may end."""
        self._sizes = [0.0, *accumulate(1 / tokens[end - 1][2] if end else 0 for end in self._ends)]
        """Of all such places, the words before them; a sign of a script without spaces is a part of one."""

    def values(self, parts: _Parts) -> dict[str, str] | None:
        """Return the words at the places of a template, where it first fits the text, or None if it fits nowhere.

        A place before a word takes as few words as possible, any other place as many as possible.
        """
        if not all(isinstance(part, _Place) or part in self.known for part in parts):
            return None
        fits = self._fits(parts)
        at = next((at for at in range(len(self._spans)) if fits[0][at]), None)
        if at is None:
            return None
        values: dict[str, str] = {}
        for number, part in enumerate(parts):
            end = at + 1
            if isinstance(part, _Place):
                is_short = number + 1 < len(parts) and isinstance(parts[number + 1], str)
                ends = [end for end in self._places(at) if fits[number + 1][end]]
                end = ends[0] if is_short else ends[-1]
                values.setdefault(part.name, self._text[self._spans[at][0] : self._spans[end - 1][1]])
            at = end
        return values

    def _fits(self, parts: _Parts) -> list[list[bool]]:
        """Return, by part and word, whether that part and all later ones fit the text from that word on.

        Each pair is looked at once, from the last to the first: the time does not grow with the number of readings.
        """
        fits = [[True] * (len(self._plain) + 1)]
        for part in reversed(parts):
            later = fits[-1]
            if isinstance(part, _Place):
                here = [any(map(later.__getitem__, self._places(at))) for at in range(len(self._plain))]
            else:
                here = [word == part and later[at + 1] for at, word in enumerate(self._plain)]
            fits.append([*here, False])
        return fits[::-1]

    def _places(self, at: int) -> list[int]:
        """Return the possible ends of a place that begins with that word."""
        first = bisect_right(self._ends, at)
        return self._ends[first : bisect_right(self._sizes, self._sizes[first] + MAX_PLACE + 1e-9) - 1]


def places_of(example: str) -> tuple[str, ...]:
    """Return the names of the places of a template, each once; () for an example without places."""
    return tuple(dict.fromkeys(_SLOT.findall(unicodedata.normalize("NFC", example))))


def _plain(text: str) -> str:
    """Return the text without case and accents; signs of scripts without spaces stay whole."""
    if text.isascii():
        return text.lower()
    if is_spaceless(text):
        return unicodedata.normalize("NFKC", text).casefold()
    decomposed = unicodedata.normalize("NFKD", text.replace("’", "'")).casefold()
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def _tokens(text: str) -> list[tuple[int, int, int]]:
    """Return the words of a text, and the signs of scripts without spaces, in their order.

    Returns:
        Of each its begin, its end, and how many of its kind count as a word.
    """
    found: list[tuple[int, int, int]] = []
    at = 0
    for start, ends, size in spaceless_runs(text):
        found += [(*match.span(), 1) for match in _WORD.finditer(text, at, start)]
        found += [(begin, end, size) for begin, end in zip([start, *ends], ends, strict=False)]
        at = ends[-1]
    return found + [(*match.span(), 1) for match in _WORD.finditer(text, at)]


def _grams(text: str, *, with_parts: bool = False) -> dict[str, float]:
    """Return the signs in a row that count as words, at each place of a run, with 1.0; a shorter run is a word.

    Args:
        with_parts: Whether all shorter rows are returned too, with the part of a word that they are.
    """
    found: dict[str, float] = {}
    for start, ends, size in spaceless_runs(text):
        edges = [start, *ends]
        longest = min(size, len(ends))
        for length in range(1 if with_parts else longest, longest + 1):
            part = 1.0 if length == longest else length / size
            for at in range(len(ends) - length + 1):
                gram = _plain(text[edges[at] : edges[at + length]])
                found[gram] = max(part, found.get(gram, 0.0))
    return found


@lru_cache(maxsize=1000)
def _wanted(example: str) -> frozenset[str]:
    """Return the words of an example, each once."""
    text = unicodedata.normalize("NFC", example)
    return frozenset(_grams(text)) | {_plain(text[begin:end]) for begin, end, size in _tokens(text) if size == 1}


@lru_cache(maxsize=1000)
def _parts(template: str) -> _Parts:
    parts: list[str | _Place] = []
    for number, text in enumerate(_SLOT.split(unicodedata.normalize("NFC", template))):
        parts += [_Place(text)] if number % 2 else [_plain(text[begin:end]) for begin, end, _ in _tokens(text)]
    return tuple(parts)

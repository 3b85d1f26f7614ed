"""Text filters: they turn written text into spoken text, between an answer and the voice.

A filter is any callable from the text of a sentence (a list item, a table row, a whole code block) to the text for the
voice; `CascadingOptions.text_filters` holds them in order. Only the voice receives filtered text: history, heard text
and transcriptions keep the original. Text that comes in pieces is filtered when a sentence is whole, so no mark,
address or number is cut in two; a voice that takes text as it comes receives the words before the first one that a
filter may change at once.

| written | said | by |
|---|---|---|
| `**really** _good_, ~~old~~` | really good, old | `MarkdownFilter`, on by default |
| `## Title`, `- milk`, `2. milk` | Title. / milk. / 2. milk. | |
| `[our page](https://…)`, `![a map](…)` | our page / a map | |
| `` `pip install` ``, `<b>bold</b>`, `a &amp; b` | pip install / bold / a & b | |
| `<spell>ABC</spell>`, `Press <Enter>` | ABC / Press Enter (tags in pairs are tags) | |
| a fenced code block, `---`, `\\|---\\|---\\|` | nothing (`MarkdownFilter(code="speak")` reads code) | |
| `\\| Tea \\| 3 euros \\|` | Tea, 3 euros. | |
| `Great! 👍🏽` (`©`, `™` stay) | Great! | `EmojiFilter`, on by default |
| `https://www.vivavoce.dev/docs?x=1` | vivavoce.dev (voices know how to read that) | `UrlFilter`, on by default |
| the same; `ann.b@x.org` | vivavoce dot dev; ann dot b at x dot org | `UrlFilter("en")` |
| `$3.50`, `3rd`, `in 1999`, `5:30`, `40%` | in words, by locale | `plugins.numbers.NumberFilter("en")`, off |

A sentence without a word left is not sent to the voice. If filters leave nothing of a whole speech, it is spoken
unfiltered. A filter that raises is left out for that sentence, and reported as an `error` of component `text_filter`,
once a speech.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable
from urllib.parse import urlsplit

from vivavoce.pipelines.core.checks import check_items, shown
from vivavoce.pipelines.core.errors import ConfigurationError, contained, describe
from vivavoce.pipelines.tts.text_markdown import MarkdownFilter as MarkdownFilter

if TYPE_CHECKING:
    from regex import Pattern

logger = logging.getLogger(__name__)

TextFilter = Callable[[str], str]
"""Takes a written sentence and returns the text to speak. It must not wait."""


@runtime_checkable
class SwiftTextFilter(Protocol):
    """A filter that detects text which it leaves alone, so that such text need not wait for its sentence's end."""

    def may_change(self, text: str) -> bool:
        """Whether the filter may change `text`, whole words from a sentence's start; cheap, called for every piece."""

    def prepare(self) -> None:
        """Load the filter's data, before the session hears anything: in a thread. May be called again.

        With an attribute `is_prepared` that is true, a start does without the call.
        """

    def __call__(self, text: str) -> str:
        """Return the text to speak."""


_EMOJI_RANGE = re.compile("[\u20e3\u2190-\u2bff\u3030\u303d\u3297\u3299\ufe0f\U0001f000-\U0001fffd]")


@dataclass(frozen=True, slots=True)
class EmojiFilter:
    """Removes emoji, by their Unicode properties, also flags, skin tones and joined ones; a keycap's sign stays."""

    def may_change(self, text: str) -> bool:
        """Whether there may be one."""
        return not text.isascii() and _EMOJI_RANGE.search(text) is not None

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare()` has nothing left to do."""
        return _emoji.cache_info().currsize > 0

    def prepare(self) -> None:
        """Load the Unicode properties."""
        _emoji()

    def __call__(self, text: str) -> str:
        """Return `text` without emoji."""
        without: str = _emoji().sub("", text)
        return text if without == text else without.strip()


@cache
def _emoji() -> Pattern[str]:
    import regex  # 10 ms, and 4 ms for the pattern, which only sessions that need it should wait for

    return regex.compile(_EMOJI)


_EMOJI = (
    r"[ \t]*(?:\p{RI}{2}|(?![\u00a9\u00ae\u203c\u2049\u2122\u2139])\p{Extended_Pictographic}\uFE0F?\p{Emoji_Modifier}?"
    r"(?:\u200D\p{Extended_Pictographic}\uFE0F?\p{Emoji_Modifier}?)*[\U000E0020-\U000E007F]*|\p{Emoji_Modifier})"
    r"|[\uFE0F\u20E3]"
)
"""The forms of UTS 51, with the white space before them; the signs ©®‼⁉™ℹ, which count as pictographic, stay."""

_ADDRESS = re.compile(r"(?:\bhttps?://|\bwww\.)[^\s<>\"“”]+", re.IGNORECASE)
_NAME = re.compile(r"(?<![\w@./-])[\w.+-]+@(?:[\w-]+\.)+[^\W\d_]{2,}|(?<![\w@./-])(?:[\w-]+\.)+[a-z]{2,}(?![\w@-])")
_TRAILING = ".,;:!?)]}'\"*_"

_WORDS = {
    "de": ("Punkt", "ät", "Minus", "Unterstrich", "plus"),
    "en": ("dot", "at", "dash", "underscore", "plus"),
    "es": ("punto", "arroba", "guión", "guión bajo", "más"),
    "fr": ("point", "arobase", "tiret", "tiret bas", "plus"),
    "it": ("punto", "chiocciola", "trattino", "trattino basso", "più"),
    "nl": ("punt", "at", "streepje", "underscore", "plus"),
    "pt": ("ponto", "arroba", "hífen", "sublinhado", "mais"),
}
"""Spoken for the signs of an address: . @ - _ +"""


@dataclass(frozen=True, slots=True)
class UrlFilter:
    """Leaves only the host of a web address.

    Args:
        language: Spells hosts and e-mail addresses in its words ("vivavoce dot dev"), one of `de en es fr it nl pt`;
            empty: they stay, since most voices read them correctly in their own language.
    Raises:
        ValueError: The language is another one.
    """

    language: str = ""

    def __post_init__(self) -> None:
        if self.language and self.language not in _WORDS:
            raise ConfigurationError(f"language must be one of {sorted(_WORDS)} or empty, got {self.language!r}")

    def may_change(self, text: str) -> bool:
        """Whether there may be an address."""
        if "://" in text or "ww." in text.lower():
            return True
        return bool(self.language) and _NAME.search(text) is not None

    is_prepared: ClassVar[bool] = True

    def prepare(self) -> None:
        """Nothing to load."""

    def __call__(self, text: str) -> str:
        """Return `text` with addresses in their spoken form."""
        text = _ADDRESS.sub(self._host, text)
        return _NAME.sub(lambda found: self._spell(found[0]), text) if self.language else text

    def _host(self, found: re.Match[str]) -> str:
        address = found[0].rstrip(_TRAILING)
        tail = found[0][len(address) :]
        try:
            host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
        except ValueError:  # such as a bad IPv6 address
            return found[0]
        return (host.removeprefix("www.") or address) + tail

    def _spell(self, address: str) -> str:
        for sign, word in zip(".@-_+", _WORDS[self.language], strict=True):
            address = address.replace(sign, f" {word} ")
        return address


DEFAULT_TEXT_FILTERS: tuple[TextFilter, ...] = (EmojiFilter(), MarkdownFilter(), UrlFilter())
"""The default filters; they leave a voice's own reading of numbers and names alone."""


def checked_filters(filters: Sequence[TextFilter]) -> None:
    """Raise `ConfigurationError` unless each is callable and not a class."""
    for each in check_items("text_filters", filters, object, remedy="give functions from str to str"):
        if not callable(each) or isinstance(each, type):
            raise ConfigurationError(f"a text filter must be a callable from str to str, got {shown(each)}")


def prepare_filters(filters: Sequence[TextFilter]) -> None:
    """Call `prepare()` of the filters that have it."""
    for each in filters:
        if isinstance(each, SwiftTextFilter):
            each.prepare()


def are_prepared(filters: Sequence[TextFilter]) -> bool:
    """Return whether `prepare_filters()` has nothing left to do. A filter may say so by its `is_prepared`."""
    return all(getattr(each, "is_prepared", not isinstance(each, SwiftTextFilter)) for each in filters)


class FilterChain:
    """Applies filters in order, and leaves one out that raises.

    Args:
        on_error: Called with a filter's exception, once a speech.
    """

    def __init__(self, filters: Sequence[TextFilter], on_error: Callable[[Exception], None]) -> None:
        self._filters = [(each, each if isinstance(each, SwiftTextFilter) else None) for each in filters]
        self._on_error = on_error
        self._reported: set[int] = set()

    def begin(self) -> None:
        """Begin a new speech: errors are reported again."""
        self._reported.clear()

    def leaves(self, text: str) -> bool:
        """Whether every filter leaves `text` alone for certain."""
        try:
            for _, swift in self._filters:
                if swift is None or swift.may_change(text):
                    return False
        except BaseException as raised:  # noqa: BLE001 - a user's callback: the sentence's end reports it
            contained(raised, "a text filter")
            return False
        return True

    def __call__(self, text: str) -> str:
        """Return the text to speak for `text`."""
        for index, (apply, swift) in enumerate(self._filters):
            try:
                if swift is None or swift.may_change(text):
                    said = apply(text)
                    if not isinstance(said, str):
                        raise TypeError(f"a text filter must return a str, got {type(said).__name__}")
                    text = said
            except BaseException as raised:  # noqa: BLE001 - a user's callback: the sentence is spoken without it
                error = contained(raised, "a text filter")
                if index not in self._reported:
                    self._reported.add(index)
                    logger.warning("A text filter failed: %s", describe(error))
                    logger.debug("A text filter failed here", exc_info=error)
                    self._on_error(error)
        return text

"""The plain words of a spoken sentence, and the search for values in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from vivavoce.plugins.rules.values import ONES, TEENS, TENS, Mention, Parser, Value

NUMBER = rf"(?:(?:{'|'.join(TENS)})(?: (?:{'|'.join(ONES[1:])}))?|{'|'.join(TEENS)}|{'|'.join(ONES)}|\d{{1,2}})"
"""A number from 0 to 99, as `to_number` reads it."""

DIGITS_IN_A_ROW = rf"(?:{'|'.join(ONES)}|oh|o|\d)(?: (?:{'|'.join(ONES)}|oh|o|double|\d)){{3,}}"
"""A telephone number, or a part of one: it has no time and no number of people in it."""

CHANGED = r"(?:change|move|switch)(?: (?:it|that|this|(?:the|my) \w+))?(?: from)? "
"""The words before "Friday to Saturday" that make it a correction, and no range."""

GUESTS = r"(?:people|persons?|guests?|adults?|grown ups?|diners?|covers?|seats?|of us)(?!\S)"

WEEKDAY = r"(?:monday|tuesday|wednesday|thursday|friday|saturday|sunday)"

_WORD = re.compile(
    r"(?P<half>[ap])(?:\. ?| )?m(?![^\W_])"
    r"|(?P<clock>o ?'? ?clock)(?![^\W_])"
    r"|(?P<digits>\d{1,2}[:.][0-5]\d(?![\d.:])|\d+(?:st|nd|rd|th)(?![^\W_])|\d+(?:[.,:]\d+)*)"
    r"|[^\W\d_]+(?:'[^\W\d_]+)*"
)
_APOSTROPHES = str.maketrans("’‘`", "'''")

# A word that sounds like a number and can be nothing else here: the group of the pattern is the wrong word.
_SURE_END = rf"(?= (?:please|on|at|tonight|tomorrow|today|this|next|{WEEKDAY})(?!\S)|$)"
_BEFORE_COUNT = r"(?:^|(?:for|of|are|be|it|that|just|only|no|sorry|actually|wait|mean|um|uh|table|booking) )"
_AFTER_HOUR = r"(?= (?:o'clock|am|pm|fifteen|thirty|forty five|in the (?:morning|afternoon|evening))(?!\S))"
_SLIPS = tuple(
    (re.compile(rf"(?<!\S)(?:{regex})(?!\S)"), word)
    for regex, word in (
        (rf"(?:table|booking|reservation) (four)(?= (?:{NUMBER}|for|to|too|ate)(?!\S))", "for"),
        (rf"for (for|fore)(?:{_SURE_END}|(?= {GUESTS}))", "four"),
        (rf"for (to|too)(?:{_SURE_END}|(?= {GUESTS}))", "two"),
        (rf"for (ate)(?:{_SURE_END}|(?= {GUESTS}))", "eight"),
        (rf"{_BEFORE_COUNT}(for|fore)(?= {GUESTS})(?! people (?:who|with|that|from|in|like))", "four"),
        (rf"{_BEFORE_COUNT}(to|too)(?= {GUESTS})", "two"),
        (rf"(?:(?:at|past|after|before|around) )?(ate)(?:{_AFTER_HOUR}|(?= {GUESTS}))", "eight"),
        (r"(?:at|past|quarter to|around|no|sorry|actually|it|mean) (ate)(?= please|$)", "eight"),
        (rf"at (ate){_SURE_END}", "eight"),
        (rf"at (for|fore)(?:{_AFTER_HOUR}|(?= please|$))", "four"),
        (rf"at (to|too)(?:{_AFTER_HOUR}|(?= please|$))", "two"),
        (rf"(?:quarter|half|minutes|five|ten|twenty) (pass|passed)(?= (?:{NUMBER}|ate)(?!\S))", "past"),
        (rf"quarter (two|too)(?= (?:{NUMBER}|ate)(?!\S))", "to"),
        (rf"(?:^|no |sorry |wait )(add|and)(?= {NUMBER}(?: please)?$)", "at"),
        (r"^(for|fore)(?= please$|$)", "four"),
        (r"^(to|too)(?= please$|$)", "two"),
        (r"^(ate)(?= please$|$)", "eight"),
    )
)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a text: lower case, one space between them, no punctuation.

    "7.30" is "7:30" here, "p.m." is "pm", "o’clock" is "o'clock".

    Args:
        places: Start and end of each word in the original text, in characters.
    """

    words: tuple[str, ...]
    places: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, text: str) -> Words:
        """Split a text."""
        # Not text.lower(), which lengthens some letters.
        text = "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)
        matches = list(_WORD.finditer(text.translate(_APOSTROPHES)))
        return cls(tuple(_spelling(match) for match in matches), tuple(match.span() for match in matches))

    @property
    def text(self) -> str:
        """The words in a row."""
        return " ".join(self.words)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the place in the original text of a part of `text`."""
        row = self.text
        return self.places[row.count(" ", 0, start)][0], self.places[row.count(" ", 0, end)][1]

    def without_slips(self) -> Words:
        """Return the words with misheard numbers mended ("for people" is "four people") where nothing else fits."""
        words = list(self.words)
        for regex, word in _SLIPS:
            row = " ".join(words)
            for match in regex.finditer(row):
                words[row.count(" ", 0, match.start(1))] = word
        return Words(tuple(words), self.places)


def plain(text: str) -> str:
    """Return a text as its plain words."""
    return Words.of(text).text


Reader = Callable[[re.Match[str]], Value | None]
"""Returns the value of a match; None: the words are no value, and no later pattern gets them."""


def nothing(match: re.Match[str]) -> None:
    """Read a match as no value."""
    return None


def finder(patterns: list[tuple[str, Reader, bool]], *, mends_slips: bool = True) -> Parser:
    """Return a parser that tries the patterns in order; a later one gets only the rest of the text.

    Args:
        patterns: Regular expression for whole plain words, reader, and whether its mentions are bare.
        mends_slips: Search the words with misheard numbers mended.
    """
    compiled = [(re.compile(rf"(?<!\S)(?:{regex})(?!\S)"), reader, is_bare) for regex, reader, is_bare in patterns]

    def find(text: str) -> list[Mention]:
        words = Words.of(text)
        if mends_slips:
            words = words.without_slips()
        found: list[Mention] = []
        taken: list[tuple[int, int]] = []
        for regex, reader, is_bare in compiled:
            for match in _free(regex.finditer(words.text), taken):
                taken.append(match.span())
                value = reader(match)
                if value is not None:
                    found.append(Mention(value, *words.place(*match.span()), is_bare))
        return sorted(found, key=lambda mention: mention.start)

    return find


def _free(matches: Iterator[re.Match[str]], taken: list[tuple[int, int]]) -> Iterator[re.Match[str]]:
    for match in matches:
        if all(match.end() <= start or match.start() >= end for start, end in taken):
            yield match


def _spelling(match: re.Match[str]) -> str:
    if half := match["half"]:
        return f"{half}m"
    if match["clock"]:
        return "o'clock"
    return re.sub(r"^(\d{1,2})\.([0-5]\d)$", r"\1:\2", match[0]) if match["digits"] else match[0]

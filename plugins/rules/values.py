"""The values that parsers find, and their spoken forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

Value = str | int

ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")

_NUMBERS = {word: number for number, word in enumerate(ONES + TEENS)} | {w: 10 * n for n, w in enumerate(TENS, start=2)}


@dataclass(frozen=True, slots=True)
class Mention:
    """A value in a text.

    Args:
        start, end: Its place, in characters.
        is_bare: It may also be the value of another slot ("eight"): it counts only as the answer to a question, or as
            the correction of a value.
    """

    value: Value
    start: int
    end: int
    is_bare: bool = False


Parser = Callable[[str], list[Mention]]
"""Takes a text in lower case, with the punctuation of the recogniser, and returns the mentions, in order."""


def to_number(words: str) -> int:
    """Return the number for `words` ("twenty-one", "8").

    Raises:
        ValueError: They are not a number from 0 to 99.
    """
    if words.isdecimal():
        return int(words)
    try:
        return sum(_NUMBERS[word] for word in re.split(r"[ -]", words))
    except KeyError as error:
        raise ValueError(f"needed a number from 0 to 99 in words or digits, got {words!r}") from error


def in_words(number: Value) -> str:
    """Return a number from 0 to 99 in its spoken form; other values unchanged."""
    if not isinstance(number, int) or not 0 <= number <= 99:
        return str(number)
    if number < 20:
        return (ONES + TEENS)[number]
    tens, ones = divmod(number, 10)
    return TENS[tens - 2] + (f"-{ONES[ones]}" if ones else "")


def time_in_words(time: Value) -> str:
    """Return a time of day, such as `"19:30"`, in its spoken form, without the half of the day."""
    hour, minute = (int(part) for part in str(time).split(":"))
    name = {0: "midnight", 12: "noon"}.get(hour) if minute == 0 else None
    if name:
        return name
    spoken = in_words(hour % 12 or 12)
    if minute == 0:
        return spoken
    return f"{spoken} {in_words(minute)}" if minute >= 10 else f"{spoken} oh {in_words(minute)}"

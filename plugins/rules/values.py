"""Finds values in spoken words: numbers, times of day, days, party sizes, choices, patterns. English only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

Value = str | int

ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
TEENS = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen"),
    *("sixteen", "seventeen", "eighteen", "nineteen"),
)
TENS = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_NUMBERS = {word: number for number, word in enumerate(ONES + TEENS)} | {w: 10 * n for n, w in enumerate(TENS, start=2)}
_NUMBER = rf"(?:(?:{'|'.join(TENS)})(?:[ -](?:{'|'.join(ONES[1:])}))?|{'|'.join(TEENS)}|{'|'.join(ONES)}|\d{{1,2}})"
_HOUR = rf"(?P<hour>{'|'.join((*ONES[1:], *TEENS[:3]))}|\d{{1,2}})"
_MINUTE = r"(?P<minute>fifteen|thirty|forty[ -]five)"
_PERIOD = r"(?P<period>[ap]\.?m\b|in the (?:morning|afternoon|evening)\b|at night\b)"
_GUESTS = r"(?:people|persons?|guests?|adults|of us)\b"


@dataclass(frozen=True, slots=True)
class Mention:
    """A value in a text.

    Args:
        start, end: Its place, in characters.
        is_bare: It may also be the value of another slot ("eight"): it counts only as the answer to a question.
    """

    value: Value
    start: int
    end: int
    is_bare: bool = False


Parser = Callable[[str], list[Mention]]
"""Takes a text in lower case and returns the mentions, in order."""


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


def times(*, is_evening: bool = True) -> Parser:
    """Return a parser of times of day, with values such as `"19:30"`.

    Args:
        is_evening: An hour from one to eleven without "am" or "pm" is in the second half of the day.
    """

    def value(match: re.Match[str]) -> str | None:
        groups = match.groupdict()
        hour, minute = to_number(groups["hour"]), to_number(groups.get("minute") or "0")
        if before := groups.get("to"):
            hour, minute = hour - 1 or 12, 60 - _minutes(before)
        elif after := groups.get("past"):
            minute = _minutes(after)
        if hour > 23 or minute > 59:
            return None
        return f"{_on_the_clock(hour, groups.get('period'), is_evening):02}:{minute:02}"

    def named(match: re.Match[str]) -> str:
        return "00:00" if "night" in match[0] else "12:00"

    patterns: list[tuple[str, _Reader, bool]] = [
        (r"\b(?:at )?(?:noon|midday|midnight)\b", named, False),
        (rf"\b(?P<hour>\d{{1,2}}):(?P<minute>\d\d)\b(?: ?{_PERIOD})?", value, False),
        (rf"\b(?P<past>half|quarter|ten|twenty) past {_HOUR}\b(?: {_PERIOD})?", value, False),
        (rf"\b(?P<to>quarter|ten|twenty) to {_HOUR}\b(?: {_PERIOD})?", value, False),
        (rf"\b{_HOUR} {_MINUTE}\b(?: {_PERIOD})?", value, False),
        (rf"\b{_HOUR} ?(?:o'?clock )?{_PERIOD}", value, False),
        (rf"\b{_HOUR} o'?clock\b", value, False),
        (rf"\b(?:at|around) {_HOUR}\b(?!:| {_GUESTS})", value, False),
        (rf"\b{_HOUR}\b(?!:)", value, True),
    ]
    return _finder(patterns)


def days() -> Parser:
    """Return a parser of days: weekdays, today, tomorrow. The value is the word; the tool knows its date."""
    names = "|".join(WEEKDAYS)

    def value(match: re.Match[str]) -> str:
        return "today" if match[0] == "tonight" else match[0].removeprefix("this ").removeprefix("the ")

    relative = r"\bthe day after tomorrow\b|\b(?:today|tonight|tomorrow)\b"
    return _finder([(rf"{relative}|\b(?:(?:next|this) )?(?:{names})\b", value, False)])


def party_sizes(*, smallest: int = 1, largest: int = 20) -> Parser:
    """Return a parser of numbers of people, with numbers from `smallest` to `largest` as values."""

    def value(match: re.Match[str]) -> int | None:
        number = to_number(match["number"])
        return number if smallest <= number <= largest else None

    def one(match: re.Match[str]) -> int | None:
        return 1 if smallest <= 1 else None

    number = rf"(?P<number>{_NUMBER})"
    return _finder(
        [
            (rf"\b{number} {_GUESTS}", value, False),
            (rf"\b(?:party of|we are|there are) {number}\b", value, False),
            (rf"\bfor {number}\b(?!:|[ -](?:o'?clock|[ap]\.?m\b|fifteen|thirty|forty))", value, False),
            (r"\b(?:just|only) (?:for )?(?:me|myself)\b|\bfor myself\b", one, False),
            (rf"\b{number}\b", value, True),
        ]
    )


def choice(*words: str) -> Parser:
    """Return a parser of one of these words or phrases."""
    alternatives = "|".join(re.escape(word.lower()) for word in sorted(words, key=len, reverse=True))
    return _finder([(rf"\b(?:{alternatives})\b", lambda match: match[0], False)])


def pattern(regex: str) -> Parser:
    """Return a parser of the matches of a regular expression: the first group if there is one, else the whole match."""
    compiled = re.compile(regex)
    return _finder([(regex, lambda match: match[1] if compiled.groups else match[0], False)])


_Reader = Callable[[re.Match[str]], Value | None]


def _finder(patterns: list[tuple[str, _Reader, bool]]) -> Parser:
    """Return a parser that tries the patterns in order; a later one gets only the rest of the text."""
    compiled = [(re.compile(regex), reader, is_bare) for regex, reader, is_bare in patterns]

    def find(text: str) -> list[Mention]:
        found: list[Mention] = []
        taken: list[tuple[int, int]] = []
        for regex, reader, is_bare in compiled:
            for match in _free(regex.finditer(text), taken):
                taken.append(match.span())
                value = reader(match)
                if value is not None:
                    found.append(Mention(value, *match.span(), is_bare))
        return sorted(found, key=lambda mention: mention.start)

    return find


def _free(matches: Iterator[re.Match[str]], taken: list[tuple[int, int]]) -> Iterator[re.Match[str]]:
    for match in matches:
        if all(match.end() <= start or match.start() >= end for start, end in taken):
            yield match


def _minutes(words: str) -> int:
    return {"half": 30, "quarter": 15}.get(words) or to_number(words)


def _on_the_clock(hour: int, period: str | None, is_evening: bool) -> int:
    if hour > 12:
        return hour
    if period is None:
        return hour + 12 if is_evening and 1 <= hour <= 11 else hour
    is_morning = period.startswith("a") and period != "at night" or "morning" in period
    if is_morning or (period == "at night" and hour == 12):
        return hour % 12
    return hour % 12 + 12

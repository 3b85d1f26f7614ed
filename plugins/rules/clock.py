"""The parser of times of day."""

from __future__ import annotations

import re

from vivavoce.plugins.rules.sentence import CHANGED, DIGITS_IN_A_ROW, GUESTS, WEEKDAY, Reader, finder, nothing
from vivavoce.plugins.rules.values import ONES, TEENS, TENS, Parser, to_number

_HOUR = rf"(?P<hour>{'|'.join((*ONES[1:], *TEENS[:3]))}|\d{{1,2}})"
_ANY_HOUR = rf"(?:{'|'.join((*ONES[1:], *TEENS[:3]))}|\d{{1,2}})"
_LATE_HOUR = rf"(?P<hour>{'|'.join(TEENS[3:])}|twenty(?: (?:one|two|three))?)"
_ONE = "|".join(ONES[1:])
_MINUTE = rf"(?P<minute>(?:oh|o) (?:{_ONE})|{'|'.join(TEENS)}|(?:{'|'.join(TENS[:4])})(?: (?:{_ONE}))?|[0-5]\d)"
_BEFORE_OR_PAST = r"(?:a )?(?:quarter|five|ten|twenty five|twenty|5|10|15|20|25)(?: minutes)?"
_PERIOD = r"(?P<period>am|pm|in the (?:morning|afternoon|evening)|at night|this (?:morning|afternoon|evening))"
_NO_COUNT = (
    rf"(?! (?:{GUESTS}|(?:hundred|thousand|percent|more|other|others|friends|children|kids|minutes?|hours?|days?"
    r"|of|nights?|weeks?|months?|years?|euros?|dollars?|pounds?|tables?|times|things?|moments?|seconds?)(?!\S)))"
)
_PART_OF_DAY = re.compile(
    rf"(?<!\S)(?:(?:tomorrow|today|{WEEKDAY}) (morning|afternoon|evening|night)|in the (morning|afternoon|evening)"
    rf"|this (afternoon|evening)|(tonight)|(?:[\d:]+|{'|'.join((*ONES, *TEENS, *TENS))}|o'clock) (am|pm))(?!\S)"
)


def times(*, is_evening: bool = True) -> Parser:
    """Return a parser of times of day, with values such as `"19:30"`.

    Args:
        is_evening: An hour from one to eleven without "am", "pm" or a part of the day ("tomorrow morning") is in the
            second half of the day.
    """

    def value(match: re.Match[str]) -> str | None:
        groups = match.groupdict()
        hour, minute = to_number(groups["hour"]), _minutes(groups.get("minute") or "0")
        if before := groups.get("to"):
            hour, minute = hour - 1 or 12, 60 - _minutes(before)
        elif after := groups.get("past"):
            minute = _minutes(after)
        if hour > 23 or minute > 59:
            return None
        return f"{_on_the_clock(hour, groups.get('period') or _part_of_day(match), is_evening):02}:{minute:02}"

    def earlier(match: re.Match[str]) -> tuple[int, int] | None:
        mentions = find(match.string[: match.start()])
        if not mentions:
            return None
        hour, minute = str(mentions[-1].value).split(":")
        return int(hour), int(minute)

    def other_minute(match: re.Match[str]) -> str | None:
        before = earlier(match)
        return f"{before[0]:02}:{_minutes(match['minute']):02}" if before else None

    def other_half(match: re.Match[str]) -> str | None:
        before = earlier(match)
        return (
            f"{_on_the_clock(before[0] % 12 or 12, match['period'], is_evening):02}:{before[1]:02}" if before else None
        )

    def named(match: re.Match[str]) -> str:
        return "00:00" if "night" in match[0] else "12:00"

    about = r"(?:at|around|at (?:about|around|say))"
    digits = r"(?P<hour>[1-9]|1\d|2[0-3])(?P<minute>[0-5]\d)"
    patterns: list[tuple[str, Reader, bool]] = [
        (DIGITS_IN_A_ROW, nothing, False),
        (rf"{CHANGED}{_ANY_HOUR} to {_HOUR}{_NO_COUNT}", value, True),
        (rf"(?:between|from) (?:at )?{_ANY_HOUR} (?:and|to|until|till) {_ANY_HOUR}", nothing, False),
        (r"(?:at )?(?:twelve |12 )?(?:noon|midday|midnight)", named, False),
        (rf"(?:at )?(?P<hour>\d{{1,2}}):(?P<minute>\d\d)(?: {_PERIOD})?", value, False),
        (rf"(?P<past>half|{_BEFORE_OR_PAST}) (?:past|after) {_HOUR}(?: {_PERIOD})?", value, False),
        (rf"(?P<to>{_BEFORE_OR_PAST}) (?:to|till|til|before) {_HOUR}(?! {GUESTS})(?: {_PERIOD})?", value, False),
        (rf"(?P<to>a quarter) of {_HOUR}(?: {_PERIOD})?", value, False),
        (rf"(?:at )?(?P<past>half) {_HOUR}(?! {GUESTS})(?: {_PERIOD})?", value, False),
        (r"(?P<minute>half|quarter|twenty|ten) past", other_minute, False),
        (rf"{_HOUR} o'clock(?: {_PERIOD})?", value, False),
        (rf"(?:at )?{_LATE_HOUR} (?:hundred(?: hours)?|(?P<minute>fifteen|thirty|forty five))", value, False),
        (rf"{_HOUR} {_MINUTE} {_PERIOD}", value, False),
        (rf"{_HOUR} (?P<period>am|pm)", value, False),
        (rf"{digits} (?P<period>am|pm)", value, False),
        (rf"(?<!for ){_HOUR} {_PERIOD}", value, False),
        (rf"(?:at )?{_HOUR} {_MINUTE}(?! (?:{GUESTS}|\d))", value, False),
        (rf"{about} {digits}", value, False),
        (rf"{about} {_HOUR}{_NO_COUNT}", value, False),
        (rf"time (?:to|is|should be|to be|will be) {_HOUR}{_NO_COUNT}", value, False),
        (rf"(?:no|sorry|wait|actually|i mean|i meant|make (?:it|that)) (?!this ){_PERIOD}", other_half, False),
        (rf"for {_HOUR}(?: {_PERIOD})?{_NO_COUNT}", value, True),
        (rf"{digits}(?! \d)", value, True),
        (rf"(?:(?:about|by|after|before) )?{_HOUR}(?: ish)?{_NO_COUNT}", value, True),
    ]
    find = finder(patterns)
    return find


def _minutes(words: str) -> int:
    words = re.sub(r"^(?:a|oh|o) | minutes$", "", words)
    return {"half": 30, "quarter": 15}.get(words) or to_number(words)


def _part_of_day(match: re.Match[str]) -> str | None:
    """Return the part of the day that the sentence names, of several the nearest."""
    parts = list(_PART_OF_DAY.finditer(match.string))
    if not parts:
        return None
    nearest = min(parts, key=lambda part: max(part.start() - match.end(), match.start() - part.end()))
    part = next(group for group in nearest.groups() if group)
    return "at night" if part in ("night", "tonight") else part


def _on_the_clock(hour: int, period: str | None, is_evening: bool) -> int:
    if hour > 12 or hour == 0:
        return hour
    if period is None:
        return hour + 12 if is_evening and hour <= 11 else hour
    is_morning = period == "am" or "morning" in period
    if is_morning or (period == "at night" and hour == 12):
        return hour % 12
    return hour % 12 + 12

"""The parser of days: weekdays, dates, days counted from today."""

from __future__ import annotations

import re
from itertools import pairwise

from vivavoce.plugins.rules.sentence import CHANGED, NUMBER, WEEKDAY, Reader, finder, nothing
from vivavoce.plugins.rules.values import Parser, to_number

_MONTHS = {
    **{"january": 31, "february": 29, "march": 31, "april": 30, "may": 31, "june": 30},
    **{"july": 31, "august": 31, "september": 30, "october": 31, "november": 30, "december": 31},
}
_ORDINALS = (
    *("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"),
    *("twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth"),
    *("twentieth", *(f"twenty {word}" for word in ("first", "second", "third", "fourth", "fifth", "sixth"))),
    *("twenty seventh", "twenty eighth", "twenty ninth", "thirtieth", "thirty first"),
)
_DAYS = {word: number for number, word in enumerate(_ORDINALS, start=1)}

_DAY_AFTER = {"today": "tomorrow", "tomorrow": "day after tomorrow"} | dict(
    pairwise(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "monday"))
)

_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})"
_ORDINAL = rf"(?P<day>{'|'.join(sorted(_ORDINALS, key=len, reverse=True))}|\d{{1,2}}(?:st|nd|rd|th))"
_YEAR = r"(?: (?P<year>20\d\d))?"
_WEEKDAY = rf"(?P<weekday>(?:(?:next|this) )?{WEEKDAY})"
_WEEKS = rf"in (?:a|{NUMBER}) weeks?"
_WAIT = rf"in (?:a|{NUMBER}) (?:days?|weeks?)"
_DATE_ENDS = r"(?= (?:at|for|please|in|no|not|sorry|actually|wait|i|then|if|would|is|around|or|but|rather)(?!\S)|$)"


def days() -> Parser:
    """Return a parser of days. The value is in words, as English speaks it; the tool knows the date.

    Values: "friday", "next friday", "today", "day after tomorrow", "may 3rd", "friday may 3rd", "the 3rd",
    "the 3rd of next month", "in two weeks", "friday next week", "a week from friday", "christmas eve".
    """

    def date(match: re.Match[str]) -> str | None:
        groups = match.groupdict()
        month, words = groups.get("month"), groups["day"]
        day = _DAYS.get(words) or to_number(re.sub(r"(?:st|nd|rd|th)$", "", words))
        if not 1 <= day <= _MONTHS.get(month or "", 31):
            return None
        ending = "th" if day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")
        parts = (groups.get("weekday"), month or "the", f"{day}{ending}", groups.get("year"))
        return " ".join(part for part in parts if part)

    def as_said(match: re.Match[str]) -> str:
        said = re.sub(r"^(?:this|the|on) |'s$", "", match[0])
        return re.sub(r"^a week on ", "a week from ", said)

    def weekday(match: re.Match[str]) -> str:
        return match["weekday"].removeprefix("this ")

    def day_after(match: re.Match[str]) -> str | None:
        earlier = find(match.string[: match.start()])
        return _DAY_AFTER.get(str(earlier[-1].value)) if earlier else None

    def next_month(match: re.Match[str]) -> str | None:
        day = date(match)
        return day and f"{day} of next month"

    def today(match: re.Match[str]) -> str:
        return "today"

    patterns: list[tuple[str, Reader, bool]] = [
        (r"what (?:day|date) is (?:it )?today", nothing, False),
        (r"how (?:are|is) (?:you|it|everything)(?: doing| going)? (?:today|tonight|this \w+)", nothing, False),
        (rf"(?:the )?{_ORDINAL} {WEEKDAY} (?:of|in) (?:{_MONTH}|next month)", as_said, False),
        (rf"(?:the )?last {WEEKDAY} (?:of|in) (?:{_MONTH}|next month)", as_said, False),
        (rf"(?:on )?(?:the )?{_ORDINAL} (?:of )?next month", next_month, False),
        (rf"next month (?:on )?(?:the )?{_ORDINAL}", next_month, False),
        (rf"(?:last|every) {WEEKDAY}", nothing, False),
        (rf"{CHANGED}{WEEKDAY} to {_WEEKDAY}", weekday, False),
        (rf"{WEEKDAY} (?:to|through|till|until) {WEEKDAY}", nothing, False),
        (rf"(?:(?:on )?{_WEEKDAY} )?(?:on )?(?:the )?{_ORDINAL} (?:of )?{_MONTH}{_YEAR}", date, False),
        (rf"(?:(?:on )?{_WEEKDAY} )?(?P<day>\d{{1,2}}) (?:of )?{_MONTH}{_YEAR}", date, False),
        (rf"(?:(?:on )?{_WEEKDAY} )?(?:on )?{_MONTH} (?:the )?{_ORDINAL}{_YEAR}", date, False),
        (rf"(?:(?:on )?{_WEEKDAY} )?(?:on )?(?P<month>{'|'.join(_MONTHS)}) (?P<day>\d{{1,2}}){_YEAR}", date, False),
        (rf"(?:on )?(?!may ){_MONTH} (?P<day>{NUMBER}){_YEAR}", date, False),
        (rf"(?:on )?{_WEEKDAY} (?:on )?the {_ORDINAL}", date, False),
        (rf"on the {_ORDINAL}{_DATE_ENDS}", date, False),
        (r"(?:on )?(?:christmas (?:eve|day)|new year's (?:eve|day)|easter (?:sunday|monday))", as_said, False),
        (rf"a week (?:from|on) (?:today|tomorrow|{WEEKDAY})", as_said, False),
        (rf"(?:on )?{WEEKDAY} (?:next week|after next|week|{_WEEKS})", as_said, False),
        (r"(?:the )?(?:next day|day after(?! tomorrow))", day_after, False),
        (r"(?:the )?day after tomorrow|today|tomorrow", as_said, False),
        (r"tonight|this (?:morning|afternoon|evening)", today, False),
        (rf"(?:on )?{_WEEKDAY}(?:'s)?", weekday, False),
        (_WAIT, as_said, False),
        (rf"the {_ORDINAL}{_DATE_ENDS}", date, True),
        (rf"(?P<day>\d{{1,2}}(?:st|nd|rd|th)){_DATE_ENDS}", date, True),
    ]
    find = finder(patterns)
    return find

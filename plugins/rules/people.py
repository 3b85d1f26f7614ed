"""The parser of numbers of people."""

from __future__ import annotations

import re

from vivavoce.plugins.rules.sentence import CHANGED, DIGITS_IN_A_ROW, GUESTS, NUMBER, Reader, finder, nothing
from vivavoce.plugins.rules.values import Parser, to_number

_GROWN = r"(?:people|persons?|guests?|adults?|grown ups?|of us)"
_CHILDREN = r"(?:children|child|kids?|bab(?:y|ies)|infants?|toddlers?)"
_KIND = rf"(?:{_GROWN}|{_CHILDREN})"
_RELATIVE = (
    r"(?:wife|husband|partner|girlfriend|boyfriend|friend|son|daughter|mother|father|mum|mom|dad|boss|sister|brother)"
)
_OTHERS = r"(?:friends|others|other people|more|colleagues|guests)"
_NO_COUNT = (
    r"(?!:| (?:o'clock|am|pm|oh|fifteen|thirty|forty|hundred|thousand|percent|more|other|others|friends|colleagues"
    r"|children|child|kids|minutes?|hours?|days?|nights?|weeks?|months?|years?|euros?|dollars?|pounds?|tables?"
    r"|times|things?|moments?|seconds?|questions?|couples|families|dogs?|cats?|chairs?|bottles?|high"
    r"|of|else|past|to \S+ (?:please|people))(?!\S))"
)


def party_sizes(*, smallest: int = 1, largest: int = 20) -> Parser:
    """Return a parser of numbers of people, with numbers from `smallest` to `largest` as values."""

    def fits(number: int) -> int | None:
        return number if smallest <= number <= largest else None

    def value(match: re.Match[str]) -> int | None:
        return fits(to_number(match["number"]))

    def total(match: re.Match[str]) -> int | None:
        counts = re.findall(rf"(?<!\S)({NUMBER}|an?)(?= {_KIND}(?!\S))", match[0])
        return fits(sum(1 if count in ("a", "an") else to_number(count) for count in counts))

    def added(match: re.Match[str]) -> int | None:
        counts = re.split(" (?:plus|and) ", match[0])
        return fits(sum(1 if count in ("me", "myself") else to_number(count) for count in counts))

    def with_me(match: re.Match[str]) -> int | None:
        return fits(to_number(match["number"]) + 1)

    def constant(number: int) -> Reader:
        return lambda match: fits(number)

    number, any_number = rf"(?P<number>{NUMBER})", rf"(?:{NUMBER})"
    alone = r"(?:just|only) (?:for )?(?:me|myself)|for myself|by myself|on my own|(?:just|only|for) one person|alone"
    kinds, one_or_more = rf"{any_number} {_KIND}(?: {any_number} {_KIND})*", rf"(?:{any_number}|an?)"
    two = rf"(?:me|myself) and my {_RELATIVE}|my {_RELATIVE} and (?:me|i|myself)"
    we_are = r"(?:we|there)(?: are|'re| will be|'ll be| would be|'d be| are going to be|'re going to be)|there's"
    patterns: list[tuple[str, Reader, bool]] = [
        (DIGITS_IN_A_ROW, nothing, False),
        (rf"{CHANGED}{any_number} to {number} {GUESTS}", value, False),
        (rf"{CHANGED}{any_number} to {number}", value, True),
        (rf"(?:between|from) {any_number} (?:and|to) {any_number}(?: {GUESTS})?", nothing, False),
        (rf"{any_number} (?:to|or) {any_number}(?: or {any_number})?(?: {GUESTS})", nothing, False),
        (rf"{kinds} (?:and|plus|with) {one_or_more} {_KIND}", total, False),
        (rf"{kinds} {one_or_more} {_CHILDREN}", total, False),
        (rf"(?:me|myself) (?:and|plus|with) {number} {_OTHERS}", with_me, False),
        (rf"{number} {_OTHERS} and (?:me|i|myself)", with_me, False),
        (r"(?:the )?both of us|us (?:two|both)", constant(2), False),
        (rf"(?:for|just|only|it's|be|it'll be) (?:{two})(?! (?:and|plus|with)(?!\S))", constant(2), False),
        (rf"(?:another|extra|additional|more) {any_number} {GUESTS}", nothing, False),
        (rf"(?:for )?(?:the )?{number} {GUESTS}", value, False),
        (rf"half a dozen {GUESTS}", constant(6), False),
        (rf"a dozen {GUESTS}", constant(12), False),
        (r"(?:a|the) couple(?: of (?:us|people|persons|guests))?(?! (?:of|more)(?!\S))", constant(2), False),
        (rf"(?:party|table|group|family|reservation|booking) (?:of|for) {number}{_NO_COUNT}", value, False),
        (rf"(?:{we_are}) (?:about |around |only |just )?{number}{_NO_COUNT}", value, False),
        (rf"for {number}{_NO_COUNT}(?!-)", value, False),
        (alone, constant(1), False),
        (rf"(?:{two})(?! (?:and|plus|with)(?!\S))", constant(2), True),
        (rf"{any_number} (?:plus (?:{any_number}|me|myself)|and (?:me|myself))(?! {GUESTS})", added, True),
        (r"half a dozen", constant(6), True),
        (r"a dozen", constant(12), True),
        (r"(?:no|any|some|this|that|which|another|the) one (?:else|can|will|is|has|that|who)", nothing, False),
        (rf"(?<!table )(?:about |around |roughly |approximately )?{number}(?: ish)?{_NO_COUNT}", value, True),
    ]
    return finder(patterns)

"""Decides which slot gets which words of a sentence, and which of several values was meant."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import pairwise

from vivavoce.plugins.rules.sentence import NUMBER, plain
from vivavoce.plugins.rules.slot_filling import Slot, SlotFilling
from vivavoce.plugins.rules.values import Mention, Value

CORRECTION = re.compile(
    r"\b(?:no|nope|sorry|actually|wait|hang on|hold on|i mean|i meant|rather|instead|make (?:it|that)"
    r"|change|move|switch|correction|scratch that|oops|whoops|pardon|excuse me|let's say|let's make it|should be"
    r"|i said)\b"
)
_CONTRADICTION = re.compile(r"^(?:no|nope|that's wrong|that is wrong|wrong|not that)\b")
_ALTERNATIVE = re.compile(
    r"(?:or|and|maybe|perhaps|possibly)(?: (?:maybe|perhaps|possibly|even|at|on|for|about|around|else))*"
    r"|or if(?: \S+){1,5}"
)
_REPLACED = re.compile(
    r"\b(?:no|sorry|actually|wait|i mean|i meant|rather|make (?:it|that))(?: (?:for|at|it's|we are|we're|um|uh))*"
    rf" {NUMBER}(?!\S)"
)
_REFUSED_BEFORE = re.compile(
    r"\b(?:not|cannot|\w+n't|rather than|instead of|other than|anything but|any \w+ but|except|without|unless"
    r"|neither|nor)"
    r"(?: (?:do|make(?: it)?|come|manage|want|need|be|like|have|on|at|for|under))*$"
)
_REFUSED_AFTER = re.compile(
    r"^(?:is not|isn't|is no good|is bad|is out|is wrong|is impossible|does not|doesn't|will not|won't|would not"
    r"|wouldn't|can't|cannot)\b"
)


@dataclass(frozen=True, slots=True)
class Heard:
    """The values in a sentence.

    Args:
        values: The value of each slot that the sentence gives.
        refused: The values of each slot that the sentence says "not" to.
        is_unclear: It corrects a value, and does not say of which slot.
    """

    values: dict[str, Value] = field(default_factory=dict)
    refused: dict[str, list[Value]] = field(default_factory=dict)
    is_unclear: bool = False


@dataclass(frozen=True, slots=True)
class _Claim:
    slot: Slot
    mention: Mention

    @property
    def start(self) -> int:
        return self.mention.start

    @property
    def end(self) -> int:
        return self.mention.end

    def overlaps(self, other: _Claim) -> bool:
        return self.start < other.end and other.start < self.end


def find_values(
    filling: SlotFilling,
    text: str,
    expected: Slot | None = None,
    *,
    known: Collection[str] = (),
    last: Collection[str] = (),
) -> Heard:
    """Return the value of each slot that `text` mentions; of several mentions of one slot, the last.

    If two slots claim the same words, the longer mention counts, then the slot of the question, then the earlier slot.
    A bare value ("eight") belongs to the slot that it corrects in the same sentence ("at seven, no, eight"), then to
    the slot of the question, then to the only known slot that takes it, if the sentence is a correction ("make it
    eight"). Alternatives ("seven or eight") and numbers in a row give no value. Words after "not" are no value.

    Args:
        expected: The slot of the open question.
        known: Names of the slots that have a value.
        last: Names of the slots that the user's last message gave a value.
    """
    claims = [
        _Claim(slot, mention) for slot in filling.slots for mention in _without_alternatives(text, slot.parser(text))
    ]
    kept = _certain(claims, expected)
    bare = [claim for claim in claims if claim.mention.is_bare and not any(claim.overlaps(other) for other in kept)]
    bare = _without_rows(text, bare)
    is_unclear = False
    for start, end in sorted({(claim.start, claim.end) for claim in bare}, key=lambda place: (place[0], -place[1])):
        takers = [claim for claim in bare if (claim.start, claim.end) == (start, end)]
        if any(takers[0].overlaps(other) for other in kept):
            continue
        taker = _corrected(text, takers, kept) or _asked_for(text, takers, kept, expected, last)
        if taker is None and CORRECTION.search(plain(text)):
            able = [claim for claim in takers if claim.slot.name in known]
            taker = able[0] if len(able) == 1 else None
            is_unclear = is_unclear or len(able) > 1
        if taker is not None:
            kept = sorted([*kept, taker], key=lambda claim: claim.start)
    values, refused = {}, dict[str, list[Value]]()
    for claim in kept:
        if _is_refused(text, claim) or (claim is kept[-1] and _REPLACED.search(plain(text[claim.end :]))):
            refused.setdefault(claim.slot.name, []).append(claim.mention.value)
        else:
            values[claim.slot.name] = claim.mention.value
    return Heard(values, refused, is_unclear and not values)


def _without_alternatives(text: str, mentions: list[Mention]) -> list[Mention]:
    """Return the mentions without different ones that "or" or "and" joins."""
    joined = {id(mention) for pair in pairwise(mentions) if _are_alternatives(text, *pair) for mention in pair}
    return [mention for mention in mentions if id(mention) not in joined]


def _are_alternatives(text: str, one: Mention, other: Mention) -> bool:
    joint = _ALTERNATIVE.fullmatch(plain(text[one.end : other.start]))
    if joint is None or one.value == other.value:
        return False
    # In "at seven and we are four" the bare number is another slot's value.
    return one.is_bare is other.is_bare or not joint[0].startswith("and")


def _without_rows(text: str, bare: list[_Claim]) -> list[_Claim]:
    """Return the bare claims without those of different numbers in a row ("five five five oh one", "5/3")."""
    in_row = {
        id(claim)
        for slot in {claim.slot.name for claim in bare}
        for pair in pairwise([claim for claim in bare if claim.slot.name == slot])
        for claim in pair
        if not plain(text[pair[0].end : pair[1].start])
        and pair[0].mention.value != pair[1].mention.value
        and not _is_refused(text, pair[0])
    }
    return [claim for claim in bare if id(claim) not in in_row]


def _certain(claims: list[_Claim], expected: Slot | None) -> list[_Claim]:
    """Return the claims of values that are not bare, without overlap, in order."""
    sure = [claim for claim in claims if not claim.mention.is_bare]
    if expected not in [claim.slot for claim in sure]:
        answers = [claim for claim in claims if claim.mention.is_bare and claim.slot is expected]
        if len(answers) == 1:  # the words for the question, such as "for eight", may look like another slot's value
            sure = [claim for claim in sure if not answers[0].start <= claim.start <= claim.end <= answers[0].end]
    kept: list[_Claim] = []
    for claim in sorted(sure, key=lambda claim: (claim.start - claim.end, claim.slot is not expected)):
        if not any(claim.overlaps(other) for other in kept):
            kept.append(claim)
    return sorted(kept, key=lambda claim: claim.start)


def _corrected(text: str, takers: list[_Claim], kept: list[_Claim]) -> _Claim | None:
    """Return the claim for the slot whose value, earlier in the sentence, the bare value corrects."""
    before = [claim for claim in kept if claim.end <= takers[0].start]
    if not before:
        return None
    between = plain(text[before[-1].end : takers[0].start])
    if not (CORRECTION.search(between) or _is_refused(text, before[-1])):
        return None
    by_slot = {claim.slot.name: claim for claim in takers}
    return next((by_slot[claim.slot.name] for claim in reversed(before) if claim.slot.name in by_slot), None)


def _asked_for(
    text: str, takers: list[_Claim], kept: list[_Claim], expected: Slot | None, last: Collection[str]
) -> _Claim | None:
    """Return the claim for the slot of the question; after a contradiction ("no, eight"), of the slot just filled."""
    asked = next((claim for claim in takers if claim.slot is expected), None)
    if asked is None or kept or not _CONTRADICTION.search(plain(text[: takers[0].start])):
        return asked
    filled = [claim for claim in takers if claim.slot.name in last]
    return filled[0] if len(filled) == 1 else asked


def _is_refused(text: str, claim: _Claim) -> bool:
    return bool(_REFUSED_BEFORE.search(plain(text[: claim.start])) or _REFUSED_AFTER.search(plain(text[claim.end :])))

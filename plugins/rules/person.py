"""The parser of people's names."""

from __future__ import annotations

import re

from vivavoce.plugins.rules.sentence import NUMBER, WEEKDAY, Words
from vivavoce.plugins.rules.values import Mention, Parser

MAX_WORDS = 4
"""A longer row of words is no name."""

_NO_NAME = frozenset(
    """
    a an and the this that these those there here it its it's that's what what's who whose which when where why how
    if or but so of to in on at by for from with without about as than not no nope nah yes yeah yep yup sure ok okay
    fine good great nice right correct wrong true i i'm i'd i'll i've me my mine you your you're we we're we'd we'll
    us our he she his her they them their is isn't are aren't was wasn't were be been being am do does don't did
    didn't have has had can can't could couldn't won't would wouldn't shall should might must let let's go going get
    got want need like looking calling trying having waiting booking reserving hungry late early sorry pardon thanks
    thank please wait hello hi hey bye goodbye stop repeat again say said tell know think mean meant really very too
    also just only maybe perhaps actually rather instead well um uh er hmm huh oh ah nothing none nobody something
    someone anything everything everybody table reservation people person persons guests guest day date time name
    names first last full today tonight tomorrow yesterday morning afternoon evening night noon midnight breakfast
    lunch dinner birthday business one's myself yourself alone both couple o'clock pm half past quarter make made
    change cancel book call called speaking spell spelled spelt question minute second moment help happy ready busy
    done sick tired difficult easy terrible ridiculous annoying impossible possible perfect excellent lovely
    wonderful awesome exactly absolutely definitely certainly course problem matter mother's father's wife husband
    friend friends now then later soon still already yet more less much many some any all every each other another
    same different
    """.split()
)
_TITLES = frozenset(("mr", "mrs", "ms", "miss", "dr", "doctor", "and"))
_NO_NAMES = re.compile(rf"(?:{WEEKDAY}|{NUMBER}|\d.*|\w+(?:'re|'ll|'ve|'d|n't))$")

_SAID = re.compile(
    r"(?<!\S)(?:(?:full |first |last |sur)?name(?:'s| is| would be| should be)(?: actually)?"
    r"|(?:under|in|on) the name(?: of)?|under|down as|name of|call me|i'm called|i am called)(?: not)?(?!\S)"
)
_PERHAPS = re.compile(
    r"(?:^|(?<!\S)(?:(?:no|nope|sorry|actually|i mean|i meant|wait|but|correction|rather|yes|hello|hi|it's|it is"
    r"|this is|i'm|i am|that's|that is|that would be|it's for|it is for|for)(?!\S) ?))"
)
_FILLER = re.compile(
    r"(?: ?(?:of course|right|please|use|um|uh|er|hmm|well|so|oh|yes|yeah|sure|okay|ok|hello|hi|hey|it's|just|for"
    r"|actually)(?!\S))+"
)
_END = re.compile(
    r" ?(?:$|(?:please|thanks|thank you|speaking|here|calling|no|sorry|actually|i mean|i meant|wait|or rather|rather"
    r"|and|but|not|from|with)(?!\S))"
)


def names() -> Parser:
    """Return a parser of names, with values such as `"Anna Smith"`, whatever capitals the recogniser wrote.

    "My name is Anna Smith", "under the name of Smith" and "call me Anna" are names in any sentence; "this is Anna",
    "I'm Anna", "it's for Anna" and a name alone are one when the name is asked for, or corrected. Letters that follow a
    name spell its last word: "Anna Meyer, M-A-I-E-R".
    """

    def find(text: str) -> list[Mention]:
        words = Words.of(text)
        found: dict[int, Mention] = {}
        for intro, is_bare in ((_SAID, False), (_PERHAPS, True)):
            for match in intro.finditer(words.text):
                start = match.end()
                if is_bare and (filler := _FILLER.match(words.text, start)):
                    start = filler.end()
                start += words.text[start : start + 1] == " "
                end, value = _name(words.text, start)
                if not value or (is_bare and not _END.match(words.text, end)):
                    continue
                place = words.place(start, end)
                if all(place[1] <= other.start or place[0] >= other.end for other in found.values()):
                    found[start] = Mention(value, *place, is_bare)
        return sorted(found.values(), key=lambda mention: mention.start)

    return find


def _name(row: str, start: int) -> tuple[int, str]:
    """Return the end of the name that begins at `start`, and the name; an empty one if there is none."""
    said, words = row[start:].split(), list[str]()
    for index, word in enumerate(said):
        is_pair = word == "and" and words and words[-1] in _TITLES
        is_spelled = len(word) == 1 and any(len(near) == 1 for near in (words[-1:] + said[index + 1 : index + 2]))
        if not (is_spelled or is_pair) and (word in _NO_NAME or _NO_NAMES.match(word)):
            break
        words.append(word)
    end = start + len(" ".join(words))
    letters = ""
    while words and len(words[-1]) == 1:
        letters = words.pop() + letters
    if len(letters) > 1:
        words[-1:] = [letters]
    elif letters:
        words.append(letters)
    if len(words) > 2 and words[0] in words[1:]:  # "Bond. James Bond."
        del words[0]
    is_name = len(words) <= MAX_WORDS and not _TITLES.issuperset(words)
    return (end, " ".join(_capital(word) for word in words)) if is_name else (start, "")


def _capital(word: str) -> str:
    return re.sub(r"(?:^|(?<=^mc)|(?<=^[od]'))[^\W\d_]", lambda match: match[0].upper(), word)

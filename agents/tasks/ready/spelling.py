"""Spoken spelling into characters, and back: letters, digits and signs in English. Pure."""

from __future__ import annotations

import re

SIGNS = {
    "at": "@",
    "dot": ".",
    "point": ".",
    "period": ".",
    "dash": "-",
    "hyphen": "-",
    "minus": "-",
    "underscore": "_",
    "plus": "+",
}
"""Signs by their spoken names."""

ALPHABET = (
    "alpha alfa bravo charlie delta echo foxtrot golf hotel india juliet juliett kilo lima mike november oscar papa "
    "quebec romeo sierra tango uniform victor whiskey whisky x-ray xray yankee zulu"
)
_LETTER_WORDS = {word: word[0] for word in ALPHABET.split()}

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split()
_UNITS += "seventeen eighteen nineteen".split()
_NUMBERS = {word: str(number) for number, word in enumerate(_UNITS)} | {"oh": "0", "nought": "0"}
_TENS = {word: number for number, word in enumerate("twenty thirty forty fifty sixty seventy eighty ninety".split(), 2)}
_REPEATS = {"double": 2, "triple": 3, "treble": 3}
_FILLERS = frozenset("and uh um er the code is it's its it my number please so that's thats".split())

_NAMED_LETTER = re.compile(r"\b[a-z] (?:as in|for|like) ([a-z])[a-z-]*\b")
_SINGLE_LETTERS = re.compile(r"^[a-z0-9](?:-[a-z0-9])+$")


def spelled(text: str) -> str:
    """Return the written form of a spelled text, in lower case and without spaces.

    "J O H N dot double u at example dot com" becomes "john.w@example.com". Of "p as in bravo" the word counts: a
    recogniser takes one letter for another more easily than one word. Words of the spelling alphabet are letters where
    nothing else stands beside them between two signs; other words stay.
    """
    text = _NAMED_LETTER.sub(r"\1", text.casefold().strip().rstrip(".,;!?"))
    text = re.sub(r"\bunder score\b", "underscore", re.sub(r"\bdouble (?:u|you)\b", "w", text))
    parts: list[str] = []
    run: list[str] = []
    for word in text.split():
        word = word.strip(",;") if len(word) > 1 else word
        if word in SIGNS:
            parts += [_joined(run), SIGNS[word]]
            run = []
        elif word:
            run.append(word)
    return "".join([*parts, _joined(run)])


def spoken_digits(text: str) -> str | None:
    """Return the digits of a text that holds only digits and number words; None if it holds other words, or none.

    "double five", "oh", "twenty three" and "nineteen" are understood; "and", "the code is" and the like do not count.
    """
    words = re.findall(r"[a-z']+|\d+|[^\sa-z\d.,;!?-]", text.casefold())
    digits, repeat = "", 1
    for word in _with_tens([word for word in words if word not in _FILLERS]):
        found = word if word.isdecimal() else _NUMBERS.get(word)
        if word in _REPEATS:
            repeat = _REPEATS[word]
        elif found is None:
            return None
        else:
            digits, repeat = digits + found * repeat, 1
    return digits or None


def read_back(text: str) -> str:
    """Return a text as it is read out, character by character: "a, n, n, at, x, dot, d, e"."""
    names = {"@": "at", ".": "dot", "-": "dash", "_": "underscore", "+": "plus"}
    return ", ".join(names.get(character, character) for character in text if not character.isspace())


def _with_tens(words: list[str]) -> list[str]:
    """Return the words with "twenty", "three" as "23", and "twenty" as "20"."""
    merged: list[str] = []
    was_tens = False
    for word in words:
        unit = _NUMBERS.get(word, "")
        if was_tens and len(unit) == 1 and unit != "0":
            merged[-1] = merged[-1][0] + unit
            was_tens = False
        else:
            was_tens = word in _TENS
            merged.append(f"{_TENS[word]}0" if was_tens else word)
    return merged


def _joined(run: list[str]) -> str:
    is_alphabet = len(run) > 1 and all(len(word) == 1 or word in _LETTER_WORDS or word.isdecimal() for word in run)
    written, repeat = "", 1
    for word in _with_tens(run):
        if word in _REPEATS and repeat == 1:
            repeat = _REPEATS[word]
        else:
            written, repeat = written + _character(word, is_alphabet=is_alphabet) * repeat, 1
    return written


def _character(word: str, *, is_alphabet: bool) -> str:
    if is_alphabet and word in _LETTER_WORDS:
        return _LETTER_WORDS[word]
    if _SINGLE_LETTERS.match(word):
        return word.replace("-", "")
    return _NUMBERS.get(word, word)

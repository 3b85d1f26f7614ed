"""Words: where they begin and end, how many there are, and whether two texts hold the same ones, in every script.

Boundaries are Unicode's (UAX 29, by the `regex` library); one inside a grapheme cluster does not count. Chinese,
Japanese, Thai, Lao, Khmer and Burmese are written without spaces, and UAX 29 ends a "word" there after every sign. That
is right for cutting. For counting, every two clusters of a run of Han or Kana count as a word, and every four of the
others, which is about the length of their words.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regex import Match, Pattern

EDGE_PUNCTUATION = ".,:;!?…¿¡。、，！？：；؟۔।\"'`´‘’“”„«»()[]（）「」『』《》–—"
"""Punctuation at a word's edge. Inside a word it counts: 1.5 is not 15, and we're is not were."""

_DENSE = r"[[\p{Script_Extensions=Han}\p{Script_Extensions=Hiragana}\p{Script_Extensions=Katakana}]&&[\p{L}\p{N}]]"
_LONG = r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]&&[\p{L}\p{N}]]"
_PATTERNS = {
    "cluster": r"\X",
    "boundary": r"(?w)\b",
    "counted": rf"(?w)(?P<dense>(?:(?={_DENSE})\X)+)|(?P<long>(?:(?={_LONG})\X)+)|\b\w.*?\b",
    "word": r"(?w)\b[\w\p{M}].*?\b",
    "part": r"\S+",
    "spaceless": rf"{_DENSE}|{_LONG}",
    "opener": r"[\p{Ps}\p{Pi}\p{Pd}¿¡]+\Z",
}
_LONGEST_CLUSTER = 64
"""Characters; longer ones do not occur in texts that people read."""
_CLUSTERS_A_WORD = {"dense": 2, "long": 4, None: 0}


@cache
def _pattern(name: str) -> Pattern[str]:
    import regex  # 10 ms, which only sessions that need it should wait for

    return regex.compile(_PATTERNS[name], regex.V1 | regex.S)


def count_words(text: str) -> int:
    """Return how many words `text` holds, without punctuation."""
    words = 0
    for found in _pattern("counted").finditer(text):
        size = _CLUSTERS_A_WORD[found.lastgroup]
        words += -(-sum(1 for _ in _pattern("cluster").finditer(found[0])) // size) if size else 1
    return words


def is_spaceless(text: str) -> bool:
    """Whether `text` holds signs of a script that is written without spaces between words."""
    return not text.isascii() and _pattern("spaceless").search(text) is not None


def spaceless_runs(text: str) -> list[tuple[int, list[int], int]]:
    """Return the runs of scripts that are written without spaces between words.

    Returns:
        Of each run its start, the ends of its grapheme clusters, and the number of clusters that count as a word.
    """
    if not is_spaceless(text):
        return []
    return [
        (found.start(), [cluster.end() for cluster in _clusters(text, *found.span())], size)
        for found in _pattern("counted").finditer(text)
        if (size := _CLUSTERS_A_WORD[found.lastgroup])
    ]


def _clusters(text: str, start: int, end: int) -> Iterator[Match[str]]:
    return _pattern("cluster").finditer(text, start, end)


def is_letter(sign: str) -> bool:
    """Whether one character belongs to a word: a letter, a digit, or a mark on one, such as a Thai vowel."""
    return sign.isalnum() or unicodedata.category(sign).startswith("M")


def letters_of(text: str) -> str:
    """Return the letters and digits of `text`, to compare words that are written in other case or by other code points
    (é is one or two)."""
    return unicodedata.normalize("NFKC", "".join(filter(is_letter, text))).casefold()


def unless_blank(text: str) -> str:
    """Return a transcript, or "" if it has no letter and no digit: then nothing was said."""
    return text if any(map(str.isalnum, text)) else ""


def word_end(text: str, at: int) -> int:
    """Return the last end of a word at or before `at`, with the punctuation that closes it; 0 if there is none.

    Args:
        at: A place in `text`, in characters.
    """
    if at >= len(text):
        return len(text)
    start = at = max(at, 0)
    if start and text[start].isspace() and text[start - 1].isalnum():
        return start
    while start and not text[start - 1].isspace():
        start -= 1
    head = text[start : at + 1]
    end = 0
    if not (head.isascii() and head.isalnum()):  # an ASCII word has no end inside; the rest needs Unicode's rules
        stop = at
        while stop < len(text) and not text[stop].isspace():
            stop += 1
        end = max((end for end in _ends(text[start:stop]) if end <= at - start), default=0)
        opener = _pattern("opener").search(text, start, start + end)
        end = end if opener is None else opener.start() - start
    end += start
    while end and text[end - 1].isspace():
        end -= 1
    return end


def cluster_start(text: str, at: int) -> int:
    """Return the last place at or before `at` where no grapheme cluster is split.

    Args:
        at: A place in `text`, in characters.
    """
    start = max(at - _LONGEST_CLUSTER, 0)
    ends = (found.end() for found in _pattern("cluster").finditer(text, start, at + _LONGEST_CLUSTER))
    return max((end for end in ends if end <= at), default=start)


def shortened(text: str, most: int) -> str:
    """Return `text` for a person: if it has more than `most` characters, its beginning and the number of them."""
    return text if len(text) <= most else f"{text[: cluster_start(text, most)]}… {len(text):,} characters"


def pieces(text: str) -> list[tuple[int, int]]:
    """Return the spans between white space; where a script has no spaces, between Unicode's boundaries."""
    found: list[tuple[int, int]] = []
    start = 0
    for part in text.split():
        start = text.index(part, start)
        end = start + len(part)
        found += _cut(part, start) if is_spaceless(part) else [(start, end)]
        start = end
    return found


def word_spans(text: str, start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the words of a part of the text; where a script has no spaces, those between Unicode's
    boundaries."""
    for part in _pattern("part").finditer(text, start, stop):
        if is_spaceless(part[0]):
            yield from _cut(part[0], part.start())
        else:
            yield from (found.span() for found in _pattern("word").finditer(text, part.start(), part.end()))


def _cut(part: str, start: int) -> list[tuple[int, int]]:
    ends = _ends(part)
    return [(start + begin, start + end) for begin, end in zip([0, *ends], ends, strict=False)]


def _ends(part: str) -> list[int]:
    """Return Unicode's word boundaries but for the first one; those inside a grapheme cluster are none."""
    clusters = {found.end() for found in _pattern("cluster").finditer(part)}
    return [found.start() for found in _pattern("boundary").finditer(part) if found.start() in clusters]


def words_of(text: str) -> list[str]:
    """Return the words of `text`, without case and punctuation, to compare them."""
    return _pattern("word").findall(text.casefold().replace("’", "'"))


def after_common_words(text: str, other: str) -> tuple[int, str]:
    """Return the number of words that both begin with, and the text behind them; the text is empty if no word
    follows."""
    words, known = list(_pattern("word").finditer(text)), words_of(other)
    common = 0
    while common < min(len(words), len(known)) and words_of(words[common][0]) == [known[common]]:
        common += 1
    return common, text[words[common].start() :] if common < len(words) else ""


def same_words(one: str, other: str) -> bool:
    """Return whether nothing differs but case, white space and the punctuation at words' edges."""
    return one == other or _bare_pieces(one) == _bare_pieces(other)


def _bare_pieces(text: str) -> Sequence[str]:
    folded = text.casefold()
    bare = (folded[start:end].strip(EDGE_PUNCTUATION) for start, end in pieces(folded))
    return [piece for piece in bare if piece]

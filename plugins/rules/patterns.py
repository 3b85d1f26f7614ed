"""Parsers of given words, and of a regular expression."""

from __future__ import annotations

import re

from vivavoce.plugins.rules.sentence import finder, plain
from vivavoce.plugins.rules.values import Mention, Parser


def choice(*words: str) -> Parser:
    """Return a parser of one of these words or phrases, however they are punctuated."""
    phrases = {plain(word): word.lower() for word in words}
    alternatives = "|".join(re.escape(phrase) for phrase in sorted(phrases, key=len, reverse=True))
    return finder([(alternatives, lambda match: phrases[match[0]], False)], mends_slips=False)


def pattern(regex: str) -> Parser:
    """Return a parser of the matches of a regular expression: the first group if there is one, else the whole match.

    It is matched with the text in lower case as the recogniser writes it, punctuation included.
    """
    compiled = re.compile(regex)

    def find(text: str) -> list[Mention]:
        matches = (match for match in compiled.finditer(text) if match[0])
        values = ((match[1] if compiled.groups else match[0], match) for match in matches)
        return [Mention(value, *match.span()) for value, match in values if value is not None]

    return find

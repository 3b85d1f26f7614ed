"""Grammar and dictionary text: public rules, fillers, words, pronunciations."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.pocketsphinx.dictionary import cut
from vivavoce.plugins.pocketsphinx.grammar import prepare

GRAMMAR = """#JSGF V1.0 UTF-8 en;
grammar shop.sizes; /* not a word
nor this */
import <other.rule>;
public <size> = /0.9/ large {L} | /.1/ [very] small+ // nothing
  | <number>*;
<number> = one | (Two);
public <end> = good-bye | don't;
"""
DICTIONARY = """good-bye G UH D B AY
don't D OW N T
large L AA R JH
one W AH N
one(2) HH W AH N
small S M AO L
two T UW
um AH M
very V EH R IY
"""


def test_the_words_are_what_may_be_said() -> None:
    assert prepare(GRAMMAR).words == {"large", "very", "small", "one", "Two", "good-bye", "don't"}


def test_several_public_rules_become_one() -> None:
    text = prepare(GRAMMAR).text
    assert text.count("public") == 1
    assert "public <vivavoce_all> = <size> | <end>;" in text


def test_one_public_rule_stays_as_it_is() -> None:
    assert prepare("#JSGF V1.0;\ngrammar a;\npublic <a> = b;").text == "#JSGF V1.0;\ngrammar a;\npublic <a> = b;"


def test_fillers_are_words_of_their_own() -> None:
    grammar = prepare(GRAMMAR, ("um", "one"))
    entries = cut(DICTIONARY.splitlines(), grammar, {}).splitlines()
    assert "um_filler | one_filler" in grammar.text
    assert {"um_filler AH M", "one_filler W AH N", "one_filler(2) HH W AH N", "one W AH N"} <= set(entries)
    assert not any(entry.startswith("um ") for entry in entries)


def test_words_keep_the_grammars_spelling() -> None:
    assert "Two T UW" in cut(DICTIONARY.splitlines(), prepare(GRAMMAR), {})


def test_pronunciations_of_the_user_go_first() -> None:
    entries = cut(DICTIONARY.splitlines(), prepare(GRAMMAR), {"Small": "S M AA L"})
    assert "small S M AA L" in entries
    assert "S M AO L" not in entries


def test_missing_words_are_named() -> None:
    with pytest.raises(ConfigurationError, match="'Blorp', 'large'"):
        cut(["one W AH N"], prepare("#JSGF V1.0;\ngrammar a;\npublic <a> = one | Blorp | large;"), {})

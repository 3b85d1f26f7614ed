"""Voicing: which sentences of a streamed text a voice has left out, by its words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.speaking.voicing import Voicing
from vivavoce.pipelines.tts.base import Word


def left_out(text: str, spoken: str, *, pieces: int = 7) -> tuple[list[str], list[str]]:
    """Return the sentences left out before the voice's last word, and those at its end."""
    voicing = Voicing()
    for start in range(0, len(text), pieces):
        voicing.add_text(text[start : start + pieces])
    before = [place for word in spoken.split() for place in voicing.take(Word(word, 0.0, 0.0))]
    return [text[slice(*place)] for place in before], [text[slice(*place)] for place in voicing.rest()]


@pytest.mark.parametrize(
    ("text", "spoken", "before", "at_end"),
    [
        ("One two. Three. Four five.", "One two. Three. Four five.", [], []),
        ("One two. Three. Four five.", "Three. Four five.", ["One two."], []),
        ("One two. Three. Four five.", "One two. Four five.", ["Three."], []),
        ("One two. Three. Four five.", "One two.", [], ["Three.", "Four five."]),
        ("One two. Three. Four five.", "", [], ["One two.", "Three.", "Four five."]),
        ("One two. Three. Four five. Six.", "One two. Six.", ["Three.", "Four five."], []),
        ("Yes. Yes. No.", "Yes. No.", ["Yes."], []),
        ("One two. … Three.", "One two. Three.", [], []),  # without a letter there is nothing to pronounce
        ("One two three. Four five. Six seven.", "One two. Six seven.", ["Four five."], []),
    ],
)
def test_a_sentence_without_a_word_in_its_place_is_left_out(
    text: str, spoken: str, before: list[str], at_end: list[str]
) -> None:
    assert left_out(text, spoken) == (before, at_end)


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("It is 42. Two more.", "It is forty two. Two more."),
        ("42. Two more.", "forty two. Two more."),
        ("5 apples. Five pears are here.", "five apples five pears are here"),
        ("I see. 100. And then?", "I see one hundred and then"),
        ("Dr. Smith is in. He waits.", "Doctor Smith is in. He waits."),
        ("One two. Three.", "one two drei"),
    ],
)
def test_a_voice_that_spells_a_word_in_another_way_has_spoken_it(text: str, spoken: str) -> None:
    assert left_out(text, spoken) == ([], [])


def test_words_that_come_before_the_rest_of_their_sentence_are_found() -> None:
    voicing = Voicing()
    voicing.add_text("One tw")
    assert voicing.take(Word("One", 0.0, 0.2)) == []
    voicing.add_text("o. Three. Four")
    assert voicing.take(Word("two.", 0.2, 0.4)) == []
    voicing.add_text(" five.")
    assert [voicing.text[slice(*place)] for place in voicing.take(Word("Four", 0.4, 0.6))] == []
    assert [voicing.text[slice(*place)] for place in voicing.take(Word("five.", 0.6, 0.8))] == ["Three."]


SENTENCES = st.lists(st.lists(st.sampled_from("alpha beta gamma delta".split()), min_size=1, max_size=4), max_size=6)


def as_text(words: list[list[str]]) -> list[str]:
    """Return the sentences of these words."""
    return [f"{' '.join(sentence).capitalize()}." for sentence in words]


@given(SENTENCES)
def test_a_text_that_is_spoken_whole_has_nothing_left_out(words: list[list[str]]) -> None:
    text = " ".join(as_text(words))
    assert left_out(text, text) == ([], [])


@given(st.permutations("alpha beta gamma delta epsilon zeta eta theta iota kappa".split()), st.data())
def test_of_sentences_of_different_words_those_are_left_out_that_were(words: list[str], data: st.DataObject) -> None:
    marks = sorted(data.draw(st.sets(st.integers(1, len(words) - 1), max_size=5)))
    sentences = as_text([words[start:end] for start, end in pairwise([0, *marks, len(words)])])
    is_spoken = data.draw(st.lists(st.booleans(), min_size=len(sentences), max_size=len(sentences)))
    spoken = [sentence for sentence, is_so in zip(sentences, is_spoken, strict=True) if is_so]
    before, at_end = left_out(" ".join(sentences), " ".join(spoken))
    assert [*before, *at_end] == [sentence for sentence in sentences if sentence not in spoken]

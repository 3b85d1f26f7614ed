"""Texts of whole characters: halves that belong together are one character, others are replaced, the rest is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.characters import WholeText, whole, whole_json

UNITS = st.sampled_from(["a", " ", "é", "\U0001f600", "\ud83d", "\ude00", "\udbff", "\udfff", "\ufffd", "\ud7ff"])
TEXTS = st.lists(UNITS).map("".join)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("é \U0001f600", "é \U0001f600"),
        ("a\ud83d", "a\ufffd"),
        ("\ud83da", "\ufffda"),
        ("\ude00\ud83d", "\ufffd\ufffd"),
        ("\ud83d\ude00", "\U0001f600"),
        ("\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        ("\udc80.wav", "\ufffd.wav"),
    ],
)
def test_each_lone_half_is_replaced_and_two_that_belong_together_are_their_character(text: str, expected: str) -> None:
    assert whole(text) == expected


@given(TEXTS)
def test_a_whole_text_can_be_encoded_and_stays_as_it_is(text: str) -> None:
    once = whole(text)
    assert once.encode().decode() == once
    assert whole(once) == once


@given(st.lists(TEXTS))
def test_a_text_in_pieces_becomes_what_the_whole_text_becomes(pieces: list[str]) -> None:
    text = WholeText()
    out = [text.push(piece) for piece in pieces]
    assert all(whole(piece) == piece for piece in out)
    assert "".join([*out, text.finish()]) == whole("".join(pieces))


def test_nothing_but_half_a_character_waits_for_the_next_piece() -> None:
    text = WholeText()
    assert [text.push(piece) for piece in ("Well \ud83d", "\ude00", " and\ud83d", "")] == [
        "Well ",
        "\U0001f600",
        " and",
        "",
    ]
    assert text.finish() == "\ufffd"
    assert text.finish() == ""


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'{"a": "\ud83d"}', {"a": "\ufffd"}),
        (r'{"a": "\ud83d\ude00"}', {"a": "\U0001f600"}),
        (r'{"a": "\uDE00\uD83D."}', {"a": "\ufffd\ufffd."}),
        (r'{"a": "\\ud83d"}', {"a": r"\ud83d"}),
        (r'{"a": "\u00e9\\\ud83d\""}', {"a": 'é\\\ufffd"'}),
        ('{"a": "\ud83d"}', {"a": "\ufffd"}),
        (r'{"a": "\u', None),
    ],
)
def test_escaped_halves_in_json_are_replaced_and_other_escapes_stay(text: str, value: object) -> None:
    mended = whole_json(text)
    if value is None:
        assert mended == text
    else:
        assert json.loads(mended) == value

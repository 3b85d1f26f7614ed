"""Spoken spelling into characters, digits and answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.tasks.ready.spelling import SIGNS, read_back, spelled, spoken_digits
from vivavoce.agents.tasks.ready.yes_no import yes_or_no


@pytest.mark.parametrize(
    ("said", "written"),
    [
        ("ann at example dot com", "ann@example.com"),
        ("J O H N dot double u at example dot com.", "john.w@example.com"),
        ("b as in bravo, o, b as in bravo at mail dot org", "bob@mail.org"),
        ("p as in bravo o p like papa at mail dot org", "bop@mail.org"),
        ("J-O-H-N at example dot co dot uk", "john@example.co.uk"),
        ("november alpha bravo at example dot com", "nab@example.com"),
        ("bravo at example dot com", "bravo@example.com"),
        ("mary underscore ann minus one two at example dot com", "mary_ann-12@example.com"),
        ("mary under score twenty three at example dot com", "mary_23@example.com"),
        ("double t triple one plus news at example dot com", "tt111+news@example.com"),
        ("Ann.Lee@Example.COM", "ann.lee@example.com"),
        ("j.smith at example.com", "j.smith@example.com"),
    ],
)
def test_a_spelled_address_is_written(said: str, written: str) -> None:
    assert spelled(said) == written


@pytest.mark.parametrize(
    ("said", "digits"),
    [
        ("one two three four", "1234"),
        ("1 2 3 4", "1234"),
        ("12 34", "1234"),
        ("double five oh seven", "5507"),
        ("triple zero nine", "0009"),
        ("twenty three forty", "2340"),
        ("twenty-three, nineteen", "2319"),
        ("the code is four two, please", "42"),
        ("four two and a half", None),
        ("no idea", None),
        ("", None),
    ],
)
def test_spoken_digits_are_digits(said: str, digits: str | None) -> None:
    assert spoken_digits(said) == digits


@given(st.text("0123456789", min_size=1, max_size=12))
def test_digits_said_one_by_one_are_those_digits(digits: str) -> None:
    names = "zero one two three four five six seven eight nine".split()
    assert spoken_digits(" ".join(names[int(digit)] for digit in digits)) == digits


@given(st.text("abcdefghijklmnopqrstuvwxyz0123456789.-_@", min_size=1, max_size=20))
def test_a_text_that_is_read_back_and_spelled_again_is_the_same(text: str) -> None:
    assert spelled(read_back(text)) == text


@given(st.text(max_size=60))
def test_no_text_breaks_the_spelling(text: str) -> None:
    assert " " not in spelled(text)
    digits = spoken_digits(text)
    assert digits is None or digits.isdecimal()


def test_a_text_is_read_back_character_by_character() -> None:
    assert read_back("a.b@x-y") == "a, dot, b, at, x, dash, y"
    assert set(SIGNS.values()) == set("@.-_+")


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("Yes.", True),
        ("yes please", True),
        ("Of course!", True),
        ("yeah, that's right", True),
        ("No, thank you.", False),
        ("nope", False),
        ("that's not it", False),
        ("not right", None),
        ("Yes, it is.", True),
        ("Is that right?", None),  # the caller asks
        ("is it okay", None),
        ("okay?", None),
        ("yes but on friday", None),
        ("no, with a d", None),
        ("please", None),
        ("", None),
    ],
)
def test_only_a_plain_yes_or_no_is_understood_without_a_model(said: str, answer: bool | None) -> None:
    assert yes_or_no(said) is answer

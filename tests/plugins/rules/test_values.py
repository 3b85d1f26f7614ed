"""The small parsers find values in people's sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.plugins.rules import choice, days, in_words, party_sizes, pattern, time_in_words, times
from vivavoce.plugins.rules.values import Parser, Value, to_number


def _sure(parser: Parser, text: str) -> list[Value]:
    return [mention.value for mention in parser(text) if not mention.is_bare]


def _bare(parser: Parser, text: str) -> list[Value]:
    return [mention.value for mention in parser(text) if mention.is_bare]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("at seven", "19:00"),
        ("no, at eight", "20:00"),
        ("around nine please", "21:00"),
        ("at seven thirty", "19:30"),
        ("seven forty-five", "19:45"),
        ("half past six", "18:30"),
        ("quarter to eight", "19:45"),
        ("quarter to one", "12:45"),
        ("ten past eleven", "23:10"),
        ("eight o'clock", "20:00"),
        ("eight o'clock in the morning", "08:00"),
        ("nine am", "09:00"),
        ("9 p.m.", "21:00"),
        ("twelve in the morning", "00:00"),
        ("at 19:15", "19:15"),
        ("7:30", "19:30"),
        ("7:30 am", "07:30"),
        ("at noon", "12:00"),
        ("at midnight", "00:00"),
    ],
)
def test_a_time_is_found_however_it_is_said(text: str, time: str) -> None:
    assert _sure(times(), text) == [time]


def test_a_morning_business_takes_a_plain_hour_as_it_is() -> None:
    assert _sure(times(is_evening=False), "at eight") == ["08:00"]


def test_a_lone_number_may_be_a_time_or_a_party_size() -> None:
    assert (_sure(times(), "eight"), _bare(times(), "eight")) == ([], ["20:00"])
    assert (_sure(party_sizes(), "eight"), _bare(party_sizes(), "eight")) == ([], [8])


@pytest.mark.parametrize("text", ["at 99:99", "at thirty", "the day at the office", "25:00"])
def test_what_is_no_time_is_not_taken_for_one(text: str) -> None:
    assert _sure(times(), text) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("four people", 4),
        ("a table for two", 2),
        ("a party of twelve", 12),
        ("we are five", 5),
        ("six of us", 6),
        ("just me", 1),
        ("for twenty", 20),
        ("1 person", 1),
    ],
)
def test_a_party_size_is_found_however_it_is_said(text: str, size: int) -> None:
    assert _sure(party_sizes(), text) == [size]


@pytest.mark.parametrize("text", ["for seven thirty", "for eight o'clock", "for 7 pm", "fifty people", "zero people"])
def test_a_time_or_an_impossible_number_is_no_party_size(text: str) -> None:
    assert _sure(party_sizes(), text) == []


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("on friday", "friday"),
        ("this saturday", "saturday"),
        ("next sunday", "next sunday"),
        ("tonight please", "today"),
        ("the day after tomorrow", "day after tomorrow"),
    ],
)
def test_a_day_is_found_however_it_is_said(text: str, day: str) -> None:
    assert _sure(days(), text) == [day]


def test_a_choice_prefers_its_longer_phrases_and_a_pattern_its_group() -> None:
    assert _sure(choice("green", "green tea"), "a green tea please") == ["green tea"]
    assert _sure(pattern(r"my name is (\w+)"), "my name is ada") == ["ada"]
    assert _sure(pattern(r"\bx\d\b"), "flight x7") == ["x7"]


@given(st.integers(min_value=0, max_value=99))
def test_numbers_survive_being_spoken(number: int) -> None:
    assert to_number(in_words(number)) == number


def test_a_word_that_is_no_number_is_refused_with_what_came() -> None:
    with pytest.raises(ValueError, match="'lots'"):
        to_number("lots")


@given(hour=st.integers(min_value=12, max_value=23), minute=st.sampled_from([0, 15, 30, 45]))
def test_evening_times_survive_being_spoken(hour: int, minute: int) -> None:
    spoken = time_in_words(f"{hour}:{minute:02}")
    assert _sure(times(), f"at {spoken}") == [f"{hour}:{minute:02}"]


def test_odd_times_are_spoken_as_people_say_them() -> None:
    assert [time_in_words(time) for time in ("00:00", "12:00", "09:05", "20:10")] == [
        "midnight",
        "noon",
        "nine oh five",
        "eight ten",
    ]


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from("at for half past 7 :30 eight people not to pm".split())).map(" ".join)
)
def test_mentions_lie_in_the_text_in_order_without_overlap(text: str) -> None:
    text = text.lower()
    for parser in (times(), days(), party_sizes()):
        end = 0
        for mention in parser(text):
            assert end <= mention.start < mention.end <= len(text)
            end = mention.end

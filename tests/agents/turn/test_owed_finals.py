"""OwedFinals alone: how many bursts a final settles, by the finals before it."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.turn.user.owed_finals import OwedFinals, lacks_words

Came = Literal["in speech", "after speech", "without shown words"]


def bursts(number: int) -> OwedFinals:
    owed = OwedFinals()
    for _ in range(number):
        owed.burst_began()
    return owed


def came(owed: OwedFinals, how: Came) -> int:
    """A final comes; return how many bursts are owed one afterwards."""
    owed.final_came(is_in_speech=how == "in speech", has_all=how != "without shown words")
    return owed.bursts


@pytest.mark.parametrize(
    ("number", "how", "left"),
    [
        (1, "after speech", 0),
        (1, "in speech", 0),
        (1, "without shown words", 1),
        (2, "after speech", 0),
        (2, "in speech", 1),
        (2, "without shown words", 1),
        (3, "in speech", 1),
        (3, "after speech", 0),
    ],
)
def test_a_first_final_settles_the_bursts_that_are_over(number: int, how: Came, left: int) -> None:
    assert came(bursts(number), how) == left


@pytest.mark.parametrize(
    ("number", "how", "singly"),
    [
        (1, "after speech", True),
        (1, "in speech", None),  # it may be of the earlier part of one long burst
        (1, "without shown words", False),
        (2, "in speech", True),
        (2, "after speech", False),
        (3, "in speech", False),
    ],
)
def test_a_final_shows_whether_each_burst_gets_one(number: int, how: Came, singly: bool | None) -> None:
    owed = bursts(number)
    came(owed, how)
    assert owed.came_singly is singly


def test_after_a_final_of_one_burst_each_later_one_settles_one() -> None:
    owed = bursts(1)
    came(owed, "after speech")
    for _ in range(3):
        owed.burst_began()
    assert [came(owed, "after speech") for _ in range(3)] == [2, 1, 0]
    assert owed.came_singly is True


def test_after_a_final_of_two_bursts_none_is_taken_for_one_of_a_single_burst() -> None:
    owed = bursts(2)
    came(owed, "after speech")
    owed.burst_began()
    came(owed, "after speech")
    assert owed.came_singly is False
    owed.burst_began()
    owed.burst_began()
    assert came(owed, "after speech") == 0


@pytest.mark.parametrize(("number", "since_final", "left"), [(2, -0.1, 0), (2, 0.1, 0), (2, 0.11, 1)])
def test_a_final_at_the_end_of_the_newer_of_two_bursts_is_of_both(number: int, since_final: float, left: int) -> None:
    owed = bursts(number)
    came(owed, "in speech")
    owed.burst_ended(since_final)
    assert (owed.bursts, owed.came_singly) == (left, left == 1)


@pytest.mark.parametrize(("since_final", "singly"), [(-0.1, True), (0.5, True), (0.51, None)])
def test_a_final_near_the_end_of_the_only_burst_shows_that_each_burst_gets_one(
    since_final: float, singly: bool | None
) -> None:
    owed = bursts(1)
    came(owed, "in speech")
    owed.burst_ended(since_final)
    assert (owed.bursts, owed.came_singly) == (0, singly)


def test_where_no_interim_shows_the_rest_of_a_burst_that_is_owed_a_final() -> None:
    for since_final, left in ((0.5, 0), (0.51, 1)):
        owed = bursts(1)
        owed.final_came(is_in_speech=True, has_all=True, leaves_rest=True)
        assert owed.bursts == 1
        owed.burst_ended(since_final)
        assert owed.bursts == left
    owed.burst_began()
    assert owed.bursts == 1  # one final is of the rest and of this one
    owed.burst_began()
    assert owed.bursts == 2


def test_a_rest_that_is_forgiven_is_no_part_of_the_next_burst() -> None:
    owed = bursts(1)
    owed.final_came(is_in_speech=True, has_all=True, leaves_rest=True)
    owed.forgive()
    owed.burst_began()
    assert owed.bursts == 1


def test_a_final_behind_one_that_nothing_was_owed_after_says_nothing_of_how_finals_come() -> None:
    owed = bursts(1)
    came(owed, "in speech")
    came(owed, "in speech")
    owed.burst_ended(0.2)
    assert (owed.bursts, owed.came_singly) == (0, None)


def test_a_final_that_has_more_than_the_words_shown_is_of_both_bursts() -> None:
    owed = bursts(2)
    owed.final_came(is_in_speech=True, has_all=True, has_more=True)
    assert (owed.bursts, owed.came_singly) == (0, False)


def test_an_end_reported_after_a_final_of_one_burst_settles_nothing() -> None:
    owed = bursts(1)
    came(owed, "after speech")
    owed.burst_began()
    owed.burst_began()
    came(owed, "in speech")
    owed.burst_ended(0.0)
    assert owed.bursts == 1


def test_a_final_of_the_speech_before_is_not_near_the_end_of_a_short_burst() -> None:
    owed = bursts(1)
    came(owed, "after speech")
    owed.burst_began()
    owed.burst_ended(0.3)
    assert (owed.bursts, owed.came_singly) == (1, True)


def test_an_end_without_an_owed_burst_says_nothing_of_how_finals_come() -> None:
    owed = bursts(1)
    came(owed, "after speech")
    owed.burst_ended(0.0)
    assert (owed.bursts, owed.came_singly) == (0, True)


def test_shown_words_are_owed_one_final_and_forgiven_ones_none() -> None:
    owed = OwedFinals()
    owed.words_shown()
    owed.words_shown()
    assert owed.bursts == 1
    owed.burst_began()
    owed.words_shown()
    assert owed.bursts == 2
    owed.forgive()
    assert owed.bursts == 0


def test_a_burst_that_is_reported_after_its_first_words_is_owed_one_final() -> None:
    owed = OwedFinals()
    owed.words_shown()
    owed.burst_began(is_shown=True)
    assert owed.bursts == 1
    owed.burst_began(is_shown=True)  # the words belong to the first one
    assert owed.bursts == 2
    assert came(owed, "in speech") == 1
    assert owed.came_singly is True


def test_a_burst_that_began_after_the_words_is_owed_a_final_of_its_own() -> None:
    owed = OwedFinals()
    owed.words_shown()
    owed.burst_began()
    assert owed.bursts == 2


SPEECH = ["burst", "burst of words", "words", "end", "late end"]
FINALS = ["forgive", "after speech", "in speech", "in speech, rest open"]
STEPS = st.sampled_from([*SPEECH, *FINALS])


@given(st.lists(STEPS, max_size=30))
def test_law_no_more_finals_are_owed_than_bursts_began_and_words_came_without_one(steps: list[str]) -> None:
    owed, most = OwedFinals(), 0
    for step in steps:
        before = owed.bursts
        if step in ("burst", "burst of words"):
            owed.burst_began(is_shown=step == "burst of words")
            assert 1 <= owed.bursts <= before + 1
            most += owed.bursts - before
        elif step == "words":
            owed.words_shown()
            assert owed.bursts == max(before, 1)
            most = max(most, 1)
        elif step == "forgive":
            owed.forgive()
            most = 0
        elif "end" in step:
            owed.burst_ended(0.3 if step == "late end" else 0.0)
            assert owed.bursts <= before
            most = min(most, owed.bursts)
        else:
            is_open = step.endswith("rest open")
            owed.final_came(is_in_speech="in speech" in step, has_all=True, leaves_rest=is_open)
            assert owed.bursts <= max(before, int(is_open))
            most = owed.bursts
        assert 0 <= owed.bursts <= most


@given(st.lists(st.sampled_from(["after speech", "in speech"]), max_size=10))
def test_law_the_report_after_the_first_words_makes_no_difference(
    finals: list[Literal["after speech", "in speech"]],
) -> None:
    early, plain = OwedFinals(), OwedFinals()
    all_of: list[Came] = ["after speech", *finals]
    for how in all_of:
        early.words_shown()
        early.burst_began(is_shown=True)
        plain.burst_began()
        plain.words_shown()
        assert came(early, how) == came(plain, how)
        assert early.came_singly == plain.came_singly
        if early.bursts:
            early.forgive()
            plain.forgive()


def test_an_end_reported_before_any_final_settles_nothing() -> None:
    owed = bursts(1)
    owed.burst_ended(0.0)
    assert (owed.bursts, owed.came_singly) == (1, None)


def test_a_final_of_many_words_that_come_again_and_again_lacks_none_of_the_interim() -> None:
    text = "so it is " * 80
    assert not lacks_words(text, f"well {text}")

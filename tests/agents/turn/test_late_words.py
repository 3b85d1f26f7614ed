"""Finals that come after the commit of the words that they settle."""

from __future__ import annotations

from typing import Any

import pytest

from turn_kit import Conversation
from vivavoce.agents.turn import inputs as i


def guessed(text: str = "a table", **options: Any) -> Conversation:
    """A turn committed at 2.5 by its interim."""
    talk = Conversation(**options).starts(0.5).at(1.0, i.UserInterim(text=text)).stops(1.5).until(2.5)
    assert talk.take()[0] == (2.5, "commit", "turn_1", text)
    return talk


def test_a_final_that_says_the_same_amends_the_turn_silently() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="A table.")).until(5.0)
    assert talk.take() == [(2.6, "amend", "turn_1", "A table.")]
    assert talk.machine.current_speech_id == "answer_1"


def test_a_final_with_more_words_takes_back_an_answer_that_nobody_heard() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take() == [
        (2.6, "withdraw", "answer_1"),
        (2.6, "merge", "turn_1", "a table for two"),
        (2.6, "grant", "answer_2"),
    ]


def test_a_final_with_more_words_amends_a_turn_whose_answer_is_heard() -> None:
    talk = guessed().plays(2.6).at(2.7, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take() == [(2.7, "amend", "turn_1", "a table for two")]


def test_a_final_with_more_words_amends_a_turn_whose_answer_is_over() -> None:
    talk = guessed().plays(2.6).played(2.8).at(2.9, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take() == [(2.9, "amend", "turn_1", "a table for two")]


def test_other_words_are_new_words() -> None:
    talk = guessed().plays(2.6).at(2.7, i.UserFinal(text="hello")).until(5.0)
    assert talk.take() == [
        (2.7, "interrupted", "answer_1"),
        (2.7, "commit", "turn_2", "hello"),
        (2.7, "grant", "answer_2"),
    ]


def test_the_same_words_after_new_speech_are_new_words() -> None:
    talk = guessed("yes").plays(2.6).played(2.8).says("yes", 2.9, 3.2).until(5.0)
    assert talk.take()[0] == (3.6, "commit", "turn_2", "yes")


def test_the_same_words_long_after_are_new_words() -> None:
    talk = guessed("yes").plays(2.6).played(2.8).at(4.0, i.UserFinal(text="yes")).until(5.0)
    assert talk.take()[0] == (4.0, "commit", "turn_2", "yes")


def test_a_late_interim_of_the_same_words_opens_no_turn() -> None:
    talk = guessed().at(2.6, i.UserInterim(text="a table for")).until(2.7)
    assert (talk.take(), talk.machine.open_turn_id) == ([], "")
    talk.at(2.8, i.UserInterim(text="hello"))
    assert talk.machine.open_turn_id == "turn_2"


def test_later_words_merge_with_the_amended_ones() -> None:
    talk = guessed().at(2.6, i.UserFinal(text="A table.")).says("for two", 2.8, 3.2).until(5.0)
    assert (3.6, "merge", "turn_1", "A table. for two") in talk.take()


def test_a_late_final_of_words_typed_on_keeps_both() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).stops(1.5)
    talk.at(1.8, i.TextReceived("for two"))
    assert talk.take()[0] == (1.8, "commit", "turn_1", "a table for two")
    talk.at(2.0, i.UserFinal(text="a table tonight")).until(5.0)
    assert talk.take() == [
        (2.0, "withdraw", "answer_1"),
        (2.0, "merge", "turn_1", "a table tonight for two"),
        (2.0, "grant", "answer_2"),
    ]


@pytest.mark.parametrize(("final", "wanted"), [("Yeah.", "amend"), ("yeah but stop", "interrupted")])
def test_a_late_final_of_a_backchannel_stays_one_or_interrupts(final: str, wanted: str) -> None:
    talk = Conversation().speaking().starts(2.0).at(2.1, i.UserInterim(text="yeah")).stops(2.3).until(3.3)
    assert talk.take() == [(3.3, "aside", "turn_1", "yeah")]
    assert talk.at(3.5, i.UserFinal(text=final)).until(6.0).take()[0][:2] == (3.5, wanted)


def test_words_told_while_an_unheard_answer_may_not_be_cut_amend_it() -> None:
    talk = guessed(enabled=False).at(2.6, i.UserFinal(text="a table for two"))
    assert talk.take() == [(2.6, "amend", "turn_1", "a table for two")]

"""The fate of an answer when a late final changes the words that it answers, or repeats some of them."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from kit.turn.guesses import guessed, named, two_guesses
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i


@pytest.mark.parametrize(
    ("guess", "final"), [("a table", "a table for two"), ("book a table for to", "look at able four too")]
)
def test_a_final_that_changes_the_words_of_a_heard_answer_is_answered_as_the_next_turn(guess: str, final: str) -> None:
    talk = guessed(guess).plays(2.6).at(2.7, i.UserFinal(text=final)).until(5.0)
    assert talk.take() == [
        (2.7, "amend", "turn_1", final),
        (2.7, "interrupted", "answer_1"),
        (2.7, "commit", "turn_2", final),
        (2.7, "grant", "answer_2"),
    ]
    commit = next(effect for effect in reversed(talk.effects) if isinstance(effect, fx.CommitUserTurn))
    assert (commit.amends, commit.merged, commit.timing.ended_by) == ("turn_1", False, "late_final")


def test_a_final_with_more_words_than_an_answer_that_is_over_is_answered_as_the_next_turn() -> None:
    talk = guessed().plays(2.6).played(2.8).at(2.9, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take() == [
        (2.9, "amend", "turn_1", "a table for two"),
        (2.9, "commit", "turn_2", "a table for two"),
        (2.9, "grant", "answer_2"),
    ]


def test_a_final_that_only_completes_the_words_of_a_heard_answer_amends_them() -> None:
    talk = guessed("book a tab").plays(2.6).at(2.7, i.UserFinal(text="Book a table.")).until(5.0)
    assert talk.take() == [(2.7, "amend", "turn_1", "Book a table.")]


def test_the_answer_to_amended_words_waits_for_a_protected_one() -> None:
    talk = guessed().plays(2.6).at(2.65, i.SpeechProtected("answer_1")).at(2.7, i.UserFinal(text="a table for two"))
    assert talk.until(4.0).take() == [(2.7, "amend", "turn_1", "a table for two")]
    assert talk.played(4.1).take() == [(4.1, "commit", "turn_2", "a table for two"), (4.1, "grant", "answer_2")]


def test_amended_words_are_answered_with_those_of_the_open_turn() -> None:
    talk = named().starts(2.7).at(2.8, i.UserFinal(text="a cable", item_id="one")).at(2.9, i.UserFinal(text="hello"))
    assert talk.stops(3.3).until(5.0).take()[-2:] == [(3.7, "commit", "turn_2", "hello"), (3.7, "grant", "answer_2")]


def test_amended_words_are_answered_alone_when_the_open_turn_comes_to_nothing() -> None:
    talk = named().starts(2.7).at(2.8, i.UserFinal(text="a cable", item_id="one")).stops(3.0).until(6.0)
    assert talk.take()[-4:] == [
        (4.0, "drop", "turn_2", "transcript_missing"),
        (4.0, "interrupted", "answer_1"),
        (4.0, "commit", "turn_3", "a cable"),
        (4.0, "grant", "answer_2"),
    ]


def test_what_is_said_before_the_answer_to_amended_words_is_heard_joins_them() -> None:
    talk = guessed().plays(2.6).at(2.7, i.UserFinal(text="a table for two")).says("tonight", 3.0, 3.4).until(5.0)
    assert talk.take()[-2:] == [
        (3.8, "merge", "turn_2", "a table for two tonight"),
        (3.8, "grant", "answer_3"),
    ]


def test_a_second_late_final_of_an_amended_turn_that_waits_comes_into_its_place() -> None:
    talk = two_guesses("a table for to", "not today", names=("one", "two"), is_heard=False).plays(2.0)
    talk.at(2.05, i.SpeechProtected("answer_2")).at(2.1, i.UserFinal(text="a table for two", item_id="one"))
    talk.at(2.2, i.UserFinal(text="Not today.", item_id="two")).take()
    assert talk.played(4.0).take()[0] == (4.0, "commit", "turn_3", "a table for two Not today.")


def test_a_later_final_finds_an_amended_turn_by_its_new_name() -> None:
    talk = two_guesses("a table for to", "not to day", names=("one", "two"), is_heard=False).plays(2.0)
    talk.at(2.1, i.UserFinal(text="a table for two", item_id="one")).plays(2.2).take()
    assert talk.at(2.3, i.UserFinal(text="not today", item_id="two")).until(4.0).take() == [
        (2.3, "amend", "turn_3", "a table for two not today"),
        (2.3, "interrupted", "answer_3"),
        (2.3, "commit", "turn_4", "a table for two not today"),
        (2.3, "grant", "answer_4"),
    ]


@pytest.mark.parametrize("final_at", [2.7, 4.0, 60.0])
def test_a_final_amends_the_committed_words_however_late_it_comes(final_at: float) -> None:
    talk = guessed().plays(2.6).played(2.65)
    talk.take()
    assert talk.at(final_at, i.UserFinal(text="A table.")).until(99.0).take() == [
        (final_at, "amend", "turn_1", "A table.")
    ]


def test_a_late_final_of_which_new_speech_is_a_part_repeats_no_words() -> None:
    talk = guessed().plays(2.6).played(2.8).starts(3.0).stops(3.4).at(3.7, i.UserFinal(text="A table for two."))
    assert talk.until(9.0).take()[0] == (3.8, "commit", "turn_2", "for two.")
    talk.says("A table for four.", 10.0, 11.0).until(15.0)
    assert talk.take()[-2][1:] == ("merge", "turn_2", "for two. A table for four.")


@pytest.mark.parametrize("final", ["yes", "Yes.", "no yes"])
def test_a_final_of_new_speech_without_news_behind_the_committed_words_is_taken_as_it_is(final: str) -> None:
    talk = guessed("yes").plays(2.6).played(2.8).says(final, 2.9, 3.2).until(5.0)
    assert talk.take()[0] == (3.6, "commit", "turn_2", final)


def test_a_final_that_comes_after_one_of_new_speech_has_no_beginning_said_before() -> None:
    talk = guessed("no").plays(2.6).played(2.8).says("well", 3.0, 3.2).plays(3.7).played(3.8)
    talk.says("no problem", 4.0, 4.5).until(6.0)
    assert (4.9, "commit", "turn_3", "no problem") in talk.take()


def test_words_that_merely_begin_alike_are_new_ones() -> None:
    talk = guessed("I would like to book a table").plays(2.6).played(2.8).says("I see", 3.0, 3.2).until(5.0)
    assert talk.take()[0] == (3.6, "commit", "turn_2", "I see")


def test_a_final_that_adds_no_more_than_a_sign_of_listening_is_answered_by_nobody() -> None:
    talk = guessed("yes").plays(2.6).at(2.7, i.UserFinal(text="yes, okay")).until(5.0)
    assert talk.take() == [(2.7, "amend", "turn_1", "yes, okay")]


def test_an_amended_turn_does_not_cut_what_is_heard_before_its_unheard_answer() -> None:
    talk = (
        Conversation().starts(0.5).at(0.9, i.UserInterim(text="a table for too")).asks(1.0, "timer").asks(1.1, "more")
    )
    talk.stops(1.5).until(2.6).plays(2.7).take()
    assert talk.at(3.0, i.UserFinal(text="a table for two at nine")).until(3.9).take() == [
        (3.0, "amend", "turn_1", "a table for two at nine"),
        (3.0, "cancelled", "answer_1"),
        (3.0, "commit", "turn_2", "a table for two at nine"),
        (3.0, "prepare", "answer_2"),
    ]
    talk.played(4.0).plays(4.1).played(5.0)
    assert talk.take() == [(4.0, "grant", "more"), (5.0, "grant", "answer_2")]

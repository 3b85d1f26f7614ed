"""Words that were committed in the middle of a speech, whose final comes at the end of that speech or later."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def cut(**options: object) -> Conversation:
    """A turn that the limit of words cuts at 1.0, by an interim of continuing speech; its answer is heard."""
    talk = Conversation(max_turn_words=2, **options)  # type: ignore[arg-type]
    talk.starts(0.5).at(1.0, i.UserInterim(text="a table for two")).plays(1.2)
    assert talk.take()[1] == (1.0, "commit", "turn_1", "a table for two")
    return talk


def said(talk: Conversation) -> list[tuple[object, ...]]:
    return [entry[1:] for entry in talk.take() if entry[1] in ("commit", "merge", "amend", "aside")]


@pytest.mark.parametrize("final_at", [1.9, 2.1, 5.0])
def test_the_final_of_words_that_a_limit_cut_amends_them_however_late_it_comes(final_at: float) -> None:
    talk = cut().stops(1.5).at(final_at, i.UserFinal(text="A table for two."))
    assert said(talk) == [("amend", "turn_1", "A table for two.")]


def test_a_late_final_that_changes_words_that_a_limit_cut_is_answered_as_the_next_turn() -> None:
    talk = cut().stops(1.5).at(2.1, i.UserFinal(text="a cable for two"))
    assert said(talk) == [("amend", "turn_1", "a cable for two"), ("commit", "turn_2", "a cable for two")]


def test_the_final_of_words_that_a_limit_cut_amends_them_while_that_speech_goes_on() -> None:
    talk = cut().at(2.5, i.UserFinal(text="A table for two.")).stops(3.0).until(5.0)
    assert said(talk) == [("amend", "turn_1", "A table for two.")]


def test_the_final_of_words_that_a_limit_cut_amends_them_in_the_midst_of_the_next_speech() -> None:
    talk = cut().stops(1.7).starts(2.0).at(2.3, i.UserFinal(text="A table for two."))
    assert said(talk) == [("amend", "turn_1", "A table for two.")]
    assert said(talk.stops(2.5).at(2.6, i.UserFinal(text="please")).until(9.0))[-1] == ("commit", "turn_2", "please")


def test_the_final_of_words_that_a_limit_cut_amends_them_behind_other_words_of_the_same_speech() -> None:
    talk = cut().at(2.2, i.UserInterim(text="please")).at(2.5, i.UserFinal(text="A table for two."))
    assert said(talk) == [("amend", "turn_1", "A table for two.")]
    assert talk.machine.open_turn_id == "turn_2"


def test_what_a_final_of_the_same_speech_adds_after_new_words_is_new() -> None:
    talk = cut().at(2.2, i.UserInterim(text="please")).stops(2.5).at(2.6, i.UserFinal(text="a table for two please"))
    assert said(talk.played(9.0)) == [("commit", "turn_2", "please")]


def test_the_same_words_in_the_next_speech_are_new_when_the_final_of_the_first_is_overdue() -> None:
    talk = cut().stops(1.7).played(2.0).starts(2.2).at(2.8, i.UserFinal(text="a table for two")).stops(3.0).until(9.0)
    assert said(talk)[0] == ("commit", "turn_2", "a table for two")


@pytest.mark.parametrize("final", ["", "tonight"])
def test_a_late_final_that_is_unlike_the_words_that_were_cut_is_of_what_was_said_after_them(final: str) -> None:
    talk = cut().stops(1.9).at(2.4, i.UserFinal(text=final)).played(9.0)
    assert said(talk) == ([("commit", "turn_2", final)] if final else [])

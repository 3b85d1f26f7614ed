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


@pytest.mark.parametrize("hears_audio", [False, True])
def test_speech_that_the_vad_reports_after_the_commit_of_its_first_words_is_of_the_same_turn(hears_audio: bool) -> None:
    talk = Conversation(endpointing_mode="manual", hears_audio=hears_audio).at(0.5, i.TurnCommitRequested())
    talk.at(0.58, i.UserInterim(text="a table")).starts(0.55).take()
    assert talk.machine.open_turn_id == ""
    talk.stops(0.7).at(0.9, i.UserFinal(text="A table.")).until(30.0)
    assert talk.take() == [
        (0.9, "resume", "answer_1", ""),
        (0.9, "amend", "turn_1", "A table."),
    ]


def test_a_limit_that_cuts_words_before_the_vad_reports_their_speech_leaves_the_rest_to_the_same_final() -> None:
    talk = Conversation(max_turn_words=2, endpointing_mode="manual").says("book", 0.5, 0.8)
    assert talk.at(1.58, i.UserInterim(text="a table")).take()[1] == (1.58, "commit", "turn_1", "book a table")
    talk.starts(1.55).stops(2.0).at(2.2, i.UserFinal(text="A table.")).until(30.0)
    assert [entry for entry in talk.take() if entry[1] not in ("pause", "resume")] == [
        (2.2, "amend", "turn_1", "book A table.")
    ]


@pytest.mark.parametrize("onset", [0.58, 0.8])
def test_speech_that_began_after_the_committed_words_came_is_new(onset: float) -> None:
    talk = Conversation(endpointing_mode="manual").at(0.5, i.TurnCommitRequested())
    talk.at(0.58, i.UserInterim(text="yes")).plays(0.59).played(0.6).starts(onset)
    assert talk.machine.open_turn_id == "turn_2"


def test_speech_is_of_words_that_came_since_the_committed_ones_where_there_are_any() -> None:
    talk = Conversation(max_turn_words=2).at(0.5, i.UserInterim(text="one two three")).plays(0.51).played(0.52)
    talk.at(0.59, i.UserInterim(text="hello")).at(0.6, i.UserSpeechStarted(0.45)).stops(2.0)
    talk.at(2.3, i.UserFinal(text="hello")).until(9.0)
    assert (2.4, "commit", "turn_2", "hello") in talk.take()


def test_speech_that_the_vad_reports_after_a_remote_models_answer_began_is_new() -> None:
    talk = Conversation(remote_decides=True, hears_audio=True).at(1.0, i.RemoteReplyStarted("r"))
    talk.at(1.05, i.UserSpeechStarted(0.95))
    assert talk.machine.open_turn_id == "turn_2"


def reported_late() -> Conversation:
    """A turn that a request ended at 0.5, whose words came at 0.58 and whose speech began at 0.45."""
    talk = Conversation(endpointing_mode="manual").at(0.5, i.TurnCommitRequested())
    talk.at(0.58, i.UserInterim(text="a table")).plays(0.6).at(0.62, i.UserSpeechStarted(0.45))
    talk.take()
    return talk


def test_interims_of_speech_that_is_reported_late_open_no_turn() -> None:
    assert reported_late().at(0.7, i.UserInterim(text="I cable")).machine.open_turn_id == ""


def test_words_behind_those_that_settle_speech_that_is_reported_late_are_not_ended_by_the_same_request() -> None:
    talk = reported_late().at(0.8, i.UserFinal(text="a table")).stops(0.9).at(1.2, i.UserFinal(text="for two"))
    assert said(talk.until(9.0)) == [("amend", "turn_1", "a table")]
    assert talk.machine.open_turn_id == "turn_2"


def test_speech_that_is_reported_late_may_be_settled_after_its_end_in_the_next_speech() -> None:
    talk = reported_late().stops(3.0).starts(3.3).at(3.5, i.UserFinal(text="a table"))
    assert said(talk) == [("amend", "turn_1", "a table")]


def test_only_the_newest_committed_words_are_of_speech_that_is_reported_late() -> None:
    talk = Conversation(endpointing_mode="manual").at(0.3, i.TurnCommitRequested())
    talk.at(0.4, i.UserInterim(text="one", item_id="a")).plays(0.41).at(0.5, i.TurnCommitRequested())
    talk.at(0.58, i.UserInterim(text="two", item_id="b")).plays(0.59).starts(0.55).stops(0.7).take()
    talk.at(0.9, i.UserFinal(text="two")).until(3.0)
    assert talk.take() == [(0.9, "amend", "turn_2", "two")]

"""Turns that end by request only: a button, not a pause."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

COMMIT, CLEAR = i.TurnCommitRequested(), i.TurnClearRequested()


def manual(**options: object) -> Conversation:
    return Conversation(endpointing_mode="manual", **options)  # type: ignore[arg-type]


def test_no_pause_ends_a_turn_and_a_request_does() -> None:
    talk = manual().says("a table", 0.5, 1.0).says("for two", 4.0, 5.0).until(30.0)
    assert talk.take() == []
    assert talk.at(31.0, COMMIT).take() == [(31.0, "commit", "turn_1", "a table for two"), (31.0, "grant", "answer_1")]


def test_neither_the_recogniser_nor_a_detector_ends_a_turn() -> None:
    talk = manual(detector_timeout=1.0).says("hello", 0.5, 1.0).at(1.3, i.UserTurnEnded(), i.UserTurnPredicted(True))
    assert talk.until(10.0).take() == []


def test_a_request_in_mid_speech_takes_what_there_is_and_settles_it() -> None:
    talk = manual().starts(0.5).at(1.0, i.UserInterim(text="hello")).at(1.2, COMMIT)
    assert talk.take()[0] == (1.2, "commit", "turn_1", "hello")


def test_a_request_before_the_words_waits_for_them() -> None:
    talk = manual().starts(0.5).at(1.0, COMMIT).stops(1.0).at(1.4, i.UserFinal(text="hello"))
    assert talk.take() == [
        (1.0, "SettleAudio"),
        (1.4, "commit", "turn_1", "hello"),
        (1.4, "grant", "answer_1"),
    ]


def test_words_that_come_after_the_wait_for_them_are_over_as_they_come() -> None:
    talk = manual().starts(0.5).at(1.0, COMMIT).stops(1.0).at(3.0, i.UserFinal(text="hello"))
    assert talk.take()[1:] == [
        (2.0, "drop", "turn_1", "transcript_missing"),
        (3.0, "commit", "turn_2", "hello"),
        (3.0, "grant", "answer_1"),
    ]


def test_words_long_after_a_request_or_of_speech_that_began_since_wait_for_the_next_request() -> None:
    talk = manual().starts(0.5).at(1.0, COMMIT).stops(1.0).at(9.0, i.UserFinal(text="hello")).until(20.0)
    assert [entry[1] for entry in talk.take()] == ["SettleAudio", "drop"]
    talk = manual().starts(0.5).at(1.0, COMMIT).stops(1.0).says("hello", 2.5, 2.9).until(20.0)
    assert [entry[1] for entry in talk.take()] == ["SettleAudio", "drop"]
    talk = manual().says("hello", 0.5, 1.0).until(20.0)  # nothing was asked for
    assert talk.take() == []


def test_without_a_vad_a_request_asks_the_recogniser_for_what_it_has_heard() -> None:
    talk = manual().at(1.0, COMMIT).at(1.3, i.UserFinal(text="hello"))
    assert talk.take()[:2] == [(1.0, "SettleAudio"), (1.3, "commit", "turn_1", "hello")]


def test_a_request_when_the_vad_has_heard_nothing_since_the_last_turn_does_nothing() -> None:
    talk = manual().says("hello", 0.5, 1.0).at(1.3, COMMIT)
    assert len(talk.take()) == 2
    assert talk.at(1.5, COMMIT).until(9.0).take() == []


def test_clear_drops_what_was_said_and_late_words_of_it_are_not_over() -> None:
    talk = manual().says("hello", 0.5, 1.0).at(1.2, CLEAR)
    assert talk.take() == [(1.2, "ClearAudio"), (1.2, "drop", "turn_1", "cleared")]
    talk = manual().starts(0.5).at(1.0, COMMIT, CLEAR).stops(1.0).at(1.4, i.UserFinal(text="hello")).until(9.0)
    assert [entry[1] for entry in talk.take()] == ["SettleAudio", "ClearAudio", "drop"]


def test_clear_of_what_went_on_with_a_turn_answers_the_part_that_was_committed() -> None:
    talk = manual().says("a table", 0.5, 1.0).at(1.3, COMMIT).says("no wait", 1.5, 2.0)
    talk.take()
    assert talk.at(2.5, CLEAR).take()[1:] == [(2.5, "merge", "turn_1", "a table"), (2.5, "grant", "answer_2")]


def test_a_late_final_that_revises_the_committed_words_is_answered_at_once() -> None:
    talk = manual().starts(0.5).at(1.0, i.UserInterim(text="book a table for to")).at(1.1, COMMIT).stops(1.2)
    talk.take()
    talk.at(1.6, i.UserFinal(text="book a table for two"))
    assert talk.take() == [
        (1.6, "withdraw", "answer_1"),
        (1.6, "merge", "turn_1", "book a table for two"),
        (1.6, "grant", "answer_2"),
    ]


def test_noise_is_dropped_as_ever() -> None:
    assert manual().starts(0.5).stops(1.0).until(9.0).take() == [(2.0, "drop", "turn_1", "transcript_missing")]


def test_a_backchannel_that_is_committed_by_request_is_a_turn() -> None:
    talk = manual().speaking().says("okay", 2.0, 2.2).at(3.0, COMMIT)
    assert talk.take()[:2] == [(3.0, "interrupted", "talk"), (3.0, "commit", "turn_1", "okay")]


def test_a_late_final_that_says_more_than_was_typed_on_is_answered_without_a_request() -> None:
    talk = manual().starts(0.5).at(1.0, i.UserInterim(text="a table for to")).stops(1.05)
    talk.at(1.3, i.TextReceived("please"))
    talk.take()
    assert talk.at(1.5, i.UserFinal(text="a table for two")).until(9.0).take() == [
        (1.5, "withdraw", "answer_1"),
        (1.5, "merge", "turn_1", "a table for two please"),
        (1.5, "grant", "answer_2"),
    ]


@pytest.mark.parametrize("mode", ["fixed", "manual"])
def test_what_corrects_a_committed_guess_is_not_taken_back(mode: str) -> None:
    talk = Conversation(endpointing_mode=mode).starts(0.5).at(1.0, i.UserInterim(text="a table"))
    talk.at(1.1, COMMIT).at(1.3, i.UserFinal(text="a cable")).at(1.4, CLEAR).stops(2.0).until(9.0)
    assert ("merge", "turn_1", "a cable") in [entry[1:] for entry in talk.take()]
    assert talk.machine.open_turn_id == ""

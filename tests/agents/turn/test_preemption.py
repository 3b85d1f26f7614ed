"""Answers begun before the user's turn is over: when one is begun, when it is dropped, when it is committed."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import PipelineTraits


def eager(**options: Any) -> Conversation:
    return Conversation(**{"max_attempts": 3, **options})


# --- begun, and committed


def test_an_early_final_is_answered_before_the_turn_is_over() -> None:
    call = eager().says("hello there", 0.5, 2.5).until(3.0)
    assert call.take() == [
        (2.7, "attempt", "attempt_1", "turn_1", "hello there"),
        (2.9, "commit", "turn_1", "hello there", "attempt_1"),
        (2.9, "grant", "answer_1"),
    ]


def test_an_interim_is_answered_once_it_has_been_stable() -> None:
    call = eager().starts(0.5).at(2.0, i.UserInterim(text="hello there")).until(2.19)
    assert call.take() == []
    call.until(2.2)
    assert call.take() == [(2.2, "attempt", "attempt_1", "turn_1", "hello there")]
    call.stops(2.5).at(2.7, i.UserFinal(text="Hello there.")).until(2.9)
    assert call.take() == [(2.9, "commit", "turn_1", "Hello there.", "attempt_1"), (2.9, "grant", "answer_1")]


def test_an_interim_told_again_has_been_stable_since_it_came_first() -> None:
    call = eager().starts(0.5).at(2.0, i.UserInterim(text="hello")).at(2.1, i.UserInterim(text="hello")).until(2.2)
    assert call.take() == [(2.2, "attempt", "attempt_1", "turn_1", "hello")]


def test_an_interim_that_stands_in_for_a_missing_final_commits_its_attempt() -> None:
    call = eager().starts(0.5).at(2.0, i.UserInterim(text="hello")).stops(2.5).until(3.5)
    assert call.take() == [
        (2.2, "attempt", "attempt_1", "turn_1", "hello"),
        (3.5, "commit", "turn_1", "hello", "attempt_1"),
        (3.5, "grant", "answer_1"),
    ]


def test_transcripts_are_enough_without_a_vad() -> None:
    call = eager().at(1.0, i.UserInterim(text="hello")).at(1.6, i.UserFinal(text="hello")).until(2.0)
    assert call.take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "hello"),
        (2.0, "commit", "turn_1", "hello", "attempt_1"),
        (2.0, "grant", "answer_1"),
    ]


def test_a_final_in_the_middle_of_speech_is_answered_too() -> None:
    call = eager().starts(0.5).at(1.5, i.UserFinal(text="one"))
    assert call.take() == [(1.5, "attempt", "attempt_1", "turn_1", "one")]


def test_a_final_that_is_committed_at_once_needs_no_attempt() -> None:
    call = eager().says("hello", 0.5, 1.0, final_at=1.6)
    assert call.take() == [(1.6, "commit", "turn_1", "hello"), (1.6, "grant", "answer_1")]


def test_the_recognisers_own_end_of_turn_commits_the_attempt() -> None:
    call = eager().starts(0.5).at(1.5, i.UserFinal(text="one"), i.UserTurnEnded())
    assert call.take()[1] == (1.5, "commit", "turn_1", "one", "attempt_1")


def test_an_attempt_outlives_the_verdict_that_the_turn_is_not_over() -> None:
    call = eager(detector_timeout=1.0).says("my number is", 0.5, 1.0).at(1.3, i.UserTurnPredicted(False)).until(4.0)
    assert call.take()[-2:] == [(4.0, "commit", "turn_1", "my number is", "attempt_1"), (4.0, "grant", "answer_1")]


def test_words_typed_while_the_user_speaks_join_what_is_answered() -> None:
    call = eager().says("a table", 0.5, 1.0).until(1.4).starts(1.6).at(1.8, i.UserFinal(text="for two"))
    call.take()
    call.at(1.9, i.TextReceived("tonight"))
    assert call.take() == [
        (1.9, "throw away", "attempt_2"),
        (1.9, "attempt", "attempt_3", "turn_1", "a table for two tonight"),
    ]


# --- dropped


def test_other_words_throw_an_attempt_away_and_begin_the_next() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="hello")).at(2.0, i.UserInterim(text="hello there"))
    assert call.take() == [(1.2, "attempt", "attempt_1", "turn_1", "hello"), (2.0, "throw away", "attempt_1")]
    call.until(2.2)
    assert call.take() == [(2.2, "attempt", "attempt_2", "turn_1", "hello there")]


def test_a_final_with_other_words_throws_an_attempt_away() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="fifteen")).stops(1.4).at(1.6, i.UserFinal(text="fifty"))
    assert call.until(1.8).take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "fifteen"),
        (1.6, "throw away", "attempt_1"),
        (1.6, "attempt", "attempt_2", "turn_1", "fifty"),
        (1.8, "commit", "turn_1", "fifty", "attempt_2"),
        (1.8, "grant", "answer_1"),
    ]


def test_other_words_at_the_very_commit_throw_an_attempt_away() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="fifteen")).stops(1.4).at(1.9, i.UserFinal(text="fifty"))
    assert call.take()[1:] == [
        (1.9, "commit", "turn_1", "fifty"),
        (1.9, "grant", "answer_1"),
        (1.9, "throw away", "attempt_1"),
    ]


def test_a_turn_that_goes_on_throws_its_attempt_away_until_new_words_come() -> None:
    call = eager().says("one", 0.5, 1.0)
    assert call.take() == [(1.2, "attempt", "attempt_1", "turn_1", "one")]
    call.starts(1.3).until(2.0)
    assert call.take() == [(1.35, "throw away", "attempt_1")]
    call.at(2.0, i.UserInterim(text="two")).until(2.2)
    assert call.take() == [(2.2, "attempt", "attempt_2", "turn_1", "one two")]


def test_an_old_interim_is_not_answered_while_the_user_goes_on() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="one")).stops(1.3).starts(1.6).until(3.0)
    assert call.take() == [(1.2, "attempt", "attempt_1", "turn_1", "one"), (1.65, "throw away", "attempt_1")]
    call.stops(3.0)
    assert call.take() == [(3.2, "attempt", "attempt_2", "turn_1", "one")]


def test_a_cough_after_the_words_costs_an_attempt_and_no_more() -> None:
    call = eager().says("one", 0.5, 1.0).starts(1.3).stops(1.5).at(1.7, i.UserFinal(text="")).until(1.9)
    assert call.take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "one"),
        (1.35, "throw away", "attempt_1"),
        (1.7, "attempt", "attempt_2", "turn_1", "one"),
        (1.9, "commit", "turn_1", "one", "attempt_2"),
        (1.9, "grant", "answer_1"),
    ]


def test_a_turn_that_comes_to_nothing_throws_its_attempt_away() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="hm")).stops(1.4).at(1.6, i.UserFinal(text=""))
    assert call.take()[1:] == [(1.6, "drop", "turn_1", "noise"), (1.6, "throw away", "attempt_1")]


def test_a_cleared_turn_throws_its_attempt_away() -> None:
    call = eager().says("one", 0.5, 1.0).at(1.3, i.TurnClearRequested())
    assert call.take()[1:] == [
        (1.3, "ClearAudio"),
        (1.3, "drop", "turn_1", "cleared"),
        (1.3, "throw away", "attempt_1"),
    ]


def test_a_typed_turn_of_its_own_throws_the_attempt_of_the_spoken_one_away() -> None:
    call = eager().starts(0.5).at(1.0, i.UserInterim(text="one")).until(1.3).at(1.5, i.TextReceived("typed"))
    assert call.take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "one"),
        (1.5, "commit", "turn_2", "typed"),
        (1.5, "prepare", "answer_1"),
        (1.5, "withdraw", "answer_1"),
        (1.5, "throw away", "attempt_1"),
        (1.5, "attempt", "attempt_2", "turn_2", "typed one"),
    ]


def test_a_speech_asked_for_meanwhile_throws_an_attempt_away() -> None:
    call = eager().says("one", 0.5, 1.0).asks(1.3, "hold on")
    assert call.take()[1:] == [(1.3, "throw away", "attempt_1")]


def test_a_handoff_throws_an_attempt_away_and_lets_none_begin_before_it_is_over() -> None:
    call = eager().says("one", 0.5, 1.0).at(1.3, i.HandoffRequested("to Bob"))
    assert ("throw away", "attempt_1") in [entry[1:] for entry in call.take()]
    call.starts(1.32).at(1.6, i.UserInterim(text="two")).until(2.0)
    assert call.take() == []


def test_closing_commits_the_words_with_their_attempt() -> None:
    call = eager().says("one", 0.5, 1.0).at(1.3, i.SessionClosing())
    assert call.take()[1:] == [(1.3, "commit", "turn_1", "one", "attempt_1"), (1.3, "cancelled", "answer_1")]
    assert call.machine.next_deadline() is None


# --- not while the agent has the floor


def test_nothing_is_begun_over_the_agents_speech_until_words_take_the_floor() -> None:
    call = eager().speaking().starts(2.0).at(2.3, i.UserInterim(text="wait stop")).until(2.49)
    assert call.take() == []
    call.until(2.5)
    assert call.take() == [(2.5, "interrupted", "talk"), (2.5, "attempt", "attempt_1", "turn_1", "wait stop")]


def test_a_backchannel_begins_nothing() -> None:
    call = eager().speaking().says("mhm", 2.0, 2.3).until(4.0)
    assert call.take() == [(2.7, "aside", "turn_1", "mhm")]


def test_nothing_is_begun_over_a_protected_speech() -> None:
    call = eager().speaking(interruptible=False).says("stop", 2.0, 3.0).until(5.0)
    assert call.take() == []
    call.played(5.0)
    assert call.take() == [(5.0, "commit", "turn_1", "stop"), (5.0, "grant", "answer_1")]


def test_nothing_is_begun_while_a_speech_waits_for_its_tools() -> None:
    call = eager().asks(0.1, "ask", "reply").at(0.2, i.ToolsStarted("ask"), i.ToolsAwaited("ask")).take()
    assert call == [(0.1, "grant", "ask")]
    later = eager().asks(0.1, "ask", "reply").at(0.2, i.ToolsStarted("ask"), i.ToolsAwaited("ask"))
    later.says("and more", 0.5, 1.5).until(1.89)
    assert later.take()[1:] == [(1.7, "interrupt calls", "ask")]


def test_a_merged_turn_is_answered_by_its_joined_words() -> None:
    call = eager().says("a table", 0.5, 1.0).until(1.4).take()
    assert call[-2] == (1.4, "commit", "turn_1", "a table", "attempt_1")
    call = eager().says("a table", 0.5, 1.0).says("for two", 1.6, 2.2, final_at=2.4).until(2.6).take()[3:]
    assert call == [
        (1.65, "pause", "answer_1"),
        (2.4, "withdraw", "answer_1"),
        (2.4, "attempt", "attempt_2", "turn_1", "a table for two"),
        (2.6, "merge", "turn_1", "a table for two", "attempt_2"),
        (2.6, "grant", "answer_2"),
    ]


def test_a_merged_turn_whose_rest_was_cleared_is_answered_again() -> None:
    call = eager().says("a table", 0.5, 1.0).starts(1.6).at(1.8, i.UserFinal(text="for two"))
    call.at(1.9, i.TurnClearRequested()).stops(2.0).until(2.4)
    assert call.take()[-3:] == [
        (1.9, "attempt", "attempt_3", "turn_1", "a table"),
        (2.4, "merge", "turn_1", "a table", "attempt_3"),
        (2.4, "grant", "answer_2"),
    ]


def test_a_merged_turn_of_no_words_begins_nothing_until_some_come() -> None:
    call = eager().at(1.0, i.RemoteReplyStarted("r")).starts(2.0).at(2.1, i.UserInterim(text="uh"))
    call.at(2.4, i.UserFinal(text="")).until(2.6)
    assert call.take()[-3:] == [
        (2.3, "withdraw", "answer_1"),
        (2.3, "attempt", "attempt_1", "turn_1", "uh"),
        (2.4, "throw away", "attempt_1"),
    ]
    call.at(2.7, i.UserFinal(text="hello"))
    assert call.take() == [(2.7, "attempt", "attempt_2", "turn_1", "hello")]


# --- with a button


def test_with_a_button_neither_an_interim_nor_a_final_in_mid_speech_is_answered() -> None:
    call = eager(endpointing_mode="manual").starts(0.5).at(1.0, i.UserInterim(text="one")).until(1.9)
    call.at(2.0, i.UserFinal(text="one")).at(2.2, i.UserInterim(text="two")).stops(3.0).until(9.0)
    assert call.take() == []


def test_with_a_button_settled_words_in_a_silence_are_answered_and_a_request_commits_the_attempt() -> None:
    call = eager(endpointing_mode="manual").says("hello", 0.5, 1.0).at(2.0, i.TurnCommitRequested())
    assert call.take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "hello"),
        (2.0, "commit", "turn_1", "hello", "attempt_1"),
        (2.0, "grant", "answer_1"),
    ]
    call = eager(endpointing_mode="manual").says("one", 0.5, 1.0).says("two", 2.0, 2.5).until(9.0)
    assert call.take() == [
        (1.2, "attempt", "attempt_1", "turn_1", "one"),
        (2.05, "throw away", "attempt_1"),
        (2.7, "attempt", "attempt_2", "turn_1", "one two"),
    ]


# --- how often


def test_no_more_than_so_many_attempts_are_begun_in_a_turn() -> None:
    call = eager(max_attempts=2).starts(0.5)
    for second in range(1, 6):
        call.at(float(second), i.UserInterim(text=f"word {second}"))
    call.until(5.9)
    assert [entry for entry in call.take() if entry[1] == "attempt"] == [
        (1.2, "attempt", "attempt_1", "turn_1", "word 1"),
        (2.2, "attempt", "attempt_2", "turn_1", "word 2"),
    ]
    call.stops(6.0).at(6.2, i.UserFinal(text="all of it")).until(6.4)
    assert call.take() == [(6.4, "commit", "turn_1", "all of it"), (6.4, "grant", "answer_1")]


def test_each_turn_has_its_own_attempts() -> None:
    call = eager(max_attempts=2).says("one", 0.5, 1.0).until(1.4).plays(2.0).played(3.0)
    call.starts(4.0).at(4.2, i.UserInterim(text="two")).stops(5.0).at(5.2, i.UserFinal(text="too")).until(5.4)
    assert [entry for entry in call.take() if entry[1] == "attempt"] == [
        (1.2, "attempt", "attempt_1", "turn_1", "one"),
        (4.4, "attempt", "attempt_2", "turn_2", "two"),
        (5.2, "attempt", "attempt_3", "turn_2", "too"),
    ]


@pytest.mark.parametrize("options", [{}, {"max_attempts": 3, "remote_decides": True}])
def test_nothing_is_begun_where_it_is_not_wanted(options: dict[str, Any]) -> None:
    call = Conversation(**options).says("hello there", 0.5, 2.5).until(2.8)
    assert call.take() == []


def test_a_negative_number_of_attempts_is_refused() -> None:
    with pytest.raises(ValueError, match="need max_attempts >= 0, a whole number, got -1"):
        PipelineTraits(max_attempts=-1)


def test_an_interim_that_comes_with_the_onset_of_speech_is_of_that_speech() -> None:
    call = eager().at(1.0, i.UserInterim(text="hello there"), i.UserSpeechStarted(1.0)).until(1.3)
    assert call.take() == [(1.2, "attempt", "attempt_1", "turn_1", "hello there")]

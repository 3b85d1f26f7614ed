"""Text that the caller types while a sound without words is heard."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def test_text_typed_in_noise_is_answered_at_once() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.TextReceived("hello"))
    assert talk.take() == [(1.0, "commit", "turn_2", "hello"), (1.0, "grant", "answer_1")]
    talk.plays(1.4).played(2.4).until(9.0)
    assert talk.take() == [(5.5, "drop", "turn_1", "noise")]


def test_text_typed_while_the_words_of_a_sound_are_owed_is_answered_at_once() -> None:
    talk = Conversation().starts(0.5).stops(1.0).at(1.5, i.TextReceived("hello"))
    assert talk.take() == [(1.5, "commit", "turn_2", "hello"), (1.5, "grant", "answer_1")]


def test_text_typed_in_noise_behind_words_joins_them_and_is_answered_at_once() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).starts(1.2).at(3.0, i.TextReceived("for two"))
    assert talk.take() == [(3.0, "commit", "turn_1", "a table for two"), (3.0, "grant", "answer_1")]
    assert talk.plays(3.4).played(4.0).until(12.0).take() == []


def test_text_typed_in_noise_while_the_agent_thinks_is_answered_at_once() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).starts(1.8).until(2.9)
    assert talk.take()[-1] == (1.85, "pause", "answer_1")
    assert talk.at(3.0, i.TextReceived("for two")).take() == [
        (3.0, "withdraw", "answer_1"),
        (3.0, "merge", "turn_1", "a table for two"),
        (3.0, "grant", "answer_2"),
    ]


def test_text_typed_in_noise_over_the_agent_s_speech_is_answered_at_once() -> None:
    talk = Conversation().speaking().starts(2.0).at(3.0, i.TextReceived("hello"))
    assert talk.take()[1:] == [
        (3.0, "interrupted", "talk"),
        (3.0, "commit", "turn_2", "hello"),
        (3.0, "grant", "answer_1"),
    ]


def test_words_of_the_sound_that_come_after_all_join_the_typed_ones() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.TextReceived("hello")).at(1.2, i.UserInterim(text="a table"))
    talk.stops(2.0).at(2.2, i.UserFinal(text="a table for two")).until(5.0)
    assert talk.take()[2:] == [
        (1.4, "withdraw", "answer_1"),
        (2.4, "merge", "turn_2", "hello a table for two"),
        (2.4, "grant", "answer_2"),
    ]


def test_text_typed_in_the_rest_of_a_sound_whose_words_were_committed_is_answered_at_once() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).at(1.5, i.TurnCommitRequested())
    talk.until(1.9).take()
    assert talk.at(2.0, i.TextReceived("for two")).until(3.0).take() == [
        (2.0, "withdraw", "answer_1"),
        (2.0, "merge", "turn_1", "a table for two"),
        (2.0, "grant", "answer_2"),
    ]


@pytest.mark.parametrize("is_lost", [True, False])
def test_where_a_sound_shows_no_words_it_may_be_a_voice_and_the_answer_waits(is_lost: bool) -> None:
    talk = Conversation(emits_interims=is_lost)
    if is_lost:
        talk.at(0.2, i.RecogniserLost())
    talk.starts(0.5).at(1.0, i.TextReceived("hello"))
    assert talk.take() == [(1.0, "commit", "turn_2", "hello"), (1.0, "prepare", "answer_1")]


def test_text_typed_in_noise_over_a_protected_speech_is_answered_behind_it() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.5, i.TextReceived("hello")).played(3.0)
    assert talk.take() == [(3.0, "commit", "turn_1", "hello"), (3.0, "grant", "answer_1")]


def test_words_that_come_over_a_protected_speech_keep_the_turn_of_the_typed_ones_open() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.5, i.TextReceived("hello"))
    talk.at(2.7, i.UserInterim(text="six")).played(3.0).stops(4.0).at(4.2, i.UserFinal(text="six seven")).until(9.0)
    assert talk.take() == [(4.4, "commit", "turn_1", "six seven hello"), (4.4, "grant", "answer_1")]

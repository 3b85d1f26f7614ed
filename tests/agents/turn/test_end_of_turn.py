"""The end of the user's turn: pauses, verdicts, missing and late transcripts, and decisions of the application."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.effects import CommitUserTurn


def test_a_turn_is_committed_min_delay_after_the_true_end_of_speech() -> None:
    talk = Conversation().says("hello there", 0.5, 2.5).until(2.85)
    assert talk.take() == []
    talk.plays(3.2).played(5.2)
    assert talk.take() == [(2.9, "commit", "turn_1", "hello there"), (2.9, "grant", "answer_1")]
    assert talk.agent_states == [("listening", 0.5), ("thinking", 2.9), ("speaking", 3.2), ("idle", 5.2)]
    assert talk.user_states == [("speaking", 0.5), ("idle", 2.5), ("listening", 3.2), ("idle", 5.2)]
    commit = next(e for e in talk.effects if isinstance(e, fx.CommitUserTurn))
    assert commit.timing == fx.TurnTiming(
        speech_ended_at=2.5, end_reported_at=2.7, final_at=2.7, predicted_at=None, committed_at=2.9, delay=0.4
    )


def test_deadlines_are_exact_in_spite_of_floats() -> None:
    talk = Conversation().at(1.15, i.UserSpeechStarted(1.1)).at(2.5, i.UserSpeechEnded(2.5 - 0.3))
    talk.at(2.5, i.UserFinal(text="hello"))
    assert talk.machine.next_deadline() == 2.6


def test_a_final_after_the_delay_ran_out_commits_on_arrival() -> None:
    talk = Conversation().says("hello", 0.5, 1.5, final_at=2.2)
    assert talk.take() == [(2.2, "commit", "turn_1", "hello"), (2.2, "grant", "answer_1")]


def test_a_final_before_the_end_of_speech_waits_for_it() -> None:
    talk = Conversation().starts(0.5).at(1.4, i.UserFinal(text="hello")).stops(1.5).until(3.0)
    assert talk.take() == [(1.9, "commit", "turn_1", "hello"), (1.9, "grant", "answer_1")]


def test_two_bursts_within_the_delay_are_one_turn() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).says("for two", 1.3, 2.0).until(4.0)
    assert talk.take() == [(2.4, "commit", "turn_1", "a table for two"), (2.4, "grant", "answer_1")]


def test_the_first_final_within_a_burst_may_belong_to_the_one_before() -> None:
    talk = Conversation().starts(0.5).stops(1.0).starts(1.3).at(1.6, i.UserFinal(text="a table")).stops(2.0)
    talk.at(2.6, i.UserFinal(text="for two")).until(4.0)
    assert talk.take() == [(2.6, "commit", "turn_1", "a table for two"), (2.6, "grant", "answer_1")]


def test_without_a_final_the_interim_is_committed_at_the_timeout() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="hel")).at(1.2, i.UserInterim(text="hello"))
    talk.stops(1.5).until(4.0)
    assert talk.take() == [(2.5, "commit", "turn_1", "hello"), (2.5, "grant", "answer_1")]


def test_a_noise_without_any_transcript_is_dropped_at_the_timeout() -> None:
    talk = Conversation().starts(0.5).stops(0.6).until(4.0)
    assert talk.take() == [(1.6, "drop", "turn_1", "transcript_missing")]
    assert talk.agent_states == [("listening", 0.5), ("idle", 1.6)]
    assert talk.machine.open_turn_id == ""


@pytest.mark.parametrize("final_at", [0.7, 0.8, 1.0])
def test_an_empty_final_settles_a_noise_at_once(final_at: float) -> None:
    talk = Conversation().starts(0.5).at(0.65, i.UserInterim(text="he"))
    if final_at > 0.8:
        talk.stops(0.6).at(final_at, i.UserFinal(text=""))
    else:
        talk.at(final_at, i.UserFinal(text="")).stops(0.6)
    assert talk.take() == [(max(final_at, 0.8), "drop", "turn_1", "noise")]


def test_nothing_said_opens_no_turn() -> None:
    talk = Conversation().at(1.0, i.UserFinal(text=""), i.UserInterim(text=""), i.UserTurnPredicted(True))
    talk.at(1.0, i.UserTurnEnded(), i.UserSpeechEnded(0.9), i.TurnCommitRequested(), i.TextReceived("  "))
    assert talk.take() == []
    assert talk.agent_states == []


def test_words_without_a_vad_are_a_turn() -> None:
    talk = Conversation().at(1.0, i.UserInterim(text="hel")).at(1.3, i.UserFinal(text="hello")).until(3.0)
    assert talk.take() == [(1.7, "commit", "turn_1", "hello"), (1.7, "grant", "answer_1")]
    assert talk.user_states == [("speaking", 1.0), ("idle", 1.3)]


def test_an_interim_without_a_vad_is_committed_when_no_final_follows() -> None:
    talk = Conversation().at(1.0, i.UserInterim(text="hello")).at(1.5, i.UserInterim(text="hello")).until(3.0)
    assert talk.take() == [(2.0, "commit", "turn_1", "hello"), (2.0, "grant", "answer_1")]


def test_a_final_after_the_turn_was_dropped_is_a_turn_at_once() -> None:
    talk = Conversation().starts(0.5).stops(1.0).at(2.4, i.UserFinal(text="hello")).until(3.0)
    assert talk.take() == [
        (2.0, "drop", "turn_1", "transcript_missing"),
        (2.4, "commit", "turn_2", "hello"),
        (2.4, "grant", "answer_1"),
    ]


def test_a_final_long_after_the_last_speech_waits_its_own_delay() -> None:
    talk = Conversation().starts(0.5).stops(0.6).at(9.0, i.UserFinal(text="hello")).until(12.0)
    assert talk.take()[1:] == [(9.4, "commit", "turn_2", "hello"), (9.4, "grant", "answer_1")]


def test_an_incomplete_turn_waits_for_max_delay() -> None:
    talk = Conversation(detector_timeout=1.0).says("I would like", 0.5, 1.5)
    talk.at(1.75, i.UserTurnPredicted(False)).until(4.45)
    assert talk.take() == [(1.7, "predict", "I would like")]
    assert talk.until(4.5).take()[0] == (4.5, "commit", "turn_1", "I would like")


def test_a_complete_turn_waits_for_min_delay() -> None:
    talk = Conversation(detector_timeout=1.0).says("hello", 0.5, 1.5).at(1.75, i.UserTurnPredicted(True)).until(5.0)
    assert talk.take()[1] == (1.9, "commit", "turn_1", "hello")


def test_a_detector_that_does_not_answer_is_not_waited_for() -> None:
    talk = Conversation(detector_timeout=1.0).says("hello", 0.5, 1.5).until(5.0)
    assert talk.take()[1] == (2.5, "commit", "turn_1", "hello")


def test_new_speech_voids_the_verdict_on_the_pause_before() -> None:
    talk = Conversation(detector_timeout=1.0).starts(0.5).at(1.0, i.UserFinal(text="I would like")).stops(1.5)
    talk.at(1.75, i.UserTurnPredicted(False)).starts(2.0).at(2.1, i.UserTurnPredicted(True))
    talk.stops(2.5).at(2.7, i.UserFinal(text="a table")).at(2.8, i.UserTurnPredicted(True)).until(5.0)
    assert talk.take() == [
        (1.7, "predict", "I would like"),
        (2.7, "predict", "I would like a table"),
        (2.9, "commit", "turn_1", "I would like a table"),
        (2.9, "grant", "answer_1"),
    ]


def test_the_recogniser_may_end_a_turn_that_has_words() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserTurnEnded()).at(1.2, i.UserFinal(text="hello"))
    talk.at(1.25, i.UserTurnEnded())
    assert talk.take() == [
        (1.25, "commit", "turn_1", "hello"),
        (1.25, "grant", "answer_1"),
        (1.25, "pause", "answer_1"),
    ]
    # The VAD's report comes later: the rest of that speech belongs to no turn, and is short.
    assert talk.stops(1.2).take() == [(1.4, "resume", "answer_1", "")]
    assert talk.machine.open_turn_id == ""


def test_words_after_a_commit_within_the_same_speech_go_on_with_the_turn() -> None:
    talk = Conversation().starts(0.5).at(1.2, i.UserFinal(text="a table"), i.UserTurnEnded())
    talk.at(1.6, i.UserFinal(text="for two")).stops(1.8).until(4.0)
    assert talk.take() == [
        (1.2, "commit", "turn_1", "a table"),
        (1.2, "grant", "answer_1"),
        (1.2, "pause", "answer_1"),
        (1.6, "withdraw", "answer_1"),
        (2.2, "merge", "turn_1", "a table for two"),
        (2.2, "grant", "answer_2"),
    ]


def test_a_second_report_of_the_same_speech_changes_nothing() -> None:
    talk = Conversation().starts(0.5).starts(0.9).stops(1.5).stops(1.6).at(2.0, i.UserFinal(text="hello"))
    assert talk.take() == [(2.0, "commit", "turn_1", "hello"), (2.0, "grant", "answer_1")]
    assert talk.user_states == [("speaking", 0.5), ("idle", 1.5)]


def test_commit_by_request_takes_the_words_there_are() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).at(1.25, i.TurnCommitRequested())
    assert talk.take() == [(1.25, "commit", "turn_1", "hello"), (1.25, "grant", "answer_1")]


def test_commit_by_request_waits_for_words_still_owed() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.TurnCommitRequested()).at(1.3, i.UserFinal(text="hello"))
    assert talk.take()[:2] == [(1.0, "SettleAudio"), (1.3, "commit", "turn_1", "hello")]


def test_commit_by_request_of_mere_noise_drops_it_at_the_timeout() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.TurnCommitRequested()).until(3.0)
    assert talk.take() == [(1.0, "SettleAudio"), (2.0, "drop", "turn_1", "transcript_missing")]


def test_a_second_request_in_the_same_speech_commits_nothing_without_a_new_word() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).at(1.1, i.TurnCommitRequested())
    talk.at(1.3, i.TurnCommitRequested()).until(3.0)
    assert [entry for entry in talk.take() if entry[1] in ("commit", "merge", "drop")] == [
        (1.1, "commit", "turn_1", "a table"),
        (2.3, "drop", "turn_2", "transcript_missing"),
    ]


def test_clear_by_request_drops_the_open_turn() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).at(1.25, i.TurnClearRequested()).until(5.0)
    assert talk.take() == [(1.25, "ClearAudio"), (1.25, "drop", "turn_1", "cleared")]
    assert talk.agent_states == [("listening", 0.5), ("idle", 1.25)]


def test_clear_of_a_resumed_turn_answers_what_was_committed_before() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).says("no wait", 1.5, 2.0)
    talk.take()
    assert talk.at(2.25, i.TurnClearRequested()).until(5.0).take() == [
        (2.25, "ClearAudio"),
        (2.4, "merge", "turn_1", "a table"),
        (2.4, "grant", "answer_2"),
    ]


def test_a_typed_turn_is_answered_at_once() -> None:
    talk = Conversation().at(1.0, i.TextReceived(" hello "))
    assert talk.take() == [(1.0, "commit", "turn_1", "hello"), (1.0, "grant", "answer_1")]


def test_typed_text_goes_with_words_said_just_before() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).at(1.25, i.TextReceived("for two"))
    assert talk.take() == [(1.25, "commit", "turn_1", "a table for two"), (1.25, "grant", "answer_1")]


def test_typed_text_leaves_speech_under_way_alone() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.TextReceived("hello"))
    assert talk.take() == [(1.0, "commit", "turn_2", "hello"), (1.0, "grant", "answer_1")]
    assert talk.machine.open_turn_id == "turn_1"
    talk.stops(1.5).at(1.7, i.UserFinal(text="for two")).until(4.0)
    assert talk.take() == [
        (1.7, "withdraw", "answer_1"),
        (1.9, "merge", "turn_2", "hello for two"),
        (1.9, "grant", "answer_2"),
    ]


def test_a_remote_model_ends_the_turn_by_its_reply_and_its_transcript_may_come_later() -> None:
    talk = Conversation(remote_decides=True).starts(0.5).stops(1.5).at(1.8, i.RemoteReplyStarted("r"))
    assert talk.take() == [(1.8, "commit", "turn_1", ""), (1.8, "grant", "answer_1")]
    talk.plays(2.0).at(2.5, i.UserInterim(text="hel")).at(3.0, i.UserFinal(text="hello"))
    assert talk.take() == [(3.0, "amend", "turn_1", "hello")]
    commit = next(e for e in talk.effects if isinstance(e, fx.CommitUserTurn))
    assert commit.remote_reply_id == "r"


def test_what_a_remote_model_does_not_answer_is_answered_after_max_delay() -> None:
    talk = Conversation(remote_decides=True).says("hello", 0.5, 1.5).until(8.0)
    assert talk.take()[0] == (4.5, "commit", "turn_1", "hello")


def test_a_remote_reply_ends_speech_that_the_vad_still_hears() -> None:
    talk = Conversation(remote_decides=True).starts(0.5).at(1.5, i.RemoteReplyStarted("r"))
    assert talk.user_states == [("speaking", 0.5), ("idle", 1.5)]


def test_a_remote_reply_over_a_protected_speech_is_refused() -> None:
    talk = Conversation(remote_decides=True).speaking(interruptible=False).at(2.0, i.RemoteReplyStarted("r"))
    assert talk.take() == [(2.0, "refuse", "r")]


def settled(talk: Conversation) -> list[bool]:
    return [effect.settles_audio for effect in talk.effects if isinstance(effect, CommitUserTurn)]


def test_a_spoken_turn_settles_its_audio_and_a_typed_one_does_not() -> None:
    assert settled(Conversation().says("hello", 0.5, 1.0).until(3.0)) == [True]
    assert settled(Conversation().at(0.5, i.UserFinal(text="hello")).until(3.0)) == [True]
    assert settled(Conversation().at(0.5, i.TextReceived("hello")).until(3.0)) == [False]


def test_a_turn_over_in_mid_speech_settles_its_audio_only_by_request() -> None:
    words = i.UserFinal(text="hello")
    assert settled(Conversation().starts(0.5).at(1.0, words, i.TurnCommitRequested()).until(1.5)) == [True]
    assert settled(Conversation().starts(0.5).at(1.0, words, i.UserTurnEnded()).until(1.5)) == [False]
    asked = Conversation().starts(0.5).at(1.0, i.TurnCommitRequested()).at(1.1, words)  # asked before it had words
    assert (settled(asked), asked.take()[0]) == ([False], (1.0, "SettleAudio"))
    assert settled(Conversation().starts(0.5).stops(1.0).at(1.3, words, i.RemoteReplyStarted("r"))) == [False]


def test_text_typed_in_mid_speech_is_a_turn_of_its_own_that_the_speech_joins_at_its_end() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="six")).at(1.1, i.TextReceived("hello"))
    assert talk.take() == [(1.1, "commit", "turn_2", "hello"), (1.1, "prepare", "answer_1")]
    talk.stops(2.0).at(2.2, i.UserFinal(text="six seven")).until(5.0)
    assert talk.take() == [
        (1.2, "withdraw", "answer_1"),
        (2.4, "merge", "turn_2", "hello six seven"),
        (2.4, "grant", "answer_2"),
    ]
    assert settled(talk) == [False, True]


def test_text_typed_in_mid_speech_over_a_protected_speech_waits_for_both() -> None:
    talk = Conversation().speaking(interruptible=False).starts(2.0).at(2.5, i.UserInterim(text="six"))
    talk.at(2.6, i.TextReceived("hello")).played(3.0).until(4.0)
    assert talk.take() == []
    assert talk.stops(4.1).at(4.3, i.UserFinal(text="six seven")).until(6.0).take()[0] == (
        4.5,
        "commit",
        "turn_1",
        "six seven hello",
    )


def test_text_typed_while_a_turn_goes_on_by_voice_joins_it_at_the_end_of_the_speech() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).starts(2.0).at(2.5, i.UserFinal(text="six"), i.TextReceived("seven"))
    assert talk.stops(3.0).until(5.0).take()[-2:] == [
        (3.4, "merge", "turn_1", "hello six seven"),
        (3.4, "grant", "answer_2"),
    ]


@pytest.mark.parametrize("blank", [" ", "\n\t "])
def test_a_blank_final_is_an_empty_one(blank: str) -> None:
    talk = Conversation().says(blank, 0.5, 1.5).until(5.0)
    assert talk.take() == [(1.7, "drop", "turn_1", "noise")]
    assert Conversation().at(1.0, i.UserInterim(text=blank), i.UserFinal(text=blank)).until(5.0).take() == []

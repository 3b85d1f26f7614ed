"""Turns of a model that hears the caller itself: no words are needed, and they may come late, in any order."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i


def heard(**options: Any) -> Conversation:
    return Conversation(hears_audio=True, **options)


def served(**options: Any) -> Conversation:
    """The model's server ends turns."""
    return heard(remote_decides=True, **options)


def commits(talk: Conversation) -> list[fx.CommitUserTurn]:
    return [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]


def test_speech_without_words_is_a_turn_after_the_pause() -> None:
    talk = heard().starts(0.5).stops(1.5).until(4.0)
    assert talk.take() == [(1.9, "commit", "turn_1", ""), (1.9, "grant", "answer_1")]
    commit = commits(talk)[0]
    assert commit.is_heard
    assert commit.settles_audio
    assert commit.timing.ended_by == "pause"


def test_speech_that_goes_on_after_a_pause_is_one_turn() -> None:
    talk = heard().starts(0.5).stops(1.0).starts(1.3).stops(2.0).until(2.5)
    assert talk.take() == [(2.4, "commit", "turn_1", ""), (2.4, "grant", "answer_1")]


def test_a_detector_is_asked_of_speech_without_words() -> None:
    talk = heard(detector_timeout=1.0).starts(0.5).stops(1.0)
    assert talk.take() == [(1.2, "predict", "")]
    assert talk.at(1.3, i.UserTurnPredicted(False)).until(3.9).take() == []
    assert talk.until(4.1).take() == [(4.0, "commit", "turn_1", ""), (4.0, "grant", "answer_1")]


def test_short_speech_beside_the_agents_is_dropped_and_cuts_nothing() -> None:
    talk = heard().speaking().starts(2.0).stops(2.3).until(5.0)
    assert talk.take() == [(2.5, "drop", "turn_1", "noise")]


def test_long_speech_beside_the_agents_pauses_it_and_takes_the_floor_at_its_end() -> None:
    talk = heard().speaking().starts(2.0).stops(2.8).until(4.0)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.0, "interrupted", "talk"),
        (3.2, "commit", "turn_1", ""),
        (3.2, "grant", "answer_1"),
    ]


def test_short_noise_while_an_answer_is_thought_of_lets_it_go_on() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.5)
    talk.take()
    talk.starts(1.6).stops(1.7).until(3.0)
    assert talk.take() == [
        (1.65, "pause", "answer_1"),
        (1.9, "resume", "answer_1", ""),
        (1.9, "drop", "turn_2", "noise"),
    ]


def test_speech_while_an_answer_is_thought_of_goes_on_with_its_turn() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.5)
    talk.take()
    talk.starts(1.6).stops(2.2).until(3.0)
    assert talk.take() == [
        (1.65, "pause", "answer_1"),
        (2.4, "withdraw", "answer_1"),
        (2.6, "merge", "turn_1", ""),
        (2.6, "grant", "answer_2"),
    ]


def test_speech_beside_protected_speech_is_answered_behind_it() -> None:
    talk = heard().speaking(interruptible=False).starts(2.0).stops(2.8).until(4.0)
    assert talk.take() == []
    assert talk.played(5.0).take() == [(5.0, "commit", "turn_1", ""), (5.0, "grant", "answer_1")]


def test_a_transcript_that_comes_late_is_of_the_turn_whose_audio_bears_its_name() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.4).at(1.45, i.UserAudioCommitted("a")).plays(1.5).played(2.0)
    talk.starts(3.0).stops(3.5).until(4.0).at(4.05, i.UserAudioCommitted("b")).take()
    talk.at(4.1, i.UserInterim(text="so", item_id="b")).at(4.2, i.UserFinal(text="second", item_id="b"))
    talk.at(4.3, i.UserFinal(text="first", item_id="a"))
    assert talk.take() == [(4.2, "amend", "turn_2", "second"), (4.3, "amend", "turn_1", "first")]


def test_both_parts_of_a_turn_that_went_on_find_their_places_in_any_order() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.5).at(1.5, i.UserAudioCommitted("a"))
    talk.starts(1.6).stops(2.2).until(2.6).at(2.65, i.UserAudioCommitted("b")).take()
    talk.at(2.7, i.UserFinal(text="for two", item_id="b")).at(2.8, i.UserFinal(text="a table", item_id="a"))
    assert talk.take() == [(2.7, "amend", "turn_1", "for two"), (2.8, "amend", "turn_1", "a table for two")]


def test_words_that_are_known_at_the_commit_are_not_waited_for() -> None:
    talk = heard().starts(0.5).at(0.9, i.UserFinal(text="hello", item_id="a")).stops(1.0).until(1.5)
    talk.at(1.5, i.UserAudioCommitted("a")).plays(1.6).played(2.0)
    talk.starts(3.0).stops(3.5).until(4.0).at(4.05, i.UserAudioCommitted("b")).take()
    assert talk.at(4.1, i.UserFinal(text="again", item_id="b")).take() == [(4.1, "amend", "turn_2", "again")]


def test_a_commit_on_request_needs_no_words() -> None:
    talk = heard(endpointing_mode="manual").starts(0.5).stops(1.0).until(3.0)
    assert talk.take() == []
    assert talk.at(3.0, i.TurnCommitRequested()).take() == [(3.0, "commit", "turn_1", ""), (3.0, "grant", "answer_1")]
    assert commits(talk)[0].settles_audio


def test_a_request_without_any_speech_commits_nothing() -> None:
    talk = heard(endpointing_mode="manual").at(1.0, i.TurnCommitRequested()).until(4.0)
    assert talk.take() == [(2.0, "drop", "turn_1", "transcript_missing")]


def test_a_turn_that_lasts_too_long_is_committed_in_its_midst_and_the_rest_of_it_when_it_ends() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.8).played(2.0).stops(2.0).until(6.0)
    assert talk.take() == [
        (1.5, "limit", "turn_1", "max_turn_duration"),
        (1.5, "commit", "turn_1", ""),
        (1.5, "grant", "answer_1"),
        (2.4, "commit", "turn_2", ""),
        (2.4, "grant", "answer_2"),
    ]
    assert [(commit.settles_audio, commit.is_heard) for commit in commits(talk)] == [(True, True)] * 2


def test_the_rest_of_a_long_burst_is_one_commit_however_long_it_is() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.8).played(2.0).stops(5.0).until(9.0)
    assert talk.take()[3:] == [(5.4, "commit", "turn_2", ""), (5.4, "grant", "answer_2")]


@pytest.mark.parametrize("limit", [1.0, 25.0])
def test_the_rest_of_a_burst_that_no_word_came_of_for_thirty_seconds_is_committed_when_it_ends(limit: float) -> None:
    talk = heard(emits_interims=False, max_turn_duration=limit).starts(0.5).until(0.6 + limit).plays(0.7 + limit)
    talk.played(1.0 + limit).stops(60.5).until(65.0)
    assert talk.take()[3:] == [(60.9, "commit", "turn_2", ""), (60.9, "grant", "answer_2")]


def test_the_rest_of_a_noise_that_a_request_has_committed_is_a_voice_again() -> None:
    talk = heard(emits_interims=False, endpointing_mode="manual").starts(0.5).until(40.0)
    talk.at(40.0, i.TurnCommitRequested())
    assert talk.user_states[-1] == ("speaking", 40.0)


@pytest.mark.parametrize("asked_at", [2.0, 2.7, 4.0, 20.0])
def test_in_push_to_talk_what_is_said_behind_the_limit_is_committed_by_the_request(asked_at: float) -> None:
    talk = heard(endpointing_mode="manual", max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.7).played(1.9)
    talk.take()
    if asked_at > 2.5:
        talk.stops(2.5).until(asked_at)
        assert talk.take() == []
    talk.at(asked_at, i.TurnCommitRequested())
    assert talk.take()[:2] == [(asked_at, "commit", "turn_2", ""), (asked_at, "grant", "answer_2")]
    assert [(commit.settles_audio, commit.is_heard) for commit in commits(talk)] == [(True, True)] * 2


def test_in_push_to_talk_a_rest_of_less_than_a_word_is_no_turn() -> None:
    talk = heard(endpointing_mode="manual", max_turn_duration=1.0).starts(0.5).stops(1.7).plays(1.9).played(2.0)
    talk.take()
    assert talk.at(3.0, i.TurnCommitRequested()).until(9.0).take() == []


def test_typed_words_that_wait_for_protected_speech_leave_the_rest_of_a_burst_to_the_next_spoken_commit() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).asks(0.8, "timer", interruptible=False).until(1.6).plays(1.7)
    talk.at(2.0, i.TextReceived("hello")).stops(2.5).until(3.0).played(4.0).until(4.1).plays(4.2).played(5.0)
    talk.starts(6.0).stops(6.5).until(8.0)
    assert [(commit.text, commit.settles_audio) for commit in commits(talk)] == [
        ("", True),
        ("hello", False),
        ("", True),
    ]


def test_who_goes_on_after_the_rest_has_the_whole_duration_again() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.8).played(2.0)
    talk.stops(4.0).starts(4.3).until(5.5)
    assert talk.take()[3:] == [
        (5.0, "limit", "turn_2", "max_turn_duration"),
        (5.0, "commit", "turn_2", ""),
        (5.0, "grant", "answer_2"),
    ]


def test_a_rest_of_less_than_a_word_is_forgotten_by_the_model() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.7).stops(1.78).played(2.0).until(6.0)
    assert talk.take()[3:] == [(1.98, "ClearAudio")]


def test_the_rest_waits_for_the_end_of_the_answer_which_it_does_not_cut() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.6).plays(1.8).stops(2.5).until(4.0)
    assert talk.take()[3:] == []
    assert talk.played(5.0).take() == [(5.0, "commit", "turn_2", ""), (5.0, "grant", "answer_2")]


def test_the_rest_waits_for_an_answer_that_is_still_thought_of() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).stops(2.5).until(4.0)
    assert talk.take()[3:] == []
    assert talk.plays(4.0).played(5.0).take() == [(5.0, "commit", "turn_2", ""), (5.0, "grant", "answer_2")]


def test_speech_over_the_answer_cuts_it_and_is_committed_with_the_rest() -> None:
    talk = heard(max_turn_duration=2.0).starts(0.5).until(2.6).plays(2.8).stops(3.5).starts(4.0).stops(4.8).until(7.0)
    assert talk.take()[3:] == [
        (4.5, "pause", "answer_1"),
        (5.0, "interrupted", "answer_1"),
        (5.2, "commit", "turn_2", ""),
        (5.2, "grant", "answer_2"),
    ]


def test_the_transcripts_of_both_parts_are_of_their_commits_in_any_order() -> None:
    talk = heard(max_turn_duration=1.0).starts(0.5).until(1.51).at(1.51, i.UserAudioCommitted("a")).plays(1.8)
    talk.played(2.0).stops(2.0).until(2.4).at(2.41, i.UserAudioCommitted("b")).take()
    talk.at(3.3, i.UserFinal(text="part two", item_id="b")).at(3.4, i.UserFinal(text="part one", item_id="a"))
    assert talk.take() == [(3.3, "amend", "turn_2", "part two"), (3.4, "amend", "turn_1", "part one")]


def test_words_whose_audio_was_committed_before_commit_no_silence() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.4).at(1.4, i.UserAudioCommitted("a")).plays(1.5).played(2.0)
    talk.take()
    talk.at(2.2, i.UserFinal(text="you", item_id="unknown")).until(4.0)
    assert [commit.settles_audio for commit in commits(talk)] == [True, False]


def test_an_item_that_never_gets_a_name_gives_way_to_the_next_one() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.4).plays(1.5).played(2.0)
    talk.starts(3.0).stops(3.5).until(4.0).at(4.0, i.UserAudioCommitted(""), i.UserAudioCommitted("b")).take()
    assert talk.at(4.1, i.UserFinal(text="again", item_id="b")).take() == [(4.1, "amend", "turn_2", "again")]


def test_typed_words_are_not_heard_by_a_model() -> None:
    talk = heard().at(1.0, i.TextReceived("hello"))
    assert not commits(talk)[0].is_heard


def test_a_server_that_ends_turns_and_waits_to_be_asked_is_asked_at_once() -> None:
    talk = served().at(1.5, i.UserTurnEnded("a"))
    assert talk.take() == [(1.5, "commit", "turn_1", ""), (1.5, "grant", "answer_1")]
    commit = commits(talk)[0]
    assert commit.is_heard
    assert not commit.settles_audio
    assert talk.at(2.0, i.UserFinal(text="hello", item_id="a")).take() == [(2.0, "amend", "turn_1", "hello")]


def test_a_server_ends_speech_that_a_vad_still_hears() -> None:
    talk = served().starts(0.5).at(1.5, i.UserTurnEnded())
    assert talk.take() == [(1.5, "commit", "turn_1", ""), (1.5, "grant", "answer_1")]
    assert talk.user_states == [("speaking", 0.5), ("idle", 1.5)]


@pytest.mark.parametrize("names_reply", [True, False])
def test_the_words_of_turns_that_a_server_answered_come_in_any_order(names_reply: bool) -> None:
    talk = served()
    for at, name, reply in ((1.0, "a", "one"), (3.0, "b", "two")):
        talk.at(at, i.UserAudioCommitted(name), i.RemoteReplyStarted(reply, name if names_reply else ""))
        talk.plays(at + 0.1).played(at + 0.5)
    talk.take()
    talk.at(4.0, i.UserFinal(text="second", item_id="b")).at(4.1, i.UserFinal(text="first", item_id="a"))
    assert talk.take() == [(4.0, "amend", "turn_2", "second"), (4.1, "amend", "turn_1", "first")]


def test_a_server_that_cuts_its_answer_cuts_what_is_heard() -> None:
    talk = served().at(1.0, i.RemoteReplyStarted("one")).plays(1.1)
    talk.take()
    assert talk.at(2.0, i.RemoteReplyCancelled("one")).take() == [(2.0, "interrupted", "answer_1")]


def test_a_server_that_cuts_its_answer_leaves_given_and_protected_speech_alone() -> None:
    for talk in (served().speaking(), served().speaking(interruptible=False), served()):
        talk.take()
        assert talk.at(2.0, i.RemoteReplyCancelled()).take() == []


def test_names_are_forgotten_at_the_close() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.5).at(1.6, i.SessionClosing())
    talk.take()
    assert talk.at(1.7, i.UserAudioCommitted("a"), i.UserFinal(text="hello", item_id="a")).take() == []


def test_a_transcript_that_tells_of_nothing_changes_nothing() -> None:
    talk = heard().starts(0.5).stops(1.0).until(1.4).at(1.45, i.UserAudioCommitted("a"))
    talk.take()
    assert talk.at(2.0, i.UserFinal(text="", item_id="a")).take() == []


def test_the_end_of_speech_whose_turn_is_over_is_of_no_turn() -> None:
    talk = heard(endpointing_mode="manual").starts(0.5).at(1.0, i.TurnCommitRequested())
    talk.take()
    assert talk.stops(2.0).take() == []


def test_speech_whose_remote_answer_was_refused_for_a_protected_speech_is_answered_after_that() -> None:
    talk = Conversation(remote_decides=True, hears_audio=True, emits_interims=False).speaking(interruptible=False)
    talk.starts(1.5).stops(2.5).at(2.8, i.RemoteReplyStarted("r")).until(6.9)
    assert talk.take() == [(2.8, "refuse", "r")]
    assert talk.played(7.0).take() == [(7.0, "commit", "turn_1", ""), (7.0, "grant", "answer_1")]


def test_the_end_of_speech_whose_turn_was_committed_leaves_the_turn_of_later_words_alone() -> None:
    talk = heard(endpointing_mode="manual").starts(0.5).at(1.0, i.TurnCommitRequested()).plays(1.2)
    talk.at(1.5, i.UserInterim(text="wait")).take()
    assert talk.stops(2.0).take() == []

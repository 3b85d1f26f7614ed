"""Sound that never ends, such as a television's, where words come only when an utterance is over."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import WakeUp

EARS: list[dict[str, Any]] = [{"emits_interims": False}, {"emits_interims": False, "hears_audio": True}]
"""A recogniser without interims, and a realtime model under the session's VAD."""
each_ears = pytest.mark.parametrize("ears", EARS, ids=["recogniser", "realtime model"])


def entries(talk: Conversation, *kinds: str) -> list[tuple[Any, ...]]:
    return [entry for entry in talk.take() if entry[1] in kinds]


@each_ears
def test_a_caller_before_a_television_is_answered_thirty_seconds_after_the_last_word(ears: dict[str, Any]) -> None:
    talk = Conversation(**ears).starts(0.5).at(2.3, i.UserFinal(text="a table")).until(32.29)
    assert talk.take() == []
    assert talk.until(32.3).take() == [(32.3, "commit", "turn_1", "a table"), (32.3, "grant", "answer_1")]
    talk.plays(33.0).until(120.0)
    assert talk.take() == []
    assert talk.user_states[-1] == ("listening", 33.0)
    (commit,) = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]
    assert (commit.timing.ended_by, commit.settles_audio, commit.is_heard) == ("no_words", True, True)


@each_ears
def test_each_new_word_puts_that_end_off(ears: dict[str, Any]) -> None:
    talk = Conversation(**ears).starts(0.5).at(2.3, i.UserFinal(text="a table")).at(20.0, i.UserFinal(text="for two"))
    assert entries(talk.until(49.99), "commit") == []
    assert entries(talk.until(50.0), "commit") == [(50.0, "commit", "turn_1", "a table for two")]


def test_an_empty_final_is_no_new_word() -> None:
    talk = Conversation(emits_interims=False).starts(0.5).at(2.3, i.UserFinal(text="a table"))
    talk.at(20.0, i.UserFinal(text="")).until(60.0)
    assert entries(talk, "commit") == [(32.3, "commit", "turn_1", "a table")]


@each_ears
def test_the_rest_of_that_sound_is_noise_until_a_word_comes(ears: dict[str, Any]) -> None:
    talk = Conversation(wake_up=WakeUp(after=8.0), away_after=15.0, **ears).at(0.0, i.ParticipantLinked()).starts(0.5)
    talk.at(2.3, i.UserFinal(text="a table")).until(33.0).plays(33.0).played(35.0).until(60.0)
    assert entries(talk, "wake up") == [(43.0, "wake up", 1)]
    assert talk.user_states[-1] == ("away", 50.0)
    talk.at(60.0, i.UserFinal(text="hello")).until(60.1)
    assert talk.user_states[-1] == ("speaking", 60.0)
    talk.stops(60.3).until(64.0)
    assert entries(talk, "commit") == [(60.7, "commit", "turn_2", "hello")]


def test_a_recogniser_that_was_lost_has_those_seconds_from_its_return_on() -> None:
    talk = Conversation(emits_interims=False).starts(0.5).at(2.3, i.UserFinal(text="a table"))
    talk.at(10.0, i.RecogniserLost()).at(20.0, i.RecogniserBack()).until(60.0)
    assert entries(talk, "commit") == [(50.0, "commit", "turn_1", "a table")]


def test_short_sounds_one_after_the_other_do_not_put_the_end_off() -> None:
    talk = Conversation(emits_interims=False).says("a table", 0.5, 1.5)
    for number in range(100):
        onset = round(1.75 + number * 0.5, 2)
        talk.starts(onset).stops(round(onset + 0.25, 2))
    ((at, *_),) = entries(talk, "commit")
    assert 31.7 <= at <= 31.8


def test_words_that_came_late_for_noise_end_their_turn_too() -> None:
    """A model under the session's VAD keeps a turn of mere noise open, to which the words of an earlier sound come."""
    talk = Conversation(hears_audio=True, emits_interims=False).speaking().starts(2.0).stops(2.2).starts(2.5)
    talk.played(10.0).at(40.0, i.UserFinal(text="a table")).until(120.0)
    assert entries(talk, "commit") == [(70.0, "commit", "turn_2", "a table")]


def test_a_caller_whom_the_model_hears_itself_may_speak_for_as_long_after_each_pause() -> None:
    talk = Conversation(hears_audio=True, emits_interims=False).starts(0.5).stops(20.0).starts(20.3).until(50.29)
    assert entries(talk, "commit") == []
    assert entries(talk.until(50.3), "commit") == [(50.3, "commit", "turn_1", "")]


def test_a_sound_behind_a_pause_that_outlasts_them_is_noise_from_then_on_and_is_forgotten_by_the_model() -> None:
    talk = Conversation(hears_audio=True, emits_interims=False).starts(0.5).stops(2.0).starts(2.2).until(33.0)
    assert talk.take() == [(32.2, "commit", "turn_1", ""), (32.2, "grant", "answer_1")]
    assert talk.plays(33.0).played(35.0).stops(120.0).until(130.0).take() == [(120.2, "ClearAudio")]


def test_a_sound_without_a_pause_is_committed_once_after_thirty_seconds_and_its_rest_is_noise() -> None:
    """A caller who speaks before a television is answered, although the sound never ends."""
    talk = Conversation(hears_audio=True, emits_interims=False, wake_up=WakeUp(after=8.0))
    talk.at(0.0, i.ParticipantLinked()).starts(0.5).until(30.49)
    assert talk.take() == []
    assert talk.until(30.5).take() == [(30.5, "commit", "turn_1", ""), (30.5, "grant", "answer_1")]
    (commit,) = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)]
    assert (commit.timing.ended_by, commit.settles_audio, commit.is_heard) == ("no_words", True, True)
    talk.plays(33.0).played(35.0).until(44.0)
    assert entries(talk, "pause", "wake up", "commit") == [(43.0, "wake up", 1)]
    assert talk.stops(120.0).until(130.0).take() == [(120.2, "ClearAudio")]


def test_a_sound_that_began_over_the_voice_of_the_agent_is_committed_when_it_ends() -> None:
    """It may be the agent's own voice, or a television's to which the caller does not listen."""
    talk = Conversation(hears_audio=True, emits_interims=False).speaking().starts(2.0).played(10.0).until(60.0)
    assert entries(talk, "commit") == []
    assert entries(talk.stops(60.0).until(61.0), "commit") == [(60.4, "commit", "turn_1", "")]


def test_a_sign_of_listening_before_a_television_holds_the_agent_for_thirty_seconds() -> None:
    talk = Conversation(emits_interims=False).speaking().starts(2.0).at(4.0, i.UserFinal(text="okay")).until(60.0)
    assert entries(talk, "pause", "resume", "aside", "commit") == [
        (2.5, "pause", "talk"),
        (34.0, "resume", "talk", "false interruption"),
        (34.0, "aside", "turn_1", "okay"),
    ]


@pytest.mark.parametrize("options", [{"max_pause": None}, {"endpointing_mode": "manual"}], ids=str)
def test_where_no_sound_is_noise_or_only_a_request_ends_a_turn_it_stays_open(options: dict[str, Any]) -> None:
    talk = Conversation(emits_interims=False, **options).starts(0.5).at(2.3, i.UserFinal(text="a table"))
    assert entries(talk.until(120.0), "commit") == []


@pytest.mark.parametrize(("emits_interims", "at"), [(True, 8.0), (False, 33.0)])
def test_words_that_the_application_has_cleared_do_not_make_a_voice_of_a_television(
    emits_interims: bool, at: float
) -> None:
    talk = Conversation(emits_interims=emits_interims, away_after=2.0, wake_up=WakeUp(after=2.5))
    talk.at(0.0, i.ParticipantLinked()).starts(0.5).at(2.3, i.UserFinal(text="a table"))
    talk.at(3.0, i.TurnClearRequested()).until(60.0)
    assert entries(talk, "wake up") == [(at, "wake up", 1)]
    assert talk.user_states[-1][0] == "away"

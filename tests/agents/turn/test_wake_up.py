"""Effects of a long silence: the state away, wake-ups by levels, the close; and the meaning of silence."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import TurnOptions, WakeUp, wake_up_of
from vivavoce.pipelines.core.errors import ConfigurationError

CLOSING = WakeUp(after=10, repeat=3, backoff=1.5, then="close")


def call(wake_up: WakeUp | None = None, **options: Any) -> Conversation:
    """A conversation with a caller who is there from 0.0 on."""
    return Conversation(wake_up=wake_up, **options).at(0.0, i.ParticipantLinked())


def woken(talk: Conversation) -> list[tuple[Any, ...]]:
    """The wake-ups and the close that they led to, with their times."""
    return [entry for entry in talk.take() if entry[1] in ("wake up", "close", "hang up")]


# --- levels


def test_a_silent_caller_is_woken_up_once() -> None:
    assert woken(call(WakeUp(after=10)).until(100.0)) == [(10.0, "wake up", 1)]


def test_without_a_wake_up_nobody_is_woken_up() -> None:
    assert woken(call(away_after=None).until(100.0)) == []


def test_three_levels_with_growing_waits_then_the_close() -> None:
    assert woken(call(CLOSING).until(500.0)) == [
        (10.0, "wake up", 1),
        (25.0, "wake up", 2),
        (47.5, "wake up", 3),
        (81.25, "close", "user_away"),
    ]


def test_a_caller_who_answers_no_level_is_hung_up_on_once() -> None:
    assert woken(call(WakeUp(after=10, then="hangup"), away_after=None).until(500.0)) == [
        (10.0, "wake up", 1),
        (20.0, "hang up"),
    ]


def test_who_comes_after_a_caller_that_was_hung_up_on_is_woken_up_from_the_first_level() -> None:
    talk = call(WakeUp(after=10, then="hangup"), away_after=None).until(20.0)
    talk.at(20.5, i.ParticipantLeft(None)).at(30.0, i.ParticipantLinked()).until(100.0)
    assert woken(talk)[2:] == [(40.0, "wake up", 1), (50.0, "hang up")]


def test_who_comes_back_by_themselves_is_woken_up_from_where_the_levels_were() -> None:
    talk = call(WakeUp(after=10, repeat=2, then="hangup"), away_after=None).until(10.0)
    talk.at(12.0, i.ParticipantLeft(None)).at(30.0, i.ParticipantLinked()).until(100.0)
    assert woken(talk) == [(10.0, "wake up", 1), (40.0, "wake up", 2), (50.0, "hang up")]


def test_nothing_follows_the_last_level_where_nothing_is_to() -> None:
    talk = call(WakeUp(after=10, repeat=2), away_after=None).until(20.0)
    assert woken(talk) == [(10.0, "wake up", 1), (20.0, "wake up", 2)]
    assert talk.machine.next_deadline() is None


def test_what_the_agent_says_at_a_level_restarts_the_wait_and_keeps_the_level() -> None:
    talk = call(CLOSING).until(10.0).asks(10.0, "there?").plays(10.5).played(12.5).until(60.0)
    assert woken(talk) == [(10.0, "wake up", 1), (27.5, "wake up", 2), (50.0, "wake up", 3)]


def test_a_caller_who_answers_a_wake_up_is_woken_up_from_the_first_level_again() -> None:
    talk = call(CLOSING).says("yes", 12.0, 12.5).plays(13.2).played(14.0).until(30.0)
    assert woken(talk) == [(10.0, "wake up", 1), (24.0, "wake up", 1)]


# --- inputs that restart the wait


def test_the_wait_begins_with_the_end_of_the_start() -> None:
    talk = Conversation(is_started=False, wake_up=WakeUp(after=10))
    talk.at(0.0, i.SessionStarting(), i.ParticipantLinked()).at(30.0, i.SessionStarted()).until(60.0)
    assert woken(talk) == [(40.0, "wake up", 1)]


@pytest.mark.parametrize("outcome", ["completed", "interrupted", "failed", "cancelled", "discarded"])
def test_the_wait_begins_anew_with_every_outcome_of_a_reply(outcome: i.EndedAs) -> None:
    talk = call(WakeUp(after=10)).asks(9.0, "answer", "reply").at(12.0, i.SpeechEnded("answer", outcome, "llm"))
    assert woken(talk.until(40.0)) == [(22.0, "wake up", 1)]


def test_a_reply_that_was_cut_counts_until_it_is_over() -> None:
    talk = call(WakeUp(after=10)).asks(1.0, "answer", "reply").at(9.0, i.InterruptRequested())
    assert woken(talk.until(30.0)) == []
    assert woken(talk.at(30.0, i.SpeechEnded("answer", "cancelled")).until(50.0)) == [(40.0, "wake up", 1)]


def test_the_end_of_a_speech_that_nobody_knows_restarts_nothing() -> None:
    talk = call(WakeUp(after=10)).at(9.0, i.SpeechEnded("ghost", "completed")).until(20.0)
    assert woken(talk) == [(10.0, "wake up", 1)]


@pytest.mark.parametrize("words", [i.UserInterim(text="hm"), i.UserFinal(text="hm"), i.TextReceived("hm")])
def test_words_restart_the_wait_and_end_the_silence(words: i.TurnInput) -> None:
    talk = call(CLOSING).until(10.0).at(15.0, words).at(17.0, i.SpeechEnded("answer_1", "completed")).until(30.0)
    assert woken(talk) == [(10.0, "wake up", 1), (27.0, "wake up", 1)]


def test_a_turn_that_only_a_remote_model_understood_ends_the_silence_too() -> None:
    talk = call(CLOSING, remote_decides=True).until(10.0).starts(12.0).stops(13.0)
    talk.at(13.5, i.RemoteReplyStarted("r")).at(15.0, i.SpeechEnded("answer_1", "completed")).until(26.0)
    assert woken(talk) == [(10.0, "wake up", 1), (25.0, "wake up", 1)]


def test_a_blank_text_and_empty_transcripts_are_no_activity() -> None:
    talk = call(WakeUp(after=10))
    talk.at(8.0, i.TextReceived(" "), i.UserInterim(text=""), i.UserFinal(text="")).until(30.0)
    assert woken(talk) == [(10.0, "wake up", 1)]


# --- times without wake-ups


def test_nobody_is_woken_up_who_speaks() -> None:
    assert woken(call(WakeUp(after=10), emits_interims=False).starts(5.0).until(34.9)) == []


def test_nobody_is_woken_up_while_the_agent_thinks_speaks_or_runs_a_tool() -> None:
    talk = call(WakeUp(after=10)).asks(5.0, "answer", "reply").until(30.0)
    assert woken(talk.plays(30.0).until(60.0)) == []
    talk.at(60.0, i.ToolsStarted("answer"), i.ToolsRunning(True), i.ToolsAwaited("answer")).until(90.0)
    assert woken(talk) == []
    talk.at(90.0, i.ToolsFinished("answer"), i.ToolsRunning(False)).plays(91.0).played(92.0).until(120.0)
    assert woken(talk) == [(102.0, "wake up", 1)]


def test_nobody_is_woken_up_while_a_tool_of_an_interrupted_speech_runs_on() -> None:
    talk = call(WakeUp(after=10)).asks(1.0, "answer", "reply").at(2.0, i.ToolsStarted("answer"), i.ToolsRunning(True))
    talk.at(3.0, i.InterruptRequested(), i.SpeechEnded("answer", "interrupted")).until(30.0)
    assert woken(talk) == []
    assert woken(talk.at(30.0, i.ToolsRunning(False)).until(60.0)) == [(40.0, "wake up", 1)]


def test_nobody_is_woken_up_during_a_handoff() -> None:
    talk = call(WakeUp(after=10)).at(5.0, i.HandoffRequested("h")).until(30.0)
    assert woken(talk) == []
    assert woken(talk.at(30.0, i.HandoffEnded("h")).until(60.0)) == [(40.0, "wake up", 1)]


def test_that_no_tool_runs_restarts_nothing_where_none_did() -> None:
    talk = call(WakeUp(after=10)).at(9.0, i.ToolsRunning(False)).until(30.0)
    assert woken(talk) == [(10.0, "wake up", 1)]


def test_nobody_is_woken_up_before_the_caller_has_come() -> None:
    talk = Conversation(wake_up=WakeUp(after=10)).at(30.0, i.ParticipantLinked()).at(35.0, i.ParticipantLinked())
    assert woken(talk.until(60.0)) == [(40.0, "wake up", 1)]


@pytest.mark.parametrize("grace", [20.0, None])
def test_a_caller_who_left_is_woken_up_only_after_the_return_at_the_level_that_was_reached(grace: float | None) -> None:
    talk = call(WakeUp(after=10, repeat=2)).until(10.0).at(15.0, i.ParticipantLeft(grace))
    talk.at(30.0, i.ParticipantLinked()).until(60.0)
    assert woken(talk) == [(10.0, "wake up", 1), (40.0, "wake up", 2)]


def test_nobody_is_woken_up_once_the_session_closes() -> None:
    talk = call(WakeUp(after=10)).at(9.0, i.SessionClosing())
    assert talk.machine.next_deadline() is None
    assert woken(talk.until(30.0).at(30.0, i.SessionClosed()).until(60.0)) == []


# --- noise


def test_noise_neither_holds_a_wake_up_off_nor_resets_the_level() -> None:
    talk = call(WakeUp(after=10, repeat=2))
    for start in (2.0, 6.0, 9.5, 14.0, 18.0, 22.0):
        talk.starts(start).stops(start + 0.5).at(start + 1.0, i.UserFinal(text=""))
    assert woken(talk.until(60.0)) == [(10.5, "wake up", 1), (20.5, "wake up", 2)]


def test_a_wake_up_due_in_the_middle_of_noise_waits_until_its_turn_is_dropped() -> None:
    talk = call(WakeUp(after=10)).starts(9.0).stops(11.0).until(30.0)
    assert talk.take() == [(12.0, "drop", "turn_1", "transcript_missing"), (12.0, "wake up", 1)]


def test_it_is_told_that_both_are_silent_before_somebody_is_woken_up() -> None:
    talk = call(WakeUp(after=15)).starts(14.0).stops(14.5).until(60.0)
    told = [effect for effect in talk.effects if isinstance(effect, fx.SetAgentState | fx.SetUserState | fx.WakeUser)]
    assert [effect.level if isinstance(effect, fx.WakeUser) else effect.state.value for effect in told][-3:] == [
        "idle",
        "away",
        1,
    ]


def test_a_wake_up_due_in_the_middle_of_words_does_not_happen() -> None:
    talk = call(WakeUp(after=10)).says("so well", 9.0, 11.0).plays(12.0).played(13.0).until(30.0)
    assert woken(talk) == [(23.0, "wake up", 1)]


# --- being away


def test_a_silent_caller_is_away() -> None:
    assert call().until(60.0).user_states == [("away", 15.0)]


def test_a_caller_is_never_away_where_that_is_off() -> None:
    assert call(away_after=None).until(60.0).user_states == []


def test_noise_does_not_keep_a_caller_from_being_away_nor_bring_one_back() -> None:
    talk = call().starts(12.0).stops(13.0).at(13.5, i.UserFinal(text="")).starts(20.0).stops(21.0).until(60.0)
    assert talk.user_states == [
        ("speaking", 12.0),
        ("idle", 13.0),
        ("away", 15.0),
        ("speaking", 20.0),
        ("away", 21.0),
    ]


def test_a_wake_up_and_what_is_said_at_it_do_not_end_being_away() -> None:
    talk = call(WakeUp(after=20)).until(20.0).asks(20.0, "there?").plays(20.5).played(22.0).until(60.0)
    assert woken(talk) == [(20.0, "wake up", 1)]
    assert talk.user_states == [("away", 15.0), ("listening", 20.5), ("away", 22.0)]


def test_words_end_being_away() -> None:
    talk = call().until(20.0).at(20.0, i.TextReceived("here")).plays(21.0).played(22.0).until(60.0)
    assert talk.user_states == [("away", 15.0), ("idle", 20.0), ("listening", 21.0), ("idle", 22.0), ("away", 37.0)]


def test_a_caller_who_listens_or_waits_for_the_agent_is_not_away() -> None:
    talk = call().asks(1.0, "answer", "reply").plays(30.0).played(40.0).until(60.0)
    assert talk.user_states == [("listening", 30.0), ("idle", 40.0), ("away", 55.0)]


# --- the application's part


def test_a_paused_wake_up_comes_a_full_wait_after_the_pause_at_its_level() -> None:
    talk = call(WakeUp(after=10, repeat=2)).until(10.0).at(12.0, i.WakeUpPaused(), i.WakeUpPaused())
    talk.at(50.0, i.WakeUpResumed()).until(80.0)
    assert woken(talk) == [(10.0, "wake up", 1), (60.0, "wake up", 2)]


def test_resuming_what_is_not_paused_changes_nothing() -> None:
    assert woken(call(WakeUp(after=10)).at(5.0, i.WakeUpResumed()).until(30.0)) == [(10.0, "wake up", 1)]


def test_a_pause_does_not_keep_a_caller_from_being_away() -> None:
    assert call(WakeUp(after=20)).at(5.0, i.WakeUpPaused()).until(30.0).user_states == [("away", 15.0)]


def test_a_caller_on_hold_is_neither_away_nor_woken_up_and_the_waits_begin_anew_behind_it() -> None:
    talk = call(WakeUp(after=10, repeat=2)).until(10.0).at(12.0, i.CallerHeld(True), i.CallerHeld(True))
    talk.at(50.0, i.CallerHeld(False)).at(55.0, i.CallerHeld(False)).until(66.0)
    assert woken(talk) == [(10.0, "wake up", 1), (60.0, "wake up", 2)]
    assert talk.user_states == [("away", 65.0)]


def test_a_caller_whom_the_agent_may_not_answer_yet_is_neither_away_nor_woken_up() -> None:
    talk = call(WakeUp(after=10, repeat=2)).until(10.0).at(12.0, i.SpeechWithheld(True)).until(49.0)
    talk.at(50.0, i.SpeechWithheld(False)).until(66.0)
    assert woken(talk) == [(10.0, "wake up", 1), (60.0, "wake up", 2)]
    assert talk.user_states == [("away", 65.0)]


def test_a_reset_begins_anew_with_the_first_level_and_ends_neither_a_pause_nor_being_away() -> None:
    talk = call(CLOSING).until(30.0).at(30.0, i.WakeUpReset()).until(45.0)
    assert woken(talk) == [(10.0, "wake up", 1), (25.0, "wake up", 2), (40.0, "wake up", 1)]
    assert talk.user_states == [("away", 15.0)]
    talk.at(45.0, i.WakeUpPaused(), i.WakeUpReset()).until(100.0)
    assert woken(talk) == []


def test_a_wake_up_that_is_set_later_counts_from_then_and_begins_with_its_first_level() -> None:
    talk = call(None).at(5.0, i.WakeUpChanged(WakeUp(after=4, repeat=2))).until(10.0)
    assert woken(talk) == [(9.0, "wake up", 1)]
    talk.at(10.0, i.WakeUpChanged(WakeUp(after=3))).until(20.0)
    assert woken(talk) == [(13.0, "wake up", 1)]
    talk.at(20.0, i.WakeUpChanged(None)).until(60.0)
    assert woken(talk) == []


# --- options


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({"after": 0}, "after > 0"),
        ({"after": float("inf")}, "waits below a year"),
        ({"after": 1, "repeat": 0}, "repeat >= 1"),
        ({"after": 1, "backoff": 0.5}, "backoff >= 1"),
        ({"after": 1, "backoff": float("inf")}, "waits below a year"),
        ({"after": 1, "then": "hang up"}, "then 'close', 'hangup' or None"),
        ({"after": 1, "repeat": 100000, "backoff": 2}, "waits below a year"),
    ],
)
def test_a_wake_up_says_what_it_needs_and_what_came(values: dict[str, Any], needed: str) -> None:
    with pytest.raises(ValueError, match=f"need {needed}.*got"):
        WakeUp(**values)


def test_being_away_needs_a_time() -> None:
    with pytest.raises(ValueError, match=r"need away_after > 0 .* got 0"):
        TurnOptions(away_after=0)


def test_a_key_of_a_telephone_ends_the_silence_and_being_away() -> None:
    talk = call(WakeUp(after=10, repeat=2)).until(12.0).at(13.0, i.KeyPressed())
    assert woken(talk.until(24.0)) == [(10.0, "wake up", 1), (23.0, "wake up", 1)]


def test_a_number_of_seconds_is_a_wake_up_once_a_silence() -> None:
    assert wake_up_of(10) == WakeUp(after=10)
    assert wake_up_of(WakeUp(after=3.0, repeat=2)) == WakeUp(after=3.0, repeat=2)
    assert wake_up_of(None) is None
    with pytest.raises(ConfigurationError, match="wake_up must be seconds, a WakeUp or None, got 'soon'"):
        wake_up_of("soon")  # type: ignore[arg-type]  # that is the test

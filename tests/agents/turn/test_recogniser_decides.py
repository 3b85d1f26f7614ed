"""A recogniser that judges the ends of turns: its judgements take the place of the turn detector and of the waits."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i

EAGER = i.UserTurnEndedEagerly()
RESUMED = i.UserTurnResumed()
ENDED = i.UserTurnEnded()


def deciding(**options: Any) -> Conversation:
    return Conversation(**{"max_attempts": 3, "recogniser_decides": True, **options})


def interim(text: str) -> i.UserInterim:
    return i.UserInterim(text=text)


def final(text: str) -> i.UserFinal:
    return i.UserFinal(text=text)


def timing(talk: Conversation) -> fx.TurnTiming:
    return [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)][-1].timing


def told(talk: Conversation) -> list[tuple[Any, ...]]:
    """Return the effects, without the attempts."""
    return [entry for entry in talk.take() if entry[1] not in ("attempt", "throw away")]


# --- the end of the turn


def test_no_pause_ends_a_turn_whose_end_the_recogniser_judges() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).stops(1.5).until(4.4)
    assert talk.take() == []
    talk.at(4.4, final("A table."), ENDED)
    assert talk.take() == [(4.4, "commit", "turn_1", "A table."), (4.4, "grant", "answer_1")]
    assert (timing(talk).ended_by, timing(talk).delay) == ("recogniser", None)


def test_the_end_needs_no_silence_by_the_vad() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table")).at(1.3, i.UserVoicePaused(1.2)).at(1.35, final("a table"))
    talk.at(1.36, ENDED)
    assert told(talk) == [(1.36, "commit", "turn_1", "a table", "attempt_1"), (1.36, "grant", "answer_1")]
    assert timing(talk).speech_ended_at == 1.2  # as far as the VAD has reported
    talk.at(1.4, i.UserSpeechEnded(1.2)).plays(1.6).until(9.0)
    assert talk.take() == []


def test_a_judgement_that_never_comes_is_waited_for_no_longer_than_max_delay() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).stops(1.5).until(9.0)
    assert talk.take() == [(4.5, "commit", "turn_1", "a table"), (4.5, "grant", "answer_1")]
    assert (timing(talk).ended_by, timing(talk).delay) == ("pause", 3.0)
    late = deciding(max_attempts=0, max_delay=0.5).starts(0.5).at(1.0, interim("a table")).stops(1.5).until(9.0)
    assert late.take()[0] == (2.5, "commit", "turn_1", "a table")  # at least the time of a missing final


def test_without_a_vad_max_delay_counts_from_the_last_word() -> None:
    talk = deciding(max_attempts=0).at(1.0, interim("a")).at(2.0, interim("a table")).until(9.0)
    assert talk.take()[0] == (5.0, "commit", "turn_1", "a table")


def test_the_words_that_come_after_the_limit_amend_the_turn() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).stops(1.5).until(4.5)
    talk.at(4.7, final("a table for two"), ENDED)
    assert told(talk)[2:] == [
        (4.7, "withdraw", "answer_1"),
        (4.7, "merge", "turn_1", "a table for two"),
        (4.7, "grant", "answer_2"),
    ]


def test_sound_without_a_word_is_dropped_as_ever() -> None:
    talk = deciding().starts(0.5).stops(1.5).until(9.0)
    assert talk.take() == [(2.5, "drop", "turn_1", "transcript_missing")]
    assert deciding().starts(0.5).stops(1.5).at(1.8, final("")).take() == [(1.8, "drop", "turn_1", "noise")]


def test_an_end_without_words_drops_the_sound_that_is_over() -> None:
    talk = deciding().starts(0.5).stops(1.5).at(1.8, ENDED)
    assert talk.take() == [(1.8, "drop", "turn_1", "noise")]
    assert deciding().starts(0.5).at(1.0, ENDED, EAGER, RESUMED).take() == []
    assert deciding().at(1.0, ENDED, EAGER, RESUMED).take() == []


def test_an_end_without_words_lets_a_paused_agent_go_on() -> None:
    talk = deciding().speaking().starts(2.0).stops(3.0).at(3.3, ENDED)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (3.3, "drop", "turn_1", "noise"),
        (3.3, "resume", "talk", "false interruption"),
    ]


def test_an_end_without_a_final_commits_the_words_shown() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).stops(1.5).at(1.9, ENDED)
    assert told(talk) == [(1.9, "commit", "turn_1", "a table", "attempt_1"), (1.9, "grant", "answer_1")]
    assert talk.at(2.0, final("A table.")).take() == [(2.0, "amend", "turn_1", "A table.")]


def test_sound_that_goes_on_behind_the_end_is_noise_until_a_word_comes() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table")).at(1.5, final("a table"), ENDED).plays(2.0).until(6.0)
    assert told(talk) == [(1.5, "commit", "turn_1", "a table", "attempt_1"), (1.5, "grant", "answer_1")]
    assert talk.agent_states[-1] == ("speaking", 2.0)
    talk.at(6.5, interim("no wait")).until(7.0)
    assert ("interrupted", "answer_1") in [entry[1:] for entry in talk.take()]


def test_new_sound_that_began_before_the_end_holds_the_answer_back() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).stops(1.5).starts(1.8)
    talk.at(1.9, final("a table"), ENDED)
    assert talk.take() == [
        (1.9, "commit", "turn_1", "a table"),
        (1.9, "grant", "answer_1"),
        (1.9, "pause", "answer_1"),
    ]
    talk.at(2.3, interim("for two")).stops(2.4).at(2.7, final("for two"), ENDED)
    assert talk.take()[-2:] == [(2.7, "merge", "turn_1", "a table for two"), (2.7, "grant", "answer_2")]


def test_limits_of_words_and_a_request_end_the_turn_as_ever() -> None:
    talk = deciding(max_turn_words=2, max_attempts=0).starts(0.5).at(1.0, interim("one two three"))
    assert talk.take()[:2] == [(1.0, "limit", "turn_1", "max_turn_words"), (1.0, "commit", "turn_1", "one two three")]
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).at(1.2, i.TurnCommitRequested())
    assert talk.take()[0] == (1.2, "commit", "turn_1", "a table")


def test_sound_behind_the_words_ends_the_turn_after_no_words() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).until(9.0)
    assert talk.take()[0] == (4.0, "commit", "turn_1", "a table")
    assert timing(talk).ended_by == "no_words"


def test_with_a_button_the_recogniser_judges_nothing() -> None:
    talk = deciding(endpointing_mode="manual").starts(0.5).at(1.0, interim("a table"), EAGER).stops(1.5)
    talk.at(1.8, EAGER, ENDED).until(9.0)
    assert talk.take() == []
    assert talk.at(9.5, i.TurnCommitRequested()).take()[0] == (9.5, "commit", "turn_1", "a table")


# --- eager ends


def test_an_eager_end_begins_the_answer_at_once_and_the_end_commits_it() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table")).at(1.01, EAGER)
    assert talk.take() == [(1.01, "attempt", "attempt_1", "turn_1", "a table")]
    talk.at(1.5, final("A table."), ENDED)
    assert talk.take() == [(1.5, "commit", "turn_1", "A table.", "attempt_1"), (1.5, "grant", "answer_1")]


def test_resumed_drops_the_answer_at_once_and_none_begins_on_the_same_words() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).stops(1.5).at(1.8, RESUMED).until(4.0)
    assert talk.take() == [(1.0, "attempt", "attempt_1", "turn_1", "a table"), (1.8, "throw away", "attempt_1")]
    talk.at(4.1, interim("a table for two"), EAGER).at(4.2, final("a table for two"), ENDED)
    assert talk.take() == [
        (4.1, "attempt", "attempt_2", "turn_1", "a table for two"),
        (4.2, "commit", "turn_1", "a table for two", "attempt_2"),
        (4.2, "grant", "answer_1"),
    ]


def test_stable_interims_begin_nothing_so_that_the_eager_end_has_all_attempts() -> None:
    talk = deciding(max_attempts=1).starts(0.5)
    for at, words in ((1.0, "a"), (1.5, "a table"), (2.0, "a table for"), (2.5, "a table for two")):
        talk.at(at, interim(words)).until(at + 0.4)
    assert talk.take() == []
    talk.at(3.0, EAGER).at(3.3, final("A table for two."), ENDED)
    assert talk.take() == [
        (3.0, "attempt", "attempt_1", "turn_1", "a table for two"),
        (3.3, "commit", "turn_1", "A table for two.", "attempt_1"),
        (3.3, "grant", "answer_1"),
    ]


def test_resumed_without_an_eager_end_drops_what_final_words_began() -> None:
    talk = deciding().starts(0.5).at(1.0, final("a table")).at(1.4, RESUMED).until(2.0)
    assert talk.take() == [(1.0, "attempt", "attempt_1", "turn_1", "a table"), (1.4, "throw away", "attempt_1")]


def test_an_eager_end_that_comes_twice_changes_nothing() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).at(1.1, EAGER).at(1.2, interim("a table"), EAGER)
    assert talk.take() == [(1.0, "attempt", "attempt_1", "turn_1", "a table")]


def test_an_eager_end_after_resumed_begins_again() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).at(1.1, RESUMED).at(1.2, EAGER)
    assert talk.take()[2:] == [(1.2, "attempt", "attempt_2", "turn_1", "a table")]


def test_a_final_of_other_words_drops_the_answer_of_the_eager_end() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("fifteen"), EAGER).at(1.3, final("fifty"), ENDED)
    assert talk.take() == [
        (1.0, "attempt", "attempt_1", "turn_1", "fifteen"),
        (1.3, "throw away", "attempt_1"),
        (1.3, "attempt", "attempt_2", "turn_1", "fifty"),
        (1.3, "commit", "turn_1", "fifty", "attempt_2"),
        (1.3, "grant", "answer_1"),
    ]


def test_the_attempts_of_eager_ends_count_too() -> None:
    talk = deciding(max_attempts=1).starts(0.5).at(1.0, interim("one"), EAGER).at(1.1, RESUMED)
    assert len(talk.at(1.2, interim("one two"), EAGER).at(1.5, final("one two"), ENDED).take()) == 4


def test_an_eager_end_without_words_begins_nothing() -> None:
    assert deciding().starts(0.5).at(1.0, EAGER).take() == []
    assert deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table"), EAGER).take() == []


def test_the_words_of_an_eager_end_take_the_floor_from_the_agent() -> None:
    talk = deciding().speaking().starts(2.0).at(2.6, interim("wait stop"), EAGER)
    assert talk.take() == [
        (2.5, "pause", "talk"),
        (2.6, "interrupted", "talk"),
        (2.6, "attempt", "attempt_1", "turn_1", "wait stop"),
    ]
    talk.at(2.7, RESUMED).at(2.9, final("wait stop"), ENDED)
    assert talk.take()[-2][1:3] == ("commit", "turn_1")


def test_a_backchannel_with_an_end_is_kept_beside_the_speech_that_goes_on() -> None:
    talk = deciding().speaking().starts(2.0).at(2.3, interim("mhm"), EAGER).at(2.35, final("mhm"), ENDED).until(4.0)
    assert talk.take() == [(2.35, "aside", "turn_1", "mhm")]


def test_words_over_a_protected_speech_are_answered_when_it_is_over() -> None:
    talk = deciding().speaking(interruptible=False).starts(2.0).at(2.5, interim("stop"), EAGER).stops(2.6)
    talk.at(2.9, final("stop"), ENDED).until(3.5)
    assert talk.take() == []
    talk.played(3.5)
    assert talk.take() == [(3.5, "commit", "turn_1", "stop"), (3.5, "grant", "answer_1")]
    assert timing(talk).ended_by == "recogniser"


def test_words_behind_an_end_that_waits_for_a_protected_speech_reopen_the_turn() -> None:
    talk = deciding(max_attempts=0).speaking(interruptible=False).says("stop", 2.0, 2.6).at(2.9, ENDED)
    talk.starts(3.0).at(3.4, interim("please")).played(3.5)
    assert talk.take() == []
    talk.at(4.0, final("please"), ENDED)
    assert talk.take() == [(4.0, "commit", "turn_1", "stop please"), (4.0, "grant", "answer_1")]


def test_an_end_while_a_tool_of_the_turn_runs_is_a_new_turn() -> None:
    talk = deciding().asks(0.1, "ask", "reply").at(0.2, i.ToolsStarted("ask"), i.ToolsAwaited("ask"))
    talk.starts(0.5).at(1.0, interim("and more"), EAGER).at(1.4, final("and more"), ENDED)
    assert talk.take()[1:] == [
        (1.0, "interrupt calls", "ask"),
        (1.4, "commit", "turn_1", "and more"),
        (1.4, "grant", "answer_1"),
    ]


def test_a_caller_who_resumes_before_the_answer_sounds_goes_on_with_the_turn() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).stops(1.2).at(1.5, final("a table"), ENDED)
    talk.starts(1.7).at(2.0, interim("for two"), EAGER).stops(2.2).at(2.5, final("for two"), ENDED)
    assert talk.take()[-2:] == [(2.5, "merge", "turn_1", "a table for two", "attempt_2"), (2.5, "grant", "answer_2")]


# --- a recogniser that will not judge


def test_a_turn_whose_recogniser_was_lost_behind_an_eager_end_ends_by_the_pause_with_that_answer() -> None:
    talk = deciding().starts(0.5).at(1.0, interim("a table"), EAGER).stops(1.2)
    talk.at(1.5, final("a table"), i.RecogniserLost()).until(1.59)
    assert told(talk) == []
    talk.until(1.6)
    assert talk.take() == [(1.6, "commit", "turn_1", "a table", "attempt_1"), (1.6, "grant", "answer_1")]


@pytest.mark.parametrize("change", [(i.RecogniserLost(), i.RecogniserBack()), (i.RecogniserReplaced(),)])
def test_the_next_recogniser_judges_from_its_first_word_on(change: tuple[i.TurnInput, ...]) -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, interim("a table")).at(1.1, final("a table"), *change)
    talk.at(1.4, interim("for two")).stops(1.5).until(4.0)
    assert talk.take() == []
    assert talk.at(4.1, final("for two"), ENDED).take()[0] == (4.1, "commit", "turn_1", "a table for two")


def test_words_of_a_replaced_recogniser_wait_for_no_judgement() -> None:
    talk = deciding(max_attempts=0).starts(0.5).at(1.0, final("a table")).stops(1.5).at(1.8, i.RecogniserReplaced())
    assert talk.until(4.0).take()[0] == (1.9, "commit", "turn_1", "a table")

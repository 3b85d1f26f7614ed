"""A user turn of too many words or seconds is over, and its answer is owed."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions


def limited(**options: object) -> Conversation:
    return Conversation(**options)  # type: ignore[arg-type]


def test_more_words_than_allowed_end_the_turn_in_mid_speech() -> None:
    talk = limited(max_turn_words=3).starts(0.5).at(1.0, i.UserInterim(text="one two three"))
    assert talk.take() == []
    talk.at(1.2, i.UserInterim(text="one two three four")).at(1.3, i.UserFinal(text="one two three four"))
    assert talk.take() == [
        (1.2, "limit", "turn_1", "max_turn_words"),
        (1.2, "commit", "turn_1", "one two three four"),
        (1.2, "grant", "answer_1"),
        (1.3, "amend", "turn_1", "one two three four"),
    ]
    limit = next(effect for effect in talk.effects if isinstance(effect, fx.UserTurnLimitReached))
    assert (limit.words, limit.seconds) == (4, 0.7)
    commit = next(effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn))
    assert (commit.settles_audio, commit.timing.ended_by, commit.timing.delay) == (True, "max_turn_words", None)


def test_finals_and_what_was_committed_before_count_too() -> None:
    talk = limited(max_turn_words=3).says("one two", 0.5, 1.0).says("three four", 1.6, 2.0)
    assert talk.take()[-3:] == [
        (2.2, "limit", "turn_1", "max_turn_words"),
        (2.2, "merge", "turn_1", "one two three four"),
        (2.2, "grant", "answer_2"),
    ]


def test_a_turn_that_lasts_too_long_is_over_with_the_words_there_are() -> None:
    talk = limited(max_turn_duration=2.0).starts(0.5).at(2.0, i.UserInterim(text="and so on")).until(4.0)
    assert talk.take() == [
        (2.5, "limit", "turn_1", "max_turn_duration"),
        (2.5, "commit", "turn_1", "and so on"),
        (2.5, "grant", "answer_1"),
    ]


def test_a_turn_that_goes_on_after_its_commit_has_lasted_from_its_first_part_on() -> None:
    talk = (
        limited(max_turn_duration=2.0).says("one", 0.5, 1.0).starts(1.6).at(2.2, i.UserInterim(text="two")).until(3.0)
    )
    assert talk.take()[-3] == (2.5, "limit", "turn_1", "max_turn_duration")


def test_after_a_limit_the_rest_of_a_sound_is_a_voice_again_though_the_sound_had_held_the_agent_too_long() -> None:
    talk = limited(max_turn_words=2).speaking().starts(2.0).at(8.0, i.UserFinal(text="wait for me"))
    assert (7.0, "resume", "talk", "false interruption") in talk.log
    talk.plays(8.2).played(9.0).take()
    assert talk.asks(10.0, "more", "reply").take() == [(10.0, "grant", "more"), (10.0, "pause", "more")]


def test_without_words_the_recogniser_is_asked_and_the_words_are_taken_as_they_come() -> None:
    talk = limited(max_turn_duration=2.0).starts(0.5).at(2.9, i.UserFinal(text="and so on"))
    assert talk.take()[:3] == [
        (2.5, "SettleAudio"),
        (2.9, "limit", "turn_1", "max_turn_duration"),
        (2.9, "commit", "turn_1", "and so on"),
    ]


def test_noise_that_lasts_is_no_turn() -> None:
    talk = limited(max_turn_duration=2.0).starts(0.5).until(9.0)
    assert talk.take() == [(2.5, "SettleAudio"), (3.5, "drop", "turn_1", "transcript_missing")]


def test_the_caller_who_talks_on_is_answered_and_then_answered_again() -> None:
    talk = limited(max_turn_words=3).starts(0.5).at(1.0, i.UserFinal(text="one two three four"))
    talk.at(1.3, i.UserInterim(text="five")).at(1.5, i.UserFinal(text="five")).plays(2.0)
    talk.at(2.5, i.UserInterim(text="six")).at(2.8, i.UserFinal(text="six")).stops(3.5).until(4.8).played(5.0)
    assert talk.take() == [
        (1.0, "limit", "turn_1", "max_turn_words"),
        (1.0, "commit", "turn_1", "one two three four"),
        (1.0, "grant", "answer_1"),
        (5.0, "commit", "turn_2", "five six"),
        (5.0, "grant", "answer_2"),
    ]


def test_who_talks_on_beyond_the_answer_is_heard_out() -> None:
    talk = limited(max_turn_words=3).starts(0.5).at(1.0, i.UserFinal(text="one two three four")).plays(1.5)
    talk.at(2.0, i.UserFinal(text="five")).played(3.0).stops(4.0).until(6.0)
    assert talk.take()[3:] == [(4.4, "commit", "turn_2", "five"), (4.4, "grant", "answer_2")]


def test_an_interim_that_no_final_settles_waits_for_the_end_of_the_answer_too() -> None:
    talk = limited(max_turn_words=3).starts(0.5).at(1.0, i.UserFinal(text="one two three four")).plays(1.5)
    talk.at(2.0, i.UserInterim(text="five")).stops(2.1).until(4.9).played(5.0)
    assert talk.take()[3:] == [(5.0, "commit", "turn_2", "five"), (5.0, "grant", "answer_2")]


def test_words_said_before_the_answer_is_heard_do_not_take_it_back_and_later_ones_cut_it() -> None:
    talk = limited(max_turn_words=3).says("one two three four", 0.5, 1.0).says("five", 1.3, 1.5).plays(2.0).until(3.0)
    assert talk.take()[3:] == []
    talk.says("wait stop", 3.0, 3.8).until(5.0)
    assert talk.take() == [
        (3.5, "pause", "answer_1"),
        (4.0, "interrupted", "answer_1"),
        (4.2, "commit", "turn_2", "five wait stop"),
        (4.2, "grant", "answer_2"),
    ]


def test_a_backchannel_over_the_answer_does_not_bring_up_what_was_said_before() -> None:
    talk = limited(max_turn_words=3).says("one two three four", 0.5, 1.0).says("five", 1.3, 1.5).plays(2.0)
    talk.says("okay", 3.0, 3.8).until(6.0)
    assert talk.take()[3:] == [(3.5, "pause", "answer_1"), (4.0, "resume", "answer_1", "false interruption")]
    assert talk.played(7.0).take() == [(7.0, "commit", "turn_2", "five okay"), (7.0, "grant", "answer_2")]


def test_a_long_noise_over_the_answer_does_not_bring_up_what_was_said_before() -> None:
    talk = limited(max_turn_words=3, max_pause=2.0).says("one two three four", 0.5, 1.0).says("five", 1.3, 1.5)
    talk.plays(2.0).starts(3.0).until(6.0)
    assert talk.take()[3:] == [(3.5, "pause", "answer_1"), (5.0, "resume", "answer_1", "false interruption")]


def test_typed_text_takes_the_floor_from_an_owed_answer() -> None:
    talk = limited(max_turn_words=3).says("one two three four", 0.5, 1.0).at(1.3, i.TextReceived("stop"))
    assert talk.take()[3:] == [
        (1.3, "cancelled", "answer_1"),
        (1.3, "commit", "turn_2", "stop"),
        (1.3, "grant", "answer_2"),
    ]


def test_a_limit_reached_over_a_protected_speech_ends_the_turn_when_that_is_over() -> None:
    talk = limited(max_turn_words=3).speaking(interruptible=False).starts(2.0)
    talk.at(3.0, i.UserFinal(text="one two three four")).played(5.0)
    assert talk.take()[:2] == [
        (5.0, "limit", "turn_1", "max_turn_words"),
        (5.0, "commit", "turn_1", "one two three four"),
    ]


@pytest.mark.parametrize("options", [{"max_turn_words": 0}, {"max_turn_duration": 0.0}, {"mode": "patient"}])
def test_limits_and_modes_that_make_no_sense_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        EndpointingOptions(**options)  # type: ignore[arg-type]


def test_a_limit_of_one_word_is_one() -> None:
    talk = limited(max_turn_words=1).starts(0.5).at(1.0, i.UserFinal(text="one"))
    assert [entry[1] for entry in talk.take()] == []
    talk.at(1.1, i.UserFinal(text="two"))
    assert (1.1, "limit", "turn_1", "max_turn_words") in talk.take()


@pytest.mark.parametrize("later", [i.UserFinal(text="five six"), i.UserInterim(text="five six")])
def test_without_a_vad_an_utterance_whose_first_interim_came_before_the_answer_was_heard_does_not_cut_it(
    later: i.UserFinal | i.UserInterim,
) -> None:
    talk = limited(max_turn_words=3).at(1.0, i.UserFinal(text="one two three four")).at(1.8, i.UserInterim(text="five"))
    talk.plays(2.0).at(2.3, later).until(4.0)
    assert talk.take()[3:] == []
    assert talk.played(5.0).take()[0] == (5.0, "commit", "turn_2", "five six")


def test_without_a_vad_the_next_utterance_cuts_the_answer() -> None:
    talk = limited(max_turn_words=3).at(1.0, i.UserFinal(text="one two three four")).at(1.8, i.UserInterim(text="five"))
    talk.plays(2.0).at(2.3, i.UserFinal(text="five")).at(3.0, i.UserInterim(text="stop")).until(4.0)
    assert talk.take()[3] == (3.2, "interrupted", "answer_1")


def test_a_short_word_after_those_that_wait_for_the_answers_end_cuts_it_at_its_turns_end() -> None:
    talk = limited(max_turn_words=3).says("one two three four", 0.5, 1.0).says("five", 1.3, 1.5).plays(2.0)
    talk.says("stop", 3.0, 3.3).until(5.0)
    assert talk.take()[3:6] == [
        (3.5, "pause", "answer_1"),
        (3.7, "interrupted", "answer_1"),
        (3.7, "commit", "turn_2", "five stop"),
    ]


def test_words_of_scripts_without_spaces_are_counted_too() -> None:
    talk = limited(max_turn_words=4).starts(0.5).at(1.0, i.UserInterim(text="我想订一张桌子"))
    assert talk.take() == []
    assert talk.at(1.2, i.UserInterim(text="我想订一张桌子，明天")).take()[0] == (
        1.2,
        "limit",
        "turn_1",
        "max_turn_words",
    )
    limit = next(effect for effect in talk.effects if isinstance(effect, fx.UserTurnLimitReached))
    assert limit.words == 5


def test_an_owed_answer_is_kept_when_words_cut_the_speech_that_it_waits_for() -> None:
    talk = limited(max_turn_words=3).starts(0.5).asks(0.8, "timer").at(1.5, i.UserInterim(text="one two three four"))
    talk.plays(1.8).at(2.0, i.UserFinal(text="one two three four")).at(2.8, i.UserInterim(text="five")).until(3.1)
    assert [entry[1:] for entry in talk.take()][-2:] == [("interrupted", "timer"), ("grant", "answer_1")]
    talk.at(3.2, i.UserFinal(text="five")).stops(3.3).until(4.0).plays(4.1).played(5.0)
    assert talk.take()[-2:] == [(5.0, "commit", "turn_2", "five"), (5.0, "grant", "answer_2")]


def test_typed_words_drop_an_owed_answer_that_waits() -> None:
    talk = limited(max_turn_words=3).starts(0.5).asks(0.8, "timer").at(1.5, i.UserInterim(text="one two three four"))
    talk.plays(1.8).at(2.0, i.UserFinal(text="one two three four")).take()
    talk.at(2.8, i.TextReceived("stop it"))
    assert (2.8, "cancelled", "answer_1") in talk.take()

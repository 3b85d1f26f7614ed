"""The delay that ends a turn, learned from the caller's own pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions
from vivavoce.agents.turn.user.learned_delay import FALL, MARGIN, REACTION, LearnedDelay


def dynamic(**options: Any) -> Conversation:
    return Conversation(endpointing_mode="dynamic", **options)


def delay(talk: Conversation, start: float = 100.0) -> float:
    """Let the caller say something without a pause, have it answered, and return the silence that ended it."""
    talk.says("and so", start, start + 1.0).until(start + 5.0)
    commit = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)][-1]
    assert commit.timing.ended_by == "pause"
    assert commit.timing.delay is not None
    assert commit.timing.committed_at - (start + 1.0) == pytest.approx(commit.timing.delay)
    return round(commit.timing.delay, 6)


def test_fixed_endpointing_learns_nothing() -> None:
    talk = Conversation().says("a table", 0.5, 1.0).says("for two", 1.38, 2.0).until(3.0).plays(3.0).played(4.0)
    assert delay(talk) == 0.4


def test_it_begins_at_min_delay() -> None:
    assert delay(dynamic()) == 0.4


def test_a_pause_within_a_turn_that_it_does_not_allow_for_raises_it_half_of_the_way() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).says("for two", 1.3, 2.0).until(3.0).plays(3.0).played(4.0)
    assert delay(talk) == 0.425  # 0.3 + 0.15 are wanted


def test_words_that_go_on_with_an_unheard_answer_are_a_pause_within_the_turn() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).says("for two", 1.8, 2.4).until(4.0).plays(4.0).played(5.0)
    assert [entry[1] for entry in talk.take() if entry[1] in ("commit", "merge")] == ["commit", "merge"]
    assert delay(talk) == 0.675  # 0.8 + 0.15 are wanted


def test_words_that_begin_too_soon_to_be_a_reaction_to_the_answer_are_a_pause_within_the_turn() -> None:
    for onset, learned in ((1.9, 0.725), (2.0, 0.39)):
        talk = dynamic().says("a table", 0.5, 1.0).plays(1.7).starts(onset).stops(3.0)
        talk.at(3.2, i.UserFinal(text="for two")).until(4.0).plays(4.2).played(5.0)
        assert delay(talk) == pytest.approx(learned)


def test_words_that_begin_a_reaction_after_the_first_sound_of_the_answer_are_no_pause_within_the_turn() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).plays(1.75).starts(1.75 + REACTION).stops(3.0)
    talk.at(3.2, i.UserFinal(text="for two")).until(4.0).plays(4.2).played(5.0)
    assert delay(talk) == pytest.approx(0.39)


def test_what_is_said_over_a_speech_that_was_not_an_answer_teaches_nothing() -> None:
    talk = dynamic().speaking().starts(1.1).stops(2.0).at(2.2, i.UserFinal(text="hello there")).until(3.0)
    talk.plays(3.5).played(4.0)
    assert [delay(talk), delay(talk.plays(108.0).played(109.0), 110.0)] == [0.4, 0.39]  # they went without a pause


def test_noise_teaches_nothing() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).starts(1.35).stops(1.5).at(1.7, i.UserFinal(text="")).until(3.0)
    assert delay(talk.plays(3.0).played(4.0)) == 0.4


def test_turns_without_a_pause_lower_it_slowly_and_not_below_its_bound() -> None:
    talk = dynamic()
    delays = []
    for number in range(60):
        delays.append(delay(talk, 10.0 * number + 1.0))
        talk.plays(talk.now + 0.5).played(talk.now + 0.5)
    assert delays[:4] == [0.4, 0.4, 0.39, 0.381]
    assert delays == sorted(delays, reverse=True)
    assert 0.3 <= delays[-1] < 0.301


def test_one_long_pause_counts_no_more_than_the_upper_bound() -> None:
    talk = dynamic(learned=(0.3, 1.0)).says("a table", 0.5, 1.0).starts(1.3).stops(1.6)
    talk.at(1.8, i.UserFinal(text="for")).says("two", 3.9, 4.4).until(6.0).plays(6.0).played(7.0)
    # 0.3 + 0.15, then 2.3 + 0.15, of which 1.0 counts
    assert 0.7 < delay(talk) < 0.72


def test_a_short_pause_within_a_turn_lowers_it_a_little() -> None:
    talk = dynamic(min_delay=0.9, learned=(0.3, 1.2)).says("a table", 0.5, 1.0).says("for two", 1.3, 2.0)
    assert delay(talk.until(4.0).plays(4.0).played(5.0)) == pytest.approx(0.9 - 0.1 * 0.45)


def test_a_pause_that_the_detector_judged_incomplete_teaches_nothing() -> None:
    talk = dynamic(detector_timeout=0.1).says("I would like", 0.5, 1.0).at(1.25, i.UserTurnPredicted(False))
    talk.says("a table", 2.5, 3.0).until(5.0).plays(5.0).played(6.0)
    assert delay(talk) == 0.4


def test_without_a_vad_it_stays_where_it_is() -> None:
    talk = dynamic()
    for at in (1.0, 3.0):
        talk.at(at, i.UserFinal(text="hello")).until(at + 1.0).plays(at + 1.0).played(at + 1.5)
    assert delay(talk) == 0.4


def test_an_interim_is_words_too_if_it_is_of_the_new_speech() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).starts(1.3).at(1.6, i.UserInterim(text="for")).stops(2.0)
    talk.at(2.2, i.UserFinal(text="for two")).until(3.0).plays(3.0).played(4.0)
    assert delay(talk) == 0.425
    talk = dynamic().starts(0.5).stops(1.0).starts(1.35).at(1.5, i.UserInterim(text="a table")).stops(1.6)
    talk.at(1.9, i.UserFinal(text="")).until(4.0)  # all that came may have been of the first speech
    assert delay(talk) == 0.4


@pytest.mark.parametrize(
    ("ended_by", "act"),
    [
        ("pause", lambda talk: talk.says("hello", 0.5, 1.0)),
        ("transcript_timeout", lambda talk: talk.starts(0.5).at(0.9, i.UserInterim(text="hello")).stops(1.0)),
        ("recogniser", lambda talk: talk.says("hello", 0.5, 1.0).at(1.3, i.UserTurnEnded())),
        ("request", lambda talk: talk.says("hello", 0.5, 1.0).at(1.3, i.TurnCommitRequested())),
        ("text", lambda talk: talk.at(1.3, i.TextReceived("hello"))),
        ("text", lambda talk: talk.says("hello", 0.5, 1.0).at(1.3, i.TextReceived("there"))),
        ("remote_reply", lambda talk: talk.says("hello", 0.5, 1.0).at(1.3, i.RemoteReplyStarted("r"))),
        ("close", lambda talk: talk.says("hello", 0.5, 1.0).at(1.3, i.SessionClosing())),
    ],
)
def test_a_commit_says_what_ended_the_turn_and_after_which_silence(
    ended_by: str, act: Callable[[Conversation], Conversation]
) -> None:
    talk = act(Conversation()).until(5.0)
    (commit,) = (effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn))
    assert commit.timing.ended_by == ended_by
    assert commit.timing.delay == {"pause": 0.4, "transcript_timeout": 1.0}.get(ended_by)


@pytest.mark.parametrize(
    "options",
    [
        {"learned": (0.5, 0.3)},
        {"learned": (-0.1, 0.3)},
        {"mode": "dynamic", "min_delay": 0.2},
        {"mode": "dynamic", "min_delay": 1.5},
        {"mode": "dynamic", "max_delay": 1.0},
    ],
)
def test_bounds_that_do_not_fit_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="learned"):
        EndpointingOptions(**options)  # type: ignore[arg-type]
    EndpointingOptions(min_delay=1.5)  # with a fixed delay the bounds do not matter


def test_what_goes_on_after_a_request_to_answer_teaches_nothing() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).at(1.3, i.TurnCommitRequested()).says("for two", 1.8, 2.4)
    talk.until(4.0).plays(4.0).played(5.0)
    assert [entry[1] for entry in talk.take() if entry[1] in ("commit", "merge")] == ["commit", "merge"]
    assert delay(talk) == 0.4


def learner() -> LearnedDelay:
    return LearnedDelay(EndpointingOptions(mode="dynamic"))


def test_sounds_that_overlap_are_a_pause_of_no_time() -> None:
    endpointing = learner()
    endpointing.speech_began(1.0, since=1.2)
    endpointing.words_came()
    assert endpointing.min_delay == pytest.approx(0.4 + FALL * (MARGIN - 0.4))


def test_a_turn_with_a_pause_within_it_is_none_that_went_without() -> None:
    endpointing = learner()
    endpointing.speech_began(1.0, since=0.5)
    endpointing.words_came()
    learned = endpointing.min_delay
    endpointing.turn_ended(2.0)
    endpointing.turn_ended(None)
    assert endpointing.min_delay == learned > 0.4


def test_what_is_said_at_the_first_sound_of_a_speech_that_was_no_answer_is_no_pause_within_the_turn() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).plays(1.6).played(1.8).asks(2.0, "talk").plays(2.0)
    talk.starts(2.1).stops(2.9).at(3.1, i.UserFinal(text="hello there")).until(4.0).plays(4.2).played(5.0)
    assert delay(talk) == pytest.approx(0.39)


def test_words_that_stay_a_guess_show_that_the_pause_before_them_was_one() -> None:
    talk = dynamic().says("a table", 0.5, 1.0).starts(1.3).at(1.6, i.UserInterim(text="for two")).stops(2.0)
    talk.until(4.0).plays(4.0).played(5.0)
    assert delay(talk) == 0.425


def test_a_turn_that_a_limit_ended_is_none_that_went_without_a_pause() -> None:
    talk = dynamic(max_turn_words=2).says("one two three", 0.5, 1.0).until(2.0).plays(2.0).played(3.0)
    assert [delay(talk), delay(talk.plays(108.0).played(109.0), 110.0)] == [0.4, 0.4]

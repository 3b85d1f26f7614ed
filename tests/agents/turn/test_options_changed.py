"""An agent with turn-taking of its own: from its input on the machine decides by its options, open turns included."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.agents.turn.policy import Decision, InterruptionMoment


def changes(talk: Conversation, at: float, **options: Any) -> Conversation:
    """Another agent has the conversation from `at` on; its options have these fields, else their defaults."""
    endpointing = {name: options.pop(name) for name in list(options) if name in EndpointingOptions.__dataclass_fields__}
    if (mode := options.pop("endpointing_mode", None)) is not None:
        endpointing["mode"] = mode
    if (mode := options.pop("interruption_mode", None)) is not None:
        options["mode"] = mode
    return talk.at(
        at,
        i.TurnOptionsChanged(
            endpointing=EndpointingOptions(**endpointing), interruption=InterruptionOptions(**options)
        ),
    )


def commits(talk: Conversation) -> list[tuple[Any, ...]]:
    return [entry for entry in talk.take() if entry[1] in ("commit", "merge")]


# --- the end of a turn


def test_a_pause_that_goes_on_ends_the_turn_after_the_new_delay() -> None:
    talk = Conversation().says("a table", 1.0, 2.0)
    assert commits(changes(talk, 2.3, min_delay=1.0).until(5.0)) == [(3.0, "commit", "turn_1", "a table")]


def test_a_pause_that_is_long_enough_by_the_new_options_ends_the_turn_at_once() -> None:
    talk = Conversation(min_delay=1.0).says("a table", 1.0, 2.0)
    assert commits(changes(talk, 2.7, min_delay=0.4)) == [(2.7, "commit", "turn_1", "a table")]


def test_each_agent_s_delay_holds_in_its_own_time() -> None:
    talk = changes(changes(Conversation(), 1.0, min_delay=1.0), 10.0)
    talk.says("one", 2.0, 3.0).until(5.0).plays(5.0).played(6.0).says("two", 12.0, 13.0).until(15.0)
    talk.plays(15.0).played(16.0)
    changes(talk, 17.0, min_delay=0.8).says("three", 18.0, 19.0).until(21.0)
    assert [entry[0] for entry in commits(talk)] == [3.4, 13.4, 19.8]


def test_a_limit_of_the_new_agent_holds_for_the_open_turn() -> None:
    talk = Conversation().starts(1.0).at(2.0, i.UserFinal(text="one two three"))
    assert changes(talk, 2.5, max_turn_words=2).take()[:1] == [(2.5, "limit", "turn_1", "max_turn_words")]


def test_a_final_is_waited_for_as_long_as_the_new_agent_says() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello")).stops(2.0)
    assert commits(changes(talk, 2.3, transcript_timeout=2.0).until(6.0)) == [(4.0, "commit", "turn_1", "hello")]


def test_the_last_words_are_waited_for_as_long_as_the_agent_of_the_close_says() -> None:
    talk = changes(Conversation(), 0.5, transcript_timeout=2.0).starts(1.0).stops(2.0).at(2.3, i.SessionClosing(True))
    assert talk.until(4.2).take() == [(2.3, "SettleAudio")]
    assert talk.until(4.4).take() == [(4.3, "drop", "turn_1", "closed"), (4.3, "HeardOut")]


# --- push-to-talk


def test_words_that_wait_for_a_button_are_answered_when_an_agent_without_one_comes() -> None:
    talk = Conversation(endpointing_mode="manual").says("a table", 1.0, 2.0).until(9.0)
    assert commits(talk) == []
    assert commits(changes(talk, 9.0)) == [(9.0, "commit", "turn_1", "a table")]


def test_a_turn_that_began_without_a_button_needs_none() -> None:
    talk = changes(Conversation().starts(1.0), 1.5, endpointing_mode="manual").stops(2.0)
    talk.at(2.2, i.UserFinal(text="a table")).until(3.0)
    assert commits(talk) == [(2.4, "commit", "turn_1", "a table")]
    talk.plays(3.0).played(4.0).says("for two", 5.0, 6.0).until(20.0)
    assert commits(talk) == []
    assert commits(talk.at(20.0, i.TurnCommitRequested())) == [(20.0, "commit", "turn_2", "for two")]


def test_the_recogniser_may_end_a_turn_that_began_without_a_button() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserFinal(text="a table"))
    changes(talk, 1.6, endpointing_mode="manual").at(1.7, i.UserTurnEnded())
    assert commits(talk) == [(1.7, "commit", "turn_1", "a table")]


# --- the learned delay belongs to the caller


def learned(**options: Any) -> Conversation:
    """A caller with a pause of 0.3 s, whose delay is 0.425 s by now."""
    talk = Conversation(endpointing_mode="dynamic", **options)
    talk.says("a table", 0.5, 1.0).says("for two", 1.3, 2.0).until(3.0).plays(3.0).played(4.0)
    talk.take()
    return talk


def delay(talk: Conversation, start: float) -> float:
    talk.says("and so", start, start + 1.0).until(start + 5.0)
    commit = [effect for effect in talk.effects if isinstance(effect, fx.CommitUserTurn)][-1]
    assert commit.timing.delay is not None
    return round(commit.timing.delay, 6)


def test_an_agent_that_learns_goes_on_from_the_delay_that_was_learned() -> None:
    assert delay(changes(learned(), 5.0, endpointing_mode="dynamic"), 6.0) == 0.425


def test_the_learned_delay_is_kept_for_the_time_after_an_agent_whose_delay_is_fixed() -> None:
    talk = changes(learned(), 5.0, min_delay=0.7)
    assert delay(talk, 6.0) == 0.7
    talk.plays(11.0).played(12.0)
    assert delay(changes(talk, 13.0, endpointing_mode="dynamic"), 14.0) == 0.425


@pytest.mark.parametrize(("bounds", "expected"), [((0.5, 1.2), 0.5), ((0.3, 0.41), 0.41)])
def test_the_learned_delay_is_moved_into_the_new_bounds(bounds: tuple[float, float], expected: float) -> None:
    min_delay = max(0.4, bounds[0])
    talk = changes(learned(), 5.0, endpointing_mode="dynamic", learned=bounds, min_delay=min_delay)
    assert delay(talk, 6.0) == expected


def test_an_agent_that_learns_behind_one_whose_delay_was_fixed_begins_at_its_own() -> None:
    assert delay(changes(Conversation(), 1.0, endpointing_mode="dynamic", min_delay=0.6), 2.0) == 0.6


# --- interruption


def test_speech_that_a_voice_holds_goes_on_when_the_new_agent_is_not_to_be_interrupted() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.6)
    assert talk.take() == [(2.5, "pause", "talk")]
    assert changes(talk, 2.7, enabled=False).take() == [(2.7, "resume", "talk", "")]
    assert talk.at(3.0, i.UserFinal(text="hello there")).stops(3.2).until(4.0).take() == []


def test_speech_that_no_voice_may_hold_is_held_by_the_new_agent_s_rule_from_then_on() -> None:
    talk = Conversation(enabled=False).speaking().starts(2.0).until(3.0)
    assert talk.take() == []
    assert changes(talk, 3.0, min_duration=0.5).take() == [(3.0, "pause", "talk")]


def test_a_voice_that_has_just_paused_counts_with_all_its_time_by_the_new_agent_s_rule() -> None:
    talk = Conversation(enabled=False).speaking().starts(2.0).at(2.8, i.UserVoicePaused(2.8))
    assert changes(talk, 2.9).take() == [(2.9, "pause", "talk")]


def test_speech_that_is_held_for_a_caller_who_is_gone_stays_held() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(10.0))
    assert talk.take() == [(2.0, "pause", "talk")]
    assert changes(talk, 3.0, enabled=False).take() == []
    assert talk.at(4.0, i.ParticipantLinked()).take() == [(4.0, "resume", "talk", "")]


def test_the_new_agent_s_backchannels_take_no_floor() -> None:
    talk = changes(Conversation().speaking(), 1.5, backchannels=frozenset({"genau"})).says("genau", 2.0, 2.3)
    assert talk.until(4.0).take() == [(2.7, "aside", "turn_1", "genau")]


class Never:
    """Lets no voice interrupt."""

    def decide(self, moment: InterruptionMoment) -> Decision:
        return "ignore"


def test_the_new_agent_s_policy_decides_and_ends_with_its_time() -> None:
    talk = changes(Conversation().speaking(), 1.5, interruption_mode=Never()).says("stop it please", 2.0, 3.0)
    assert [entry[1] for entry in talk.until(5.0).take()] == ["aside"]
    assert [entry[1] for entry in changes(talk, 5.0).says("stop it please", 6.0, 7.0).until(8.0).take()] == [
        "pause",
        "interrupted",
        "commit",
        "grant",
    ]


# --- the echo warm-up


def test_a_longer_warm_up_counts_from_the_first_sound_of_all() -> None:
    talk = changes(Conversation().speaking(), 2.0, echo_warm_up=3.0).starts(2.5).until(5.0)
    assert talk.take() == [(4.5, "pause", "talk")]


def test_a_warm_up_that_has_passed_by_the_new_options_ends_at_once() -> None:
    talk = Conversation(echo_warm_up=10.0).speaking().says("hello", 1.5, 2.0).starts(3.0)
    assert talk.until(4.5).take() == []
    assert changes(talk, 4.5, echo_warm_up=3.0).until(5.0).take() == [(4.5, "pause", "talk")]


def test_a_warm_up_that_would_be_over_does_not_begin() -> None:
    talk = changes(Conversation().speaking(), 6.0, echo_warm_up=3.0).starts(6.5).until(7.5)
    assert talk.take() == [(7.0, "pause", "talk")]


def test_a_warm_up_that_is_asked_for_before_any_sound_begins_with_the_first() -> None:
    talk = changes(Conversation(), 0.2, echo_warm_up=3.0).speaking().starts(2.0).until(5.0)
    assert talk.take() == [(4.5, "pause", "talk")]


# --- from start to close


def test_options_may_change_before_the_session_starts_and_not_while_it_closes() -> None:
    talk = changes(Conversation(is_started=False), 0.0, min_delay=1.0).at(0.1, i.SessionStarting(), i.SessionStarted())
    assert commits(talk.says("a table", 1.0, 2.0).until(4.0)) == [(3.0, "commit", "turn_1", "a table")]
    talk.plays(4.0).played(4.5).starts(5.0).at(5.5, i.UserInterim(text="bye")).at(6.0, i.SessionClosing(hears_out=True))
    changes(talk, 6.1, transcript_timeout=0.1, echo_warm_up=3.0)
    assert commits(talk.until(6.9)) == []
    assert commits(talk.until(7.0)) == [(7.0, "commit", "turn_2", "bye")]

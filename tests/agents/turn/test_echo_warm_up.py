"""The first seconds of the agent's voice, while the client's echo canceller converges."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import InterruptionOptions


def warming(**options: object) -> Conversation:
    """The agent speaks from 1.0 on, so that the warm-up lasts until 4.0."""
    return Conversation(echo_warm_up=3.0, **options).speaking()  # type: ignore[arg-type]


def test_a_voice_does_not_touch_the_agent_and_its_words_are_answered_afterwards() -> None:
    talk = warming().says("hello there", 1.5, 2.5).until(7.9)
    assert talk.take() == []
    assert talk.played(8.0).take() == [(8.0, "commit", "turn_1", "hello there"), (8.0, "grant", "answer_1")]


def test_a_final_that_comes_when_it_is_over_is_still_of_then() -> None:
    talk = warming().starts(3.0).at(3.4, i.UserInterim(text="hello")).stops(3.7).at(4.2, i.UserFinal(text="hello you"))
    assert talk.until(7.9).take() == []
    assert talk.played(8.0).take()[0] == (8.0, "commit", "turn_1", "hello you")


def test_an_interim_of_then_takes_no_floor_when_it_is_over() -> None:
    talk = warming().starts(3.0).at(3.8, i.UserInterim(text="hello")).stops(3.7).until(7.9)
    assert talk.take() == []
    assert talk.played(8.0).take()[0] == (8.0, "commit", "turn_1", "hello")


def test_speech_that_ends_when_the_warm_up_ends_does_not_touch_the_agent() -> None:
    talk = warming().says("hello there", 3.0, 4.0).until(7.9)
    assert talk.take() == []
    assert talk.played(8.0).take()[0] == (8.0, "commit", "turn_1", "hello there")


def test_in_push_to_talk_words_of_the_warm_up_do_not_cut_the_next_speech_with_a_sign_of_listening_after_it() -> None:
    talk = warming(endpointing_mode="manual").asks(1.2, "next").says("hello there", 1.5, 2.0).played(2.5).plays(2.7)
    talk.says("okay", 4.5, 5.2).until(7.9)
    assert talk.take() == [
        (2.5, "grant", "next"),
        (5.0, "pause", "next"),
        (5.4, "resume", "next", "false interruption"),
    ]


def test_speech_that_goes_on_counts_from_the_end_of_it_on() -> None:
    talk = warming().starts(3.0).at(3.5, i.UserFinal(text="hello")).at(4.8, i.UserFinal(text="wait stop")).stops(5.0)
    assert talk.until(6.0).take() == [
        (4.5, "pause", "talk"),
        (4.8, "interrupted", "talk"),
        (5.4, "commit", "turn_1", "hello wait stop"),
        (5.4, "grant", "answer_1"),
    ]


def test_words_after_it_cut_the_agent_with_those_of_then() -> None:
    talk = warming().says("hello", 1.5, 2.0).says("wait stop", 5.0, 5.8).until(7.0)
    assert talk.take()[-2:] == [(6.2, "commit", "turn_1", "hello wait stop"), (6.2, "grant", "answer_1")]


def test_words_said_before_the_agents_first_sound_are_no_echo() -> None:
    talk = Conversation(echo_warm_up=3.0).says("hello", 0.2, 0.6).asks(0.85, "talk").until(1.2).plays(1.2)
    assert [entry[1:3] for entry in talk.take()] == [
        ("commit", "turn_1"),
        ("grant", "talk"),
        ("prepare", "answer_1"),
    ]


def test_it_comes_once_a_session_and_is_no_matter_of_later_speeches() -> None:
    talk = warming().played(3.0).asks(9.0, "more").plays(9.5).starts(10.0).until(11.0)
    assert talk.take() == [(9.0, "grant", "more"), (10.5, "pause", "more")]


def test_a_speech_within_it_that_does_not_sound_yet_is_taken_back_as_ever() -> None:
    talk = warming().played(1.5).says("a table", 1.6, 1.9).says("for two", 2.5, 2.9).until(3.5)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant", "pause", "withdraw", "merge", "grant"]


def test_without_a_vad_the_words_arrival_tells() -> None:
    talk = warming().at(3.9, i.UserFinal(text="hello")).at(5.0, i.UserFinal(text="stop"))
    assert talk.take() == [(5.0, "interrupted", "talk")]


def test_a_speech_that_was_held_when_it_began_to_sound_can_be_let_go_on_or_cut() -> None:
    talk = Conversation(echo_warm_up=3.0).asks(0.5, "r", "reply").starts(0.6).plays(0.9).stops(1.0).until(3.0)
    assert talk.take() == [
        (0.5, "grant", "r"),
        (0.65, "pause", "r"),
        (1.2, "resume", "r", "false interruption"),
        (2.0, "drop", "turn_1", "transcript_missing"),
    ]


def test_interrupt_and_typed_text_cut_the_agent_as_ever() -> None:
    assert warming().at(2.0, i.InterruptRequested()).take() == [(2.0, "interrupted", "talk")]
    assert warming().at(2.0, i.TextReceived("stop")).take()[0] == (2.0, "interrupted", "talk")


def test_a_remote_models_answer_to_what_it_heard_is_refused() -> None:
    talk = warming(remote_decides=True).at(2.0, i.RemoteReplyStarted("r"))
    assert talk.take() == [(2.0, "refuse", "r")]


def test_closing_ends_it_and_a_farewell_begins_none() -> None:
    talk = warming().at(2.0, i.SessionClosing())
    assert talk.machine.next_deadline() is None
    talk = Conversation(echo_warm_up=3.0).at(1.0, i.SessionClosing()).asks(1.0, "bye").plays(1.5)
    assert talk.machine.next_deadline() is None


def test_a_negative_one_is_refused() -> None:
    with pytest.raises(ValueError, match="echo_warm_up"):
        InterruptionOptions(echo_warm_up=-1.0)


def test_the_silence_that_follows_it_counts_from_the_speechs_end() -> None:
    talk = Conversation(echo_warm_up=3.0, away_after=1.0).at(0.0, i.ParticipantLinked()).speaking().played(1.5)
    talk.until(9.0)
    assert talk.user_states[-1] == ("away", 2.5)


def test_a_speech_that_was_cut_before_it_sounded_begins_none() -> None:
    talk = Conversation(echo_warm_up=3.0).asks(0.5, "one").at(1.0, i.InterruptRequested()).plays(1.1, "one")
    talk.at(1.2, i.SpeechEnded("one", "cancelled")).asks(5.0, "two").plays(5.0).take()
    assert talk.says("wait stop", 5.5, 6.3).until(7.5).take() == []


def preamble(**options: object) -> Conversation:
    """Words of 0.3 over a preamble that nothing may cut; it ends at 2.5, and its tool runs on."""
    talk = Conversation(**options).says("a table", 0.5, 1.0).plays(1.7).at(1.8, i.ToolsStarted("answer_1"))  # type: ignore[arg-type]
    talk.log.clear()
    return talk


def test_words_over_a_preamble_whose_tool_runs_on_are_a_turn_when_it_has_been_heard() -> None:
    talk = preamble(echo_warm_up=3.0).says("for two", 2.0, 2.3)
    talk.played(2.5, is_last=False).at(2.5, i.ToolsAwaited("answer_1")).until(6.0)
    assert talk.take() == [
        (2.7, "interrupt calls", "answer_1"),
        (2.7, "commit", "turn_2", "for two"),
        (2.7, "grant", "answer_2"),
    ]


def test_a_sign_of_listening_over_a_preamble_whose_tool_runs_on_is_answered_by_nobody() -> None:
    talk = preamble(echo_warm_up=3.0).says("okay", 2.0, 2.3)
    talk.played(2.5, is_last=False).at(2.5, i.ToolsAwaited("answer_1")).until(6.0)
    assert talk.take() == [(2.7, "aside", "turn_2", "okay")]


def test_a_sign_of_listening_behind_words_that_wait_is_answered_with_them() -> None:
    talk = preamble(echo_warm_up=1.0).says("for two", 1.9, 2.1)
    talk.says("okay", 2.9, 3.1).played(4.0, is_last=False).at(4.0, i.ToolsAwaited("answer_1")).until(6.0)
    assert talk.take()[1:] == [(4.0, "commit", "turn_2", "for two okay"), (4.0, "grant", "answer_2")]


def test_words_over_an_owed_preamble_whose_tool_runs_on_are_a_turn_when_it_has_been_heard() -> None:
    talk = Conversation(max_turn_words=2).starts(0.5).at(1.0, i.UserInterim(text="one two three"))
    talk.at(1.2, i.UserFinal(text="one two three")).plays(1.5).at(1.6, i.ToolsStarted("answer_1"))
    talk.at(1.9, i.UserFinal(text="for")).stops(2.0).take()
    talk.played(2.5, is_last=False).at(2.5, i.ToolsAwaited("answer_1")).until(6.0)
    assert talk.take()[1:] == [(2.5, "commit", "turn_2", "for"), (2.5, "grant", "answer_2")]

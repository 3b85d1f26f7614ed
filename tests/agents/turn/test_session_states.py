"""From start to close: states, their times, the participant's absence, and refusals."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, PipelineTraits, TurnOptions
from vivavoce.agents.turn.policy import InterruptionMoment
from vivavoce.agents.turn.user.late_finals import Guess
from vivavoce.agents.turn.user.turn import ClosedTurn, UserTurn


def test_a_session_starts_and_closes() -> None:
    talk = Conversation(is_started=False).at(0.0, i.SessionStarting()).at(1.0, i.SessionStarted())
    talk.at(2.0, i.SessionClosing()).at(3.0, i.SessionClosed())
    assert talk.agent_states == [("starting", 0.0), ("idle", 1.0), ("closing", 2.0), ("closed", 3.0)]


def test_the_machine_tells_who_does_what_now() -> None:
    talk = Conversation().speaking().starts(2.0)
    machine = talk.machine
    assert (machine.agent_state, machine.user_state) == (AgentState.SPEAKING, UserState.SPEAKING)
    assert (machine.current_speech_id, machine.open_turn_id) == ("talk", "turn_1")


def test_a_greeting_during_start_leaves_starting_for_good() -> None:
    talk = Conversation(is_started=False).at(0.0, i.SessionStarting()).asks(0.1, "hello").plays(0.5).played(1.5)
    talk.at(2.0, i.SessionStarted())
    assert talk.agent_states == [("starting", 0.0), ("speaking", 0.5), ("idle", 1.5)]


def test_a_user_who_speaks_during_start_is_heard() -> None:
    talk = Conversation(is_started=False).at(0.0, i.SessionStarting()).says("hello", 0.5, 1.0).until(2.0)
    assert talk.take()[0] == (1.4, "commit", "turn_1", "hello")


def test_the_turns_of_a_conversation_that_goes_on_are_numbered_from_there() -> None:
    talk = Conversation(is_started=False).at(0.0, i.SessionStarting(turns_before=7), i.SessionStarted())
    assert talk.machine.turns == 7
    talk.says("hello", 0.5, 1.0).until(2.0)
    assert talk.take()[0] == (1.4, "commit", "turn_8", "hello")
    assert talk.machine.turns == 8


def test_before_the_start_nothing_is_heard_and_nothing_is_said() -> None:
    talk = Conversation(is_started=False).starts(0.5).asks(1.0, "early").at(1.0, i.SessionStarted())
    assert talk.take() == [(1.0, "discarded", "early")]
    assert talk.agent_states == []


def test_states_never_run_backwards_in_time() -> None:
    talk = Conversation().speaking().played(2.0).starts(1.98)
    assert talk.agent_states[-2:] == [("idle", 2.0), ("listening", 2.0)]
    talk = Conversation().at(0.0, i.UserSpeechStarted(-0.2))
    assert (talk.user_states, talk.agent_states) == ([("speaking", 0.0)], [("listening", 0.0)])


def test_closing_cuts_every_speech_and_keeps_the_users_words() -> None:
    talk = Conversation().speaking(interruptible=False).asks(1.5, "next").says("goodbye", 2.0, 2.5)
    talk.at(2.8, i.SessionClosing())
    assert (
        talk.take()
        == [
            (2.8, "interrupted", "talk"),
            (2.8, "commit", "turn_1", "goodbye"),
            (2.8, "cancelled", "next"),
            (2.8, "cancelled", "answer_1"),
        ]
        or talk.take() == []
    )
    assert talk.machine.next_deadline() is None


def test_closing_drops_noise_and_hears_nothing_more() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.SessionClosing()).at(1.2, i.UserFinal(text="late"))
    talk.at(1.3, i.RemoteReplyStarted("r"))
    assert talk.take() == [(1.0, "drop", "turn_1", "closed"), (1.3, "refuse", "r")]
    assert talk.user_states[-1] == ("idle", 1.0)


def test_while_closing_the_agent_may_say_goodbye_and_after_it_nothing() -> None:
    talk = Conversation().at(1.0, i.SessionClosing()).asks(1.1, "bye").plays(1.3)
    assert talk.take() == [(1.1, "grant", "bye")]
    assert talk.agent_states == [("closing", 1.0)]
    talk.at(1.5, i.SessionClosing()).at(1.6, i.SessionClosed()).asks(1.7, "more")
    assert talk.take() == [(1.5, "interrupted", "bye"), (1.7, "discarded", "more")]
    assert talk.agent_states == [("closing", 1.0), ("closed", 1.6)]


def test_a_session_closed_without_warning_passes_through_closing() -> None:
    talk = Conversation().speaking().at(2.0, i.SessionClosed()).at(2.5, i.SessionClosed(), i.SessionClosing())
    assert talk.take() == [(2.0, "interrupted", "talk")]
    assert talk.agent_states[-2:] == [("closing", 2.0), ("closed", 2.0)]


def test_a_participant_who_stays_away_closes_the_session() -> None:
    talk = Conversation().at(1.0, i.ParticipantLeft(10.0)).until(12.0)
    assert talk.take() == [(11.0, "close", "participant_left")]


def test_a_participant_who_returns_in_time_or_need_not_return_closes_nothing() -> None:
    talk = Conversation().at(1.0, i.ParticipantLeft(10.0)).at(5.0, i.ParticipantLinked()).until(20.0)
    talk.at(21.0, i.ParticipantLeft(None)).until(60.0)
    assert talk.take() == []


def test_a_participant_who_leaves_in_the_middle_of_speech_has_stopped_speaking() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserFinal(text="hello")).at(1.2, i.ParticipantLeft(10.0)).until(3.0)
    assert talk.take()[0] == (1.6, "commit", "turn_1", "hello")
    assert talk.user_states == [("speaking", 0.5), ("idle", 1.2)]


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (EndpointingOptions, "min_delay", -0.1),
        (EndpointingOptions, "max_delay", 0.3),
        (EndpointingOptions, "transcript_timeout", 0.0),
        (InterruptionOptions, "min_duration", -1.0),
        (InterruptionOptions, "min_words", -1),
        (InterruptionOptions, "max_pause", 0.0),
        (TurnOptions, "max_errors", 0),
        (PipelineTraits, "detector_timeout", -1.0),
    ],
)
def test_options_say_what_they_need_and_what_came(kind: type, field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"need .*{field}.*got .*{value}"):
        kind(**{field: value})


def test_what_the_user_and_the_agent_say_is_in_no_repr() -> None:
    turn = UserTurn(
        "turn_1", 0.0, committed=("secret", "secret"), segments=["secret"], interim="secret", typed="secret"
    )
    closed = ClosedTurn("turn_1", "secret", 0.0, None, 1.0, 0)
    speech = Speech("answer_1", "turn", True, 0, 1, 0.0, answers=closed)
    late = Guess("secret", until=1.0)
    moment = InterruptionMoment(
        trigger="words",
        text="secret",
        is_final=True,
        is_stable=True,
        is_backchannel=False,
        speech_seconds=1.0,
        is_speaking=True,
        agent_seconds=1.0,
        is_paused=False,
        default="ignore",
    )
    assert "secret" not in f"{turn!r} {speech!r} {late!r} {moment!r}"


def test_a_speech_is_held_while_the_participant_is_away_and_goes_on_at_its_return() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(10.0)).until(8.0)
    assert talk.take() == [(2.0, "pause", "talk")]
    talk.at(8.0, i.ParticipantLinked(), i.ParticipantLinked()).until(9.0)
    assert talk.take() == [(8.0, "resume", "talk", "")]
    assert talk.agent_states[-1] == ("speaking", 1.0)


def test_a_protected_speech_is_held_too_and_cut_when_the_session_closes() -> None:
    talk = Conversation().speaking(interruptible=False).starts(1.5).at(2.0, i.ParticipantLeft(1.0)).until(3.0)
    assert talk.take() == [
        (2.0, "pause", "talk"),
        (3.0, "drop", "turn_1", "transcript_missing"),
        (3.0, "close", "participant_left"),
    ]
    talk.at(3.0, i.SessionClosing()).asks(3.1, "farewell")
    assert talk.take() == [(3.0, "interrupted", "talk"), (3.1, "discarded", "farewell")]


def test_what_is_granted_while_nobody_is_there_waits_for_the_return() -> None:
    talk = Conversation().at(1.0, i.ParticipantLeft(10.0)).asks(2.0, "news").until(5.0)
    assert talk.take() == [(2.0, "grant", "news"), (2.0, "pause", "news")]
    assert talk.at(5.0, i.ParticipantLinked()).take() == [(5.0, "resume", "news", "")]


def test_sound_that_ends_with_the_leaving_does_not_let_the_agent_go_on() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.5).at(2.6, i.ParticipantLeft(10.0)).until(6.0)
    assert talk.take() == [(2.5, "pause", "talk"), (3.6, "drop", "turn_1", "transcript_missing")]
    assert talk.at(6.0, i.ParticipantLinked()).take() == [(6.0, "resume", "talk", "")]


def test_a_participant_who_speaks_while_coming_back_is_waited_for() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(10.0)).starts(4.0).at(4.1, i.ParticipantLinked())
    assert talk.take() == [(2.0, "pause", "talk")]
    assert talk.stops(5.0).until(7.0).take()[0] == (6.0, "resume", "talk", "false interruption")


def test_a_speech_goes_on_where_the_conversation_goes_on_without_the_participant() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(None)).until(3.0)
    assert talk.take() == []
    talk.at(3.0, i.ParticipantLeft(5.0), i.ParticipantLeft(None)).until(9.0)
    assert talk.take() == [(3.0, "pause", "talk"), (3.0, "resume", "talk", "")]


def test_an_empty_final_while_the_participant_is_away_does_not_let_the_agent_go_on() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.6).at(2.6, i.ParticipantLeft(10.0))
    talk.at(2.8, i.UserFinal(text="")).until(6.0)
    assert talk.take() == [(2.5, "pause", "talk"), (2.8, "drop", "turn_1", "noise")]
    assert talk.at(6.0, i.ParticipantLinked()).take() == [(6.0, "resume", "talk", "")]


def test_no_turn_has_begun_before_the_start() -> None:
    assert Conversation(is_started=False).machine.turns == 0


def test_the_user_is_not_listening_before_the_agent_sounds() -> None:
    talk = Conversation().starts(2.0).asks(2.5, "news", when_busy="interrupt").plays(3.1)
    talk.at(3.2, i.UserSpeechEnded(3.0))
    assert talk.user_states[-2:] == [("speaking", 2.0), ("listening", 3.1)]


def test_no_state_is_dated_ahead_of_a_voice_that_sounds_only_behind_other_audio() -> None:
    talk = Conversation().asks(0.5, "news").at(1.0, i.PlayoutStarted("news", 1.04))
    assert (talk.agent_states[-1], talk.user_states[-1]) == (("speaking", 1.0), ("listening", 1.0))


def test_the_agent_is_not_listening_before_the_user_sounds() -> None:
    talk = Conversation().speaking().at(5.15, i.UserSpeechStarted(5.1))
    talk.at(5.2, i.PlayoutFinished("talk", 5.0, is_last=True), i.SpeechEnded("talk", "completed"))
    assert talk.agent_states[-2:] == [("speaking", 1.0), ("listening", 5.1)]
    assert talk.user_states[-2:] == [("listening", 1.0), ("speaking", 5.1)]

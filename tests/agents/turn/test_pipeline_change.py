"""The takeover by another pipeline: the events before it, and the machine's inputs after it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i

REALTIME: dict[str, Any] = {"remote_decides": True, "hears_audio": True}


def asks(talk: Conversation, at: float, change_id: str = "c", *, within: float = 60.0, **traits: Any) -> Conversation:
    """A new pipeline is ready at `at`, and may take over as soon as no other input is pending."""
    return due(talk.at(at, i.PipelineChangeRequested(change_id=change_id, within=within, **traits)))


def due(talk: Conversation) -> Conversation:
    """Act as the session's loop, when no input is pending."""
    while talk.machine.is_change_due:
        talk.at(talk.now, i.PipelineChangeDue())
    return talk


TAKEN = ("take pipeline", "c")


def test_in_silence_it_takes_over_at_once() -> None:
    assert asks(Conversation(), 1.0).take() == [(1.0, *TAKEN)]


def test_it_may_take_over_before_the_session_has_started() -> None:
    assert asks(Conversation(is_started=False), 0.0).take() == [(0.0, *TAKEN)]


def test_it_waits_for_the_words_and_their_answer_and_goes_before_what_was_asked_for_later() -> None:
    talk = Conversation().starts(1.0)
    asks(talk, 1.2).stops(2.0).at(2.2, i.UserFinal(text="hello there")).asks(2.5, "news").plays(2.9)
    assert talk.take() == [(2.4, "commit", "turn_1", "hello there"), (2.4, "grant", "answer_1")]
    due(talk.played(4.0))
    assert talk.take() == [(4.0, *TAKEN), (4.0, "grant", "news")]


def test_what_was_asked_for_before_it_is_said_before_it() -> None:
    talk = Conversation().speaking().asks(1.2, "goodbye")
    asks(talk, 1.3).asks(1.4, "later")
    talk.played(2.0).plays(2.1)
    assert talk.take() == [(2.0, "grant", "goodbye")]
    assert due(talk.played(3.0)).take() == [(3.0, *TAKEN), (3.0, "grant", "later")]


def test_a_speech_that_was_cut_has_to_be_over() -> None:
    talk = Conversation().speaking().at(1.5, i.InterruptRequested())
    assert asks(talk, 1.6).take() == [(1.5, "interrupted", "talk")]
    assert due(talk.at(1.7, i.SpeechEnded("talk", "interrupted"))).take() == [(1.7, *TAKEN)]


def test_a_speech_that_was_cut_and_does_not_end_holds_it_up_for_a_second() -> None:
    talk = Conversation().speaking().at(1.5, i.InterruptRequested())
    asks(talk, 1.6).asks(1.7, "news").take()
    assert due(talk.until(2.6)).take() == [(2.6, *TAKEN), (2.6, "grant", "news")]


def test_a_speech_that_waits_for_its_tools_goes_on_with_the_new_one() -> None:
    talk = (
        Conversation()
        .asks(0.5, "look up", "reply")
        .at(0.6, i.ToolsStarted("look up"))
        .at(0.7, i.ToolsAwaited("look up"))
    )
    assert asks(talk, 1.0).take() == [(0.5, "grant", "look up"), (1.0, *TAKEN)]
    talk = (
        Conversation()
        .asks(0.5, "look up", "reply")
        .at(0.6, i.ToolsStarted("look up"))
        .at(0.7, i.ToolsAwaited("look up"))
    )
    talk.asks(0.8, "filler").at(0.9, i.ToolsFinished("look up"))
    asks(talk, 1.0).plays(1.1).take()
    assert due(talk.played(2.0)).take() == [(2.0, *TAKEN), (2.0, "grant", "look up")]


def test_a_hook_of_a_handoff_may_wait_for_it_though_others_wait_for_the_handoff() -> None:
    talk = Conversation().at(1.0, i.HandoffRequested("h")).asks(1.1, "news").says("hello there", 1.2, 1.6).until(2.5)
    assert talk.take()[1] == (2.0, "cancelled", "news")
    talk.at(2.5, i.SpeechEnded("news", "cancelled")).asks(2.5, "more news")
    assert asks(talk, 2.6).take() == [(2.6, *TAKEN)]


def test_a_turn_that_a_model_has_heard_itself_is_answered_by_it_even_after_a_handoff() -> None:
    talk = Conversation(hears_audio=True).at(1.0, i.HandoffRequested("h")).starts(1.2).stops(2.0).until(2.5)
    talk.take()
    assert asks(talk, 2.6).take() == []
    talk.at(3.0, i.HandoffEnded("h")).plays(3.2)
    assert due(talk.played(4.0)).take() == [(3.0, "grant", "answer_1"), (4.0, *TAKEN)]


def test_words_that_the_recogniser_still_owes_are_waited_for() -> None:
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello")).stops(2.0).until(3.0)
    talk.at(3.05, i.SpeechEnded("answer_1", "completed"))
    assert asks(talk, 3.1).take()[:1] == [(3.0, "commit", "turn_1", "hello")]
    assert due(talk.until(3.9)).take() == []
    assert due(talk.until(4.0)).take() == [(4.0, *TAKEN)]

    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello")).stops(2.0).until(3.0)
    asks(talk.at(3.05, i.SpeechEnded("answer_1", "completed")), 3.1).take()
    assert due(talk.at(3.2, i.UserFinal(text="Hello."))).take()[-1] == (3.2, *TAKEN)


def test_without_a_moment_in_time_nothing_comes_of_it() -> None:
    talk = Conversation().speaking()
    asks(talk, 1.5, within=2.0).until(3.5)
    assert talk.take() == [(3.5, "drop pipeline", "c", "no_moment")]


def test_it_is_dropped_when_it_is_withdrawn_when_another_one_comes_and_when_the_session_closes() -> None:
    talk = Conversation().speaking()
    asks(talk, 1.5).at(1.6, i.PipelineChangeWithdrawn("ghost")).at(1.7, i.PipelineChangeWithdrawn("c"))
    talk.at(1.8, i.PipelineChangeWithdrawn("c"))
    assert talk.take() == [(1.7, "drop pipeline", "c", "withdrawn")]
    asks(asks(talk, 2.0, "first"), 2.1, "second").at(2.2, i.SessionClosing())
    assert [entry for entry in talk.take() if "pipeline" in entry[1]] == [
        (2.1, "drop pipeline", "first", "withdrawn"),
        (2.2, "drop pipeline", "second", "closed"),
    ]
    assert asks(talk, 2.3, "late").take() == [(2.3, "drop pipeline", "late", "closed")]


def test_what_is_told_before_its_moment_is_used_goes_first() -> None:
    talk = Conversation().speaking().at(1.5, i.PipelineChangeRequested(change_id="c", within=60.0))
    talk.played(2.0).at(2.0, i.UserSpeechStarted(1.95), i.PipelineChangeDue())
    assert talk.take() == []
    assert not talk.machine.is_change_due
    talk.at(2.1, i.PipelineChangeDue()).stops(2.2).at(2.4, i.UserFinal(text=""))
    assert due(talk).take() == [(2.4, "drop", "turn_1", "noise"), (2.4, *TAKEN)]
    assert talk.at(2.5, i.PipelineChangeDue()).take() == []


# --- changes by the takeover


def test_from_a_cascade_to_a_model_whose_server_decides() -> None:
    talk = asks(Conversation(), 1.0, **REALTIME)
    talk.starts(2.0).stops(3.0).until(4.0)
    assert talk.take() == [(1.0, *TAKEN)]
    talk.at(4.5, i.RemoteReplyStarted("r"))
    assert talk.take()[0] == (4.5, "commit", "turn_1", "")


def test_from_such_a_model_to_a_cascade() -> None:
    talk = asks(Conversation(**REALTIME), 1.0)
    talk.says("hello there", 2.0, 3.0).until(4.0)
    assert talk.take() == [(1.0, *TAKEN), (3.4, "commit", "turn_1", "hello there"), (3.4, "grant", "answer_1")]


def test_a_turn_detector_is_asked_from_then_on() -> None:
    talk = asks(Conversation(), 1.0, detector_timeout=1.0).says("hello there", 2.0, 3.0)
    assert talk.take() == [(1.0, *TAKEN), (3.2, "predict", "hello there")]


def test_answers_are_begun_ahead_from_then_on_or_no_more() -> None:
    talk = asks(Conversation(), 1.0, max_attempts=2).says("hello there", 2.0, 3.0).until(3.3)
    assert talk.take()[1:] == [(3.2, "attempt", "attempt_1", "turn_1", "hello there")]
    talk.until(3.4).plays(3.5)
    asks(talk, 3.6)
    due(talk.played(4.0)).says("and then", 5.0, 6.0).until(6.4)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant", "take pipeline", "commit", "grant"]


def test_the_words_of_a_turn_that_the_model_before_has_heard_may_still_come_by_their_name() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).at(2.45, i.UserAudioCommitted("u1"))
    talk.plays(2.5).played(3.5).take()
    asks(talk, 4.0).at(4.2, i.UserFinal(text="hello", item_id="u1"))
    assert talk.take() == [(4.0, *TAKEN), (4.2, "amend", "turn_1", "hello")]


def test_words_of_the_new_pipeline_are_not_taken_for_those_that_the_model_before_still_owes() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).at(2.45, i.UserAudioCommitted("u1"))
    talk.plays(2.5).played(3.5).take()
    asks(talk, 4.0).at(4.2, i.UserFinal(text="goodbye")).until(4.8)
    assert talk.take()[1:] == [(4.6, "commit", "turn_2", "goodbye"), (4.6, "grant", "answer_2")]
    talk.at(6.0, i.UserFinal(text="too late", item_id="u1"))
    assert talk.take()[:1] != [(6.0, "amend", "turn_1", "too late")]


def test_a_new_model_names_its_own_commits_and_not_those_of_the_one_before() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).plays(2.5).played(3.5)
    talk.take()
    asks(talk, 4.0, hears_audio=True).starts(5.0).stops(6.0).until(6.4).at(6.5, i.UserAudioCommitted("u1"))
    talk.at(6.6, i.UserFinal(text="hello", item_id="u1"))
    assert talk.take()[-1] == (6.6, "amend", "turn_2", "hello")


# --- in the place of one that is lost


def test_a_turn_that_a_lost_model_was_hearing_is_heard_anew() -> None:
    talk = Conversation(hears_audio=True).starts(1.0)
    asks(talk, 2.0, is_urgent=True)
    assert talk.take() == [(2.0, "drop", "turn_1", "cleared"), (2.0, *TAKEN)]
    assert talk.machine.user_state == "idle"
    talk.says("hello there", 2.1, 3.0).until(3.4)
    assert talk.take()[0] == (3.4, "commit", "turn_2", "hello there")


def test_typed_words_and_what_was_begun_are_not_lost_with_it() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).at(1.5, i.UserInterim(text="hello"))
    asks(talk, 2.0, is_urgent=True).until(4.0)
    assert talk.take() == [(2.0, *TAKEN), (2.4, "commit", "turn_1", "hello"), (2.4, "grant", "answer_1")]


def test_it_does_not_wait_for_speeches() -> None:
    talk = Conversation(hears_audio=True).speaking().asks(1.2, "later")
    assert asks(talk, 1.5, is_urgent=True).take() == [(1.5, *TAKEN)]


def test_what_is_heard_without_the_lost_model_comes_to_its_end_and_is_answered_by_the_new_one() -> None:
    talk = Conversation().starts(1.0)
    asks(talk, 1.2, is_urgent=True).stops(2.0).at(2.2, i.UserFinal(text="hello there")).until(2.4)
    assert due(talk).take() == [
        (2.4, "commit", "turn_1", "hello there"),
        (2.4, *TAKEN),
        (2.4, "grant", "answer_1"),
    ]


def test_it_does_not_wait_for_speech_that_nobody_hears_any_more() -> None:
    talk = asks(Conversation().starts(1.0), 1.2, is_urgent=True, is_deaf=True)
    assert (1.2, *TAKEN) in talk.take()


def test_it_does_not_wait_for_the_end_of_what_is_heard_for_longer_than_that() -> None:
    talk = Conversation().starts(1.0)
    asks(talk, 1.2, within=3.0, is_urgent=True).until(4.2)
    assert talk.take() == [(4.2, "drop", "turn_1", "cleared"), (4.2, *TAKEN)]


@pytest.mark.parametrize("max_attempts", [0, 1])
def test_what_was_begun_ahead_is_thrown_away_with_the_pipeline(max_attempts: int) -> None:
    talk = Conversation(max_attempts=2).starts(1.0).stops(2.0).at(2.2, i.UserFinal(text="hello there"))
    assert talk.take() == [(2.2, "attempt", "attempt_1", "turn_1", "hello there")]
    asks(talk, 2.3, within=0.05, is_urgent=True, max_attempts=max_attempts).until(2.35)
    assert talk.take()[:2] == [(2.35, "throw away", "attempt_1"), (2.35, *TAKEN)]


def test_one_that_was_asked_for_becomes_urgent_and_keeps_its_place() -> None:
    talk = Conversation(hears_audio=True).speaking()
    asks(talk, 1.5)
    assert talk.take() == []
    assert asks(talk, 1.6, is_urgent=True).take() == [(1.6, *TAKEN)]


def test_an_answer_begun_ahead_of_a_turn_that_is_cleared_is_dropped_while_it_waits_for_its_moment() -> None:
    talk = Conversation(max_attempts=1).at(1.0, i.UserFinal(text="hello"))
    assert talk.take() == [(1.0, "attempt", "attempt_1", "turn_1", "hello")]
    asks(talk, 1.1).at(1.2, i.TurnClearRequested())
    assert (1.2, "throw away", "attempt_1") in talk.take()

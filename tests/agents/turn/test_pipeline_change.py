"""The takeover by another pipeline: the events before it, and the machine's inputs after it."""

from __future__ import annotations

from typing import Any

import pytest

from kit.turn import Conversation
from kit.turn.pipelines import due, wants
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import PipelineTraits

REALTIME: dict[str, Any] = {"remote_decides": True, "hears_audio": True}


def asks(
    talk: Conversation,
    at: float,
    change_id: str = "c",
    *,
    within: float = 60.0,
    lost: str = "",
    **traits: Any,
) -> Conversation:
    """A new pipeline is asked for and ready at `at`; it may take over whenever no other input is to come.

    Args:
        lost: The component of the pipeline in use that is lost just before.
    """
    talk.at(at, i.PipelineChangeRequested(change_id=change_id, pipeline=f"p_{change_id}", within=within))
    if lost:
        talk.at(at, i.PipelineLost("first", lost))
    return due(talk.at(at, i.PipelineReady(change_id=change_id, traits=PipelineTraits(**traits))))


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


def test_that_second_counts_anew_after_a_sound_of_the_user() -> None:
    talk = Conversation().speaking().at(1.5, i.InterruptRequested())
    asks(talk, 1.6).starts(1.8).stops(2.1).at(2.3, i.UserFinal(text=""))
    due(talk.until(3.2))
    assert TAKEN not in [entry[1:] for entry in talk.take()]
    assert due(talk.until(3.3)).take() == [(3.3, *TAKEN)]


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


def test_it_is_dropped_when_it_could_not_be_opened_or_is_taken_back_and_when_the_session_closes() -> None:
    talk = Conversation().speaking()
    asks(talk, 1.5).at(1.6, i.PipelineChangeFailed("ghost")).at(1.7, i.PipelineChangeFailed("c"))
    talk.at(1.8, i.PipelineChangeFailed("c"))
    assert talk.take() == [(1.7, "drop pipeline", "c", "failed")]
    asks(asks(asks(talk, 2.0, "one"), 2.1, "two"), 2.1, "three").at(2.2, i.PipelineChangeFailed("three"))
    assert [entry for entry in talk.at(2.2, i.SessionClosing()).take() if "pipeline" in entry[1]] == [
        (2.2, "drop pipeline", "three", "failed"),
        (2.2, "drop pipeline", "one", "closed"),
        (2.2, "drop pipeline", "two", "closed"),
    ]
    assert asks(talk, 2.3, "late").take() == [(2.3, "drop pipeline", "late", "closed")]


def test_what_is_told_before_its_moment_is_used_goes_first() -> None:
    talk = Conversation().speaking()
    talk.at(1.5, i.PipelineChangeRequested(change_id="c", pipeline="p", within=60.0), i.PipelineReady(change_id="c"))
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
    asks(talk, 3.6, "d")
    due(talk.played(4.0)).says("and then", 5.0, 6.0).until(6.4)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant", "take pipeline", "commit", "grant"]


@pytest.mark.parametrize("at", [4.2, 9.0])
def test_the_words_of_a_turn_that_the_model_before_has_heard_may_still_come_by_their_name(at: float) -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).at(2.45, i.UserAudioCommitted("u1"))
    talk.plays(2.5).played(3.5).take()
    asks(talk, 4.0).at(at, i.UserFinal(text="hello", item_id="u1"))
    assert talk.take() == [(4.0, *TAKEN), (at, "amend", "turn_1", "hello")]


def test_words_of_the_new_pipeline_are_not_taken_for_those_that_the_model_before_still_owes() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).at(2.45, i.UserAudioCommitted("u1"))
    talk.plays(2.5).played(3.5).take()
    asks(talk, 4.0).at(4.2, i.UserFinal(text="goodbye")).until(4.8)
    assert talk.take()[1:] == [(4.6, "commit", "turn_2", "goodbye"), (4.6, "grant", "answer_2")]


def test_words_of_the_new_pipeline_do_not_settle_speech_whose_end_the_one_before_never_heard() -> None:
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text="a table")).until(4.0)
    assert talk.take()[0] == (4.0, "commit", "turn_1", "a table")  # the sound that goes on counts as noise
    talk.plays(4.2).played(5.0).take()
    asks(talk, 8.0).starts(10.0).at(10.5, i.UserFinal(text="a table")).stops(11.0).until(12.0)
    assert [entry[1:] for entry in talk.take()][:2] == [TAKEN, ("commit", "turn_2", "a table")]


def test_a_new_model_names_its_own_commits_and_not_those_of_the_one_before() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).stops(2.0).until(2.4).plays(2.5).played(3.5)
    talk.take()
    asks(talk, 4.0, hears_audio=True).starts(5.0).stops(6.0).until(6.4).at(6.5, i.UserAudioCommitted("u1"))
    talk.at(6.6, i.UserFinal(text="hello", item_id="u1"))
    assert talk.take()[-1] == (6.6, "amend", "turn_2", "hello")


# --- past finals: a recogniser that was replaced settles its words


def past(text: str) -> i.UserFinal:
    return i.UserFinal(text=text, is_past=True)


def guessed() -> Conversation:
    """A turn that was answered as an interim; the answer was heard, and another recogniser has taken over."""
    talk = Conversation().starts(1.0).at(1.5, i.UserInterim(text="hello there")).stops(2.0).until(3.0)
    talk.plays(3.1).played(4.0).take()
    return asks(talk, 4.5)


def test_a_past_final_settles_a_guess_of_before_even_behind_new_speech() -> None:
    talk = guessed().starts(4.8)
    talk.take()
    assert talk.at(5.0, past("Hello there.")).take() == [(5.0, "amend", "turn_1", "Hello there.")]


def test_a_past_final_of_words_that_were_given_up_is_a_turn() -> None:
    talk = asks(Conversation().starts(1.0).stops(2.0).until(3.2), 3.2)
    talk.take()
    talk.at(3.5, past("hello there")).until(5.0)
    assert talk.take()[0][1:] == ("commit", "turn_2", "hello there")


def test_a_past_final_goes_before_the_words_of_the_open_turn_and_settles_none_of_its_speech() -> None:
    talk = asks(Conversation(), 1.0).starts(1.2).at(1.5, past("five"), past(" ")).stops(2.0).until(2.6)
    assert talk.take() == [(1.0, *TAKEN)]  # the final of its own speech is still owed
    talk.at(2.7, i.UserFinal(text="in the High Street")).until(3.5)
    assert talk.take()[0][1:] == ("commit", "turn_1", "five in the High Street")


def test_a_past_final_as_the_session_closes_is_kept_and_the_last_words_are_waited_for() -> None:
    talk = asks(Conversation(), 1.0).starts(1.2).stops(2.0).at(2.1, i.SessionClosing(hears_out=True))
    talk.take()
    assert talk.at(2.2, past("five")).take() == []
    talk.at(2.4, i.UserFinal(text="in the High Street"))
    assert talk.take()[0] == (2.4, "commit", "turn_1", "five in the High Street")


# --- in the place of one that is lost


def test_a_turn_that_a_lost_model_was_hearing_is_heard_anew() -> None:
    talk = Conversation(hears_audio=True).starts(1.0)
    asks(talk, 2.0, lost="llm")
    assert talk.take() == [(2.0, "drop", "turn_1", "cleared"), (2.0, *TAKEN)]
    assert talk.machine.user_state == "idle"
    talk.says("hello there", 2.1, 3.0).until(3.4)
    assert talk.take()[0] == (3.4, "commit", "turn_2", "hello there")


def test_typed_words_and_what_was_begun_are_not_lost_with_it() -> None:
    talk = Conversation(hears_audio=True).starts(1.0).at(1.5, i.UserInterim(text="hello"))
    asks(talk, 2.0, lost="llm").until(4.0)
    assert talk.take() == [(2.0, *TAKEN), (2.4, "commit", "turn_1", "hello"), (2.4, "grant", "answer_1")]


def test_it_does_not_wait_for_speeches() -> None:
    talk = Conversation(hears_audio=True).speaking().asks(1.2, "later")
    assert asks(talk, 1.5, lost="llm").take() == [(1.5, *TAKEN)]


def test_what_is_heard_without_the_lost_model_comes_to_its_end_and_is_answered_by_the_new_one() -> None:
    talk = Conversation().starts(1.0)
    asks(talk, 1.2, lost="llm").stops(2.0).at(2.2, i.UserFinal(text="hello there")).until(2.4)
    assert due(talk).take() == [
        (2.4, "commit", "turn_1", "hello there"),
        (2.4, *TAKEN),
        (2.4, "grant", "answer_1"),
    ]


def test_it_does_not_wait_for_speech_that_nobody_hears_any_more() -> None:
    talk = asks(Conversation().starts(1.0), 1.2, lost="stt")
    assert (1.2, *TAKEN) in talk.take()


def test_it_does_not_wait_for_the_end_of_what_is_heard_for_longer_than_that() -> None:
    talk = Conversation(max_pause=None).starts(1.0)
    asks(talk, 1.2, lost="llm").until(6.2)
    assert talk.take() == [(6.2, "drop", "turn_1", "cleared"), (6.2, *TAKEN)]


def test_a_change_that_waits_for_its_moment_when_the_pipeline_is_lost_waits_no_longer_than_that() -> None:
    talk = Conversation(max_pause=None).starts(1.0)
    asks(talk, 1.2).at(2.0, i.PipelineLost("first", "llm")).until(7.0)
    assert talk.take() == [(7.0, "drop", "turn_1", "cleared"), (7.0, *TAKEN)]
    talk = Conversation(max_pause=None).starts(1.0)
    asks(talk, 1.2, within=3.0).at(2.0, i.PipelineLost("first", "llm")).until(4.2)
    assert talk.take() == [(4.2, "drop", "turn_1", "cleared"), (4.2, *TAKEN)]


@pytest.mark.parametrize("max_attempts", [0, 1])
def test_what_was_begun_ahead_is_thrown_away_with_the_pipeline(max_attempts: int) -> None:
    talk = Conversation(max_attempts=2).starts(1.0).stops(2.0).at(2.2, i.UserFinal(text="hello there"))
    assert talk.take() == [(2.2, "attempt", "attempt_1", "turn_1", "hello there")]
    asks(talk, 2.3, lost="stt", max_attempts=max_attempts)
    assert talk.take()[:2] == [(2.3, "throw away", "attempt_1"), (2.3, *TAKEN)]


def test_one_that_was_asked_for_takes_over_at_once_when_the_pipeline_in_use_is_lost() -> None:
    talk = Conversation(hears_audio=True).speaking()
    asks(talk, 1.5)
    assert talk.take() == []
    assert due(talk.at(1.6, i.PipelineLost("first", "realtime_model"))).take() == [(1.6, *TAKEN)]


def test_an_answer_begun_ahead_of_a_turn_that_is_cleared_is_dropped_while_it_waits_for_its_moment() -> None:
    talk = Conversation(max_attempts=1).at(1.0, i.UserFinal(text="hello"))
    assert talk.take() == [(1.0, "attempt", "attempt_1", "turn_1", "hello")]
    asks(talk, 1.1).at(1.2, i.TurnClearRequested())
    assert (1.2, "throw away", "attempt_1") in talk.take()


# --- which one is opened, and the effects of a loss


def test_changes_follow_each_other() -> None:
    talk = wants(wants(Conversation().until(1.0), "one", "p1"), "two", "first")
    assert talk.pipelines == [(1.0, "open", "one", "p1")]
    due(talk.at(2.0, i.PipelineReady(change_id="ghost"), i.PipelineReady(change_id="one")))
    assert talk.pipelines[1:] == [(2.0, "open", "two", "first")]
    assert due(talk.at(3.0, i.PipelineReady(change_id="two"))).take() == [
        (2.0, "take pipeline", "one"),
        (3.0, "take pipeline", "two"),
    ]


def test_a_change_to_the_pipeline_in_use_changes_nothing() -> None:
    talk = wants(wants(Conversation().until(1.0), "one", "first"), "two", "p2")
    assert talk.take() == [(1.0, "drop pipeline", "one", "in_use")]
    assert talk.pipelines == [(1.0, "open", "two", "p2")]


def test_a_lost_pipeline_is_followed_by_its_fallback() -> None:
    talk = Conversation().at(1.0, i.PipelineLost("first", "llm", "spare"))
    assert talk.pipelines == [(1.0, "lost", "first", "goes on", ""), (1.0, "open", "fallback_1", "spare")]
    assert due(talk.at(2.0, i.PipelineReady(change_id="fallback_1"))).take() == [(2.0, "take pipeline", "fallback_1")]
    talk.at(3.0, i.PipelineLost("spare", "llm", "first"))
    assert talk.pipelines[2:] == [(3.0, "lost", "spare", "goes on", ""), (3.0, "open", "fallback_2", "first")]


def test_without_a_fallback_and_with_one_that_fails_the_session_closes() -> None:
    talk = Conversation().at(1.0, i.PipelineLost("first", "llm"))
    assert (talk.take(), talk.pipelines) == ([(1.0, "close", "pipeline_lost")], [(1.0, "lost", "first", "", "")])
    talk = Conversation().at(1.0, i.PipelineLost("first", "llm", "spare"), i.PipelineChangeFailed("fallback_1"))
    assert talk.take() == [(1.0, "drop pipeline", "fallback_1", "failed"), (1.0, "close", "pipeline_lost")]


def test_a_change_that_is_under_way_comes_before_the_fallback_which_follows_if_it_fails() -> None:
    talk = wants(Conversation().until(1.0), "one", "p1").at(1.5, i.PipelineLost("first", "llm", "spare"))
    assert talk.pipelines[-1] == (1.5, "lost", "first", "goes on", "")
    talk.at(2.0, i.PipelineLost("p1", "pipeline"))
    assert talk.take() == [(2.0, "drop pipeline", "one", "failed")]
    assert talk.pipelines[2:] == [(2.0, "lost", "p1", "goes on", ""), (2.0, "open", "fallback_1", "spare")]


def test_a_change_that_waits_comes_before_the_fallback() -> None:
    talk = wants(wants(Conversation().until(1.0), "one", "p1"), "two", "p2")
    talk.at(1.5, i.PipelineLost("first", "llm", "spare")).at(2.0, i.PipelineChangeFailed("one"))
    assert talk.pipelines[2:] == [(2.0, "open", "two", "p2")]


def test_the_fallback_is_not_tried_again_where_it_was_the_change_that_failed() -> None:
    talk = wants(Conversation().until(1.0), "one", "spare").at(1.5, i.PipelineLost("first", "llm", "spare"))
    assert talk.at(2.0, i.PipelineChangeFailed("one")).take()[-1] == (2.0, "close", "pipeline_lost")


def test_the_loss_of_a_pipeline_that_was_left_changes_nothing() -> None:
    talk = asks(Conversation(), 1.0).at(1.5, i.PipelineLost("first", "stt"))
    assert talk.take() == [(1.0, *TAKEN)]
    assert talk.pipelines[1:] == [(1.5, "lost", "first", "goes on", "")]


@pytest.mark.parametrize(
    ("component", "hears_audio", "keeps"),
    [("llm", False, ""), ("realtime_model", True, "keeps audio"), ("stt", False, "keeps audio")],
)
def test_the_callers_audio_is_kept_when_nothing_hears_it_any_more(
    component: str, hears_audio: bool, keeps: str
) -> None:
    talk = Conversation(hears_audio=hears_audio).at(1.0, i.PipelineLost("first", component, "spare"))
    assert talk.pipelines[0] == (1.0, "lost", "first", "goes on", keeps)


def test_a_recogniser_that_is_lost_after_the_model_ends_the_wait_for_the_turn() -> None:
    talk = Conversation().starts(1.0).at(1.2, i.PipelineLost("first", "llm", "spare"))
    assert due(talk.at(1.5, i.PipelineReady(change_id="fallback_1"))).take() == []
    due(talk.at(1.6, i.PipelineLost("first", "stt", "spare")))
    assert (1.6, "take pipeline", "fallback_1") in talk.take()
    assert talk.pipelines[-1] == (1.6, "lost", "first", "goes on", "keeps audio")


def test_a_session_may_start_with_the_fallback() -> None:
    talk = Conversation(is_started=False).at(0.0, i.SessionStarting()).starts(0.1)
    wants(talk.at(0.5, i.FallbackAtStart(pipeline="spare", traits=PipelineTraits(**REALTIME))), "one", "spare")
    assert talk.take() == [(0.5, "drop", "turn_1", "cleared"), (0.5, "drop pipeline", "one", "in_use")]
    talk.at(1.0, i.SessionStarted(), i.RemoteReplyStarted("r"))  # its server decides when a turn is over
    assert talk.take()[0] == (1.0, "commit", "turn_2", "")


def test_no_pipeline_follows_when_the_session_is_about_to_close() -> None:
    talk = wants(wants(Conversation().until(1.0), "one", "p1"), "two", "p2").at(1.5, i.PipelineChangesClosed())
    assert [entry[1:] for entry in talk.take()] == [
        ("drop pipeline", "one", "closed"),
        ("drop pipeline", "two", "closed"),
    ]
    talk.at(1.6, i.PipelineLost("first", "stt", "spare"), i.PipelineReady(change_id="one"))
    assert (talk.take(), talk.pipelines[1:]) == ([], [(1.6, "lost", "first", "goes on", "")])

"""The floor: the next speaker, the effects of `interrupt()`, and failures that close the session."""

from __future__ import annotations

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i


def test_speeches_are_granted_by_priority_then_arrival() -> None:
    talk = Conversation().asks(1.0, "a").asks(1.0, "b").asks(1.0, "c", priority=1).asks(1.0, "d")
    for now in (2.0, 3.0, 4.0, 5.0):
        talk.plays(now - 0.5).played(now)
    assert talk.take() == [(1.0, "grant", "a"), (2.0, "grant", "c"), (3.0, "grant", "b"), (4.0, "grant", "d")]


def test_a_second_reply_is_discarded_while_one_runs_and_a_say_is_not_in_its_way() -> None:
    talk = Conversation().asks(1.0, "say").asks(1.0, "one", "reply", when_busy="discard")
    talk.asks(1.0, "two", "reply", when_busy="discard")
    assert talk.take() == [(1.0, "grant", "say"), (1.0, "discarded", "two")]


def test_a_reply_queues_behind_the_answer_to_a_user_turn() -> None:
    talk = Conversation().says("hello", 0.5, 1.0).asks(2.0, "reply", "reply", when_busy="discard").plays(2.0)
    assert talk.played(3.0).take()[-1] == (3.0, "grant", "reply")


def test_a_say_that_does_not_want_to_wait_is_discarded_while_anybody_speaks() -> None:
    talk = Conversation().speaking().asks(2.0, "more", when_busy="discard")
    assert talk.take() == [(2.0, "discarded", "more")]
    assert talk.played(3.0).asks(3.5, "again", when_busy="discard").take() == [(3.5, "grant", "again")]


def test_a_speech_may_interrupt_what_is_not_protected() -> None:
    talk = Conversation().speaking().asks(1.5, "queued").asks(2.0, "now", when_busy="interrupt")
    assert talk.take() == [(2.0, "interrupted", "talk"), (2.0, "cancelled", "queued"), (2.0, "grant", "now")]
    talk = Conversation().speaking(interruptible=False).asks(2.0, "now", when_busy="interrupt")
    assert talk.take() == []
    assert Conversation().asks(2.0, "now", when_busy="interrupt").take() == [(2.0, "grant", "now")]


def test_interrupt_before_the_first_audio_during_it_and_after_the_end() -> None:
    talk = Conversation().asks(1.0, "a").at(1.5, i.InterruptRequested(), i.InterruptRequested())
    assert talk.take() == [(1.0, "grant", "a"), (1.5, "cancelled", "a")]
    talk = Conversation().speaking().at(1.5, i.InterruptRequested(), i.InterruptRequested())
    assert talk.take() == [(1.5, "interrupted", "talk")]
    talk = Conversation().speaking().played(2.0).at(2.5, i.InterruptRequested())
    assert talk.take() == []


def test_interrupt_drops_the_queue_up_to_the_first_protected_speech_and_with_force_all_of_it() -> None:
    for force in (False, True):
        talk = Conversation().speaking().asks(1.5, "a").asks(1.5, "b", interruptible=False).asks(1.5, "c")
        talk.at(2.0, i.InterruptRequested(force=force))
        expected = [(2.0, "interrupted", "talk"), (2.0, "cancelled", "a")]
        expected += [(2.0, "cancelled", "b"), (2.0, "cancelled", "c")] if force else [(2.0, "grant", "b")]
        assert talk.take() == expected


def test_interrupt_leaves_a_protected_speech_and_what_waits_behind_it_alone() -> None:
    talk = Conversation().speaking(interruptible=False).asks(1.5, "a").at(2.0, i.InterruptRequested())
    assert talk.take() == []


def test_one_speech_may_be_interrupted_by_its_id() -> None:
    talk = Conversation().speaking().asks(1.5, "a").asks(1.5, "b", interruptible=False)
    for speech_id in ("a", "b", "ghost", "a"):
        talk.at(2.0, i.InterruptRequested(speech_id=speech_id))
    assert talk.take() == [(2.0, "cancelled", "a")]
    assert talk.at(2.5, i.InterruptRequested(speech_id="b", force=True)).take() == [(2.5, "cancelled", "b")]


def test_a_speech_that_waits_for_its_tools_gives_the_floor_to_another_and_gets_it_back() -> None:
    talk = Conversation().asks(1.0, "reply", "reply").at(1.5, i.ToolsStarted("reply"), i.ToolsAwaited("reply"))
    talk.asks(2.0, "filler").plays(2.2).at(2.5, i.ToolsFinished("reply"))
    assert talk.take() == [(1.0, "grant", "reply"), (2.0, "grant", "filler")]
    assert talk.played(3.0).take() == [(3.0, "grant", "reply")]
    assert talk.agent_states == [("thinking", 1.0), ("speaking", 2.2), ("thinking", 3.0)]


def test_interrupt_cancels_speeches_that_wait_for_their_tools() -> None:
    talk = Conversation().asks(1.0, "a", "reply").at(1.5, i.ToolsAwaited("a"))
    talk.asks(1.6, "b", "reply", interruptible=False).at(1.7, i.ToolsAwaited("b"))
    talk.take()
    assert talk.at(2.0, i.InterruptRequested()).take() == [(2.0, "cancelled", "a")]
    assert talk.at(2.5, i.InterruptRequested(force=True)).take() == [(2.5, "cancelled", "b")]


def test_a_tool_that_interrupts_does_not_cut_the_answer_that_waits_for_it() -> None:
    talk = Conversation().asks(1.0, "a", "reply").at(1.5, i.ToolsAwaited("a"))
    talk.asks(1.6, "b", "reply").at(1.7, i.ToolsAwaited("b")).asks(1.8, "filler")
    talk.take()
    cut = [(2.0, "cancelled", "filler"), (2.0, "cancelled", "b")]
    assert talk.at(2.0, i.InterruptRequested(force=True, from_tool_of="a")).take() == cut


def test_a_speech_that_a_tool_asks_for_at_once_does_not_cut_the_answer_that_waits_for_it() -> None:
    talk = Conversation().asks(1.0, "a", "reply").at(1.5, i.ToolsAwaited("a")).asks(1.8, "filler")
    talk.take()
    talk.at(2.0, i.SpeechRequested(speech_id="b", kind="say", when_busy="interrupt", from_tool_of="a"))
    assert talk.take() == [(2.0, "cancelled", "filler"), (2.0, "grant", "b")]


def test_reports_of_a_speech_that_is_over_or_unknown_change_nothing() -> None:
    talk = Conversation().speaking().at(2.0, i.InterruptRequested())
    talk.take()
    for speech_id in ("talk", "ghost"):
        talk.at(2.5, i.PlayoutStarted(speech_id, 2.5), i.PlayoutFinished(speech_id, 2.5, True))
        talk.at(2.5, i.ToolsStarted(speech_id), i.ToolsAwaited(speech_id), i.ToolsFinished(speech_id))
        talk.at(2.5, i.SpeechEnded(speech_id, "interrupted"), i.SpeechEnded(speech_id, "completed"))
    assert talk.take() == []
    assert talk.agent_states[-1] == ("idle", 2.0)


def fail(talk: Conversation, component: str, kind: i.SpeechKind = "reply", outcome: i.EndedAs = "failed") -> None:
    now = talk.now + 1.0
    talk.asks(now, f"s{now}", kind).at(now, i.SpeechEnded(f"s{now}", outcome, component))


def test_max_errors_of_one_kind_in_a_row_close_the_session_once() -> None:
    talk = Conversation(max_errors=3)
    for component in ("llm", "tts", "llm", "tts", "llm", "llm"):
        fail(talk, component)
    assert [entry for entry in talk.take() if entry[1] == "close"] == [(5.0, "close", "error")]


def test_a_good_turn_forgives_failures_and_an_apology_does_not() -> None:
    talk = Conversation(max_errors=2)
    fail(talk, "llm")
    fail(talk, "", outcome="completed")
    fail(talk, "llm")
    fail(talk, "", "say", outcome="completed")
    assert not [entry for entry in talk.take() if entry[1] == "close"]
    fail(talk, "llm")
    assert talk.take()[-1] == (5.0, "close", "error")


def test_a_speech_that_interrupts_cuts_what_waits_for_its_tools_too() -> None:
    talk = Conversation().asks(1.0, "one", "reply").at(1.5, i.ToolsStarted("one"), i.ToolsAwaited("one"))
    talk.asks(2.0, "two", "reply", when_busy="interrupt")
    assert talk.take() == [(1.0, "grant", "one"), (2.0, "cancelled", "one"), (2.0, "grant", "two")]


@pytest.mark.parametrize("outcome", ["interrupted", "cancelled", "discarded"])
def test_an_answer_that_was_cut_forgives_no_failure(outcome: i.EndedAs) -> None:
    talk = Conversation(max_errors=2).says("one", 0.5, 1.0).at(2.0, i.SpeechEnded("answer_1", "failed", "llm"))
    talk.says("two", 3.0, 3.5).at(4.5, i.SpeechEnded("answer_2", outcome))
    talk.says("three", 5.0, 5.5).at(6.5, i.SpeechEnded("answer_3", "failed", "llm"))
    assert talk.take()[-1] == (6.5, "close", "error")


def test_a_speech_that_is_protected_while_it_sounds_is_cut_no_more_and_the_words_wait_for_its_end() -> None:
    talk = Conversation().speaking().at(1.5, i.SpeechProtected("talk"))
    talk.says("stop that please", 2.0, 3.0).at(3.5, i.InterruptRequested(), i.InterruptRequested(speech_id="talk"))
    assert talk.until(4.0).take() == []
    talk.played(4.5)
    assert [entry[1] for entry in talk.take()] == ["commit", "grant"]
    talk = Conversation().speaking().at(1.5, i.SpeechProtected("talk"), i.InterruptRequested(force=True))
    assert talk.take() == [(1.5, "interrupted", "talk")]


def test_a_speech_that_is_protected_while_a_voice_holds_it_goes_on_at_once() -> None:
    talk = Conversation().speaking().starts(2.0).until(2.7)
    assert talk.take() == [(2.5, "pause", "talk")]
    assert talk.at(2.8, i.SpeechProtected("talk")).take() == [(2.8, "resume", "talk", "")]
    assert talk.stops(3.5).until(6.0).take()[0][1] != "pause"


def test_a_speech_that_is_protected_while_nobody_hears_is_still_held() -> None:
    talk = Conversation().speaking().at(2.0, i.ParticipantLeft(10.0)).at(2.5, i.SpeechProtected("talk"))
    assert talk.take() == [(2.0, "pause", "talk")]
    assert talk.at(3.0, i.ParticipantLinked()).take() == [(3.0, "resume", "talk", "")]


def test_protecting_what_is_over_or_was_cut_changes_nothing() -> None:
    talk = Conversation().speaking().at(1.5, i.InterruptRequested(), i.SpeechProtected("talk"), i.SpeechProtected("?"))
    assert talk.take() == [(1.5, "interrupted", "talk")]


def test_a_speech_that_waits_may_be_protected_and_is_not_dropped() -> None:
    talk = Conversation().speaking().asks(1.5, "next").at(1.6, i.SpeechProtected("next"))
    assert talk.at(2.0, i.InterruptRequested()).take() == [(2.0, "interrupted", "talk"), (2.0, "grant", "next")]


def test_an_unheard_answer_that_is_protected_is_not_taken_back_by_further_words() -> None:
    talk = Conversation().says("a table", 0.5, 1.5).until(2.0)
    answer = talk.machine.current_speech_id
    talk.at(2.1, i.SpeechProtected(answer)).take()
    assert talk.says("for two", 2.5, 3.5).until(5.0).take() == []
    assert [entry[1] for entry in talk.plays(5.5).played(6.5).take()] == ["commit", "grant"]


# --- speech that is withheld


def test_speech_that_is_withheld_waits_and_then_begins_in_its_order() -> None:
    talk = Conversation().at(1.0, i.SpeechWithheld(True)).asks(1.5, "a").asks(1.6, "b", priority=1)
    assert talk.until(9.0).take() == []
    assert talk.at(9.0, i.SpeechWithheld(False)).take() == [(9.0, "grant", "b")]


def test_the_answer_to_a_turn_is_prepared_while_speech_is_withheld_and_the_caller_does_not_cut_what_waits() -> None:
    talk = Conversation().at(0.2, i.SpeechWithheld(True)).asks(0.3, "opening").says("hello", 0.5, 1.0).until(3.0)
    assert [entry[1] for entry in talk.take()] == ["commit", "prepare"]
    assert talk.at(3.0, i.SpeechWithheld(False)).take() == [(3.0, "grant", "opening")]


def test_speech_that_was_withheld_is_not_cut_by_the_turn_that_was_open_meanwhile() -> None:
    talk = Conversation().at(0.2, i.SpeechWithheld(True)).asks(0.3, "opening").starts(0.5)
    talk.at(0.8, i.SpeechWithheld(False)).stops(1.0).at(1.2, i.UserFinal(text="hello")).until(3.0)
    assert [entry[1:] for entry in talk.take()][1:3] == [("grant", "opening"), ("prepare", "answer_1")]


def test_speech_that_has_begun_goes_on_while_speech_is_withheld() -> None:
    talk = Conversation().speaking().at(1.5, i.SpeechWithheld(True)).asks(1.6, "next").played(2.0)
    assert talk.take() == []
    assert talk.at(2.5, i.InterruptRequested(force=True), i.SpeechWithheld(False)).take() == [
        (2.5, "cancelled", "next")
    ]


def test_the_last_words_of_a_call_are_not_withheld() -> None:
    talk = Conversation().at(1.0, i.SpeechWithheld(True)).at(2.0, i.SessionClosing(), i.SpeechWithheld(True))
    assert talk.asks(2.5, "goodbye").take() == [(2.5, "grant", "goodbye")]


# --- the end of a speech


def test_a_speech_is_forgotten_once_it_has_reported_its_end() -> None:
    talk = Conversation().speaking()
    talk.at(2.0, i.InterruptRequested())
    assert (talk.take(), talk.forgotten) == ([(2.0, "interrupted", "talk")], [])
    talk.at(2.1, i.SpeechEnded("talk", "interrupted")).at(2.2, i.SpeechEnded("talk", "interrupted"))
    assert talk.forgotten == [(2.1, "talk", "interrupted")]


def test_a_speech_that_has_not_begun_is_over_as_it_is_cancelled() -> None:
    talk = Conversation().speaking().asks(1.5, "later").asks(1.6, "now or never", when_busy="discard")
    talk.at(2.0, i.InterruptRequested())
    assert talk.forgotten == [(1.6, "now or never", "discarded"), (2.0, "later", "cancelled")]


def test_words_that_come_before_the_end_of_an_unheard_answer_go_on_with_its_turn_whatever_its_outcome() -> None:
    talk = Conversation().at(1.0, i.TextReceived("one")).at(1.5, i.TextReceived("two"))
    talk.at(1.5, i.SpeechEnded("answer_1", "completed"))
    assert talk.take()[2:] == [
        (1.5, "withdraw", "answer_1"),
        (1.5, "merge", "turn_1", "one two"),
        (1.5, "grant", "answer_2"),
    ]
    assert talk.forgotten == [(1.5, "answer_1", "cancelled")]
    assert fx.ForgetSpeech("answer_1", "cancelled", is_withdrawn=True) in talk.effects
    talk.at(2.0, i.SpeechEnded("answer_2", "completed"), i.TextReceived("three"))
    assert talk.take()[0] == (2.0, "commit", "turn_3", "three")

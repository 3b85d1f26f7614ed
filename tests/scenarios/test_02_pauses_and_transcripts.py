"""Scenarios 2 to 6: pauses inside a turn, transcripts that come early, late, alone or never."""

from __future__ import annotations

from vivavoce.agents import Agent
from vivavoce.agents.events import TranscriptMissing, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, SessionHarness
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetector, TurnDetectorStream


class ScriptedDetector(TurnDetector):
    """Calls a turn complete when its text ends with a full stop."""

    provider = "scripted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def open(self) -> TurnDetectorStream:
        return _Stream(self.asked)


class _Stream(TurnDetectorStream):
    def __init__(self, asked: list[str]) -> None:
        self._asked = asked

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        self._asked.append(context.text)
        return EndOfTurnPrediction(context.text.endswith("."), 0.9)


def plain(*answers: str) -> SessionHarness:
    return SessionHarness(Agent("Be nice."), ScriptedLLM(*(answers or ("All right then.",)), delay=0.1))


def with_detector() -> tuple[SessionHarness, ScriptedDetector]:
    detector, stt, llm = ScriptedDetector(), ScriptedSTT(), ScriptedLLM("All right then.", delay=0.1)
    pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD(), turn_detector=detector)
    return SessionHarness(Agent("Be nice."), llm, stt=stt, pipeline=pipeline), detector


def test_a_pause_within_an_incomplete_turn_keeps_it_one_turn_with_both_parts() -> None:
    harness, detector = with_detector()
    harness.caller.says("a table for", 0.5, 1.5)
    harness.caller.says("two people.", 3.5, 4.5)
    harness.run(until=8.0)
    assert detector.asked[0] == "a table for"
    assert detector.asked[-1] == "a table for two people."
    harness.expect_history(("user", "a table for two people."), ("assistant", "All right then."))
    harness.expect_states(
        "agent", ("listening", 0.5), ("thinking", 4.9), ("speaking", 5.2), ("idle", 5.8)
    ).expect_outcomes("completed")


def test_an_incomplete_turn_that_stays_so_ends_after_the_longest_delay() -> None:
    harness, _ = with_detector()
    harness.caller.says("a table for", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_history(("user", "a table for"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 4.5), ("speaking", 4.8), ("idle", 5.4))


def test_a_final_before_the_end_of_speech_does_not_end_the_turn_early() -> None:
    harness = plain()
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.3)
    harness.run(until=6.0)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 3.2), ("idle", 3.8))


def test_a_final_after_the_delay_commits_on_arrival_and_never_twice() -> None:
    harness = plain()
    harness.caller.says("hello there", 0.5, 2.5, final_at=3.3)
    harness.run(until=8.0)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 3.3), ("speaking", 3.6), ("idle", 4.2))
    harness.expect_history(("user", "hello there"), ("assistant", "All right then.")).expect_outcomes("completed")


def test_words_that_no_vad_heard_are_still_a_turn() -> None:
    harness = plain()
    harness.caller.is_recognised("hello", 0.8, is_final=False)
    harness.caller.is_recognised("hello there", 1.0)
    harness.run(until=5.0)
    harness.expect_history(("user", "hello there"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.8), ("thinking", 1.4), ("speaking", 1.7), ("idle", 2.3))
    harness.expect_states("user", ("speaking", 0.8), ("idle", 1.0), ("listening", 1.7), ("idle", 2.3))


def test_speech_whose_final_never_comes_is_answered_by_its_last_interim() -> None:
    harness = plain()
    harness.caller.makes_noise(0.5, 2.5)
    harness.caller.is_recognised("hello", 1.0, is_final=False)
    harness.caller.is_recognised("hello there", 2.0, is_final=False)
    harness.run(until=6.0)
    harness.expect_history(("user", "hello there"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 3.5), ("speaking", 3.8), ("idle", 4.4))


def test_speech_without_any_words_is_dropped_and_told() -> None:
    harness = plain()
    harness.caller.makes_noise(0.5, 2.5)
    harness.run(until=6.0)
    harness.expect_history().expect_outcomes()
    harness.expect_states("agent", ("listening", 0.5), ("idle", 3.5))
    assert [round(event.at, 6) for event in harness.recording.of(TranscriptMissing)] == [3.5]


def test_a_late_final_of_the_same_words_makes_no_second_reply() -> None:
    harness = plain("First answer.", "Second answer.")
    harness.caller.makes_noise(0.5, 2.5)
    harness.caller.is_recognised("hello there", 2.0, is_final=False)
    harness.caller.is_recognised("hello there", 4.1)
    harness.run(until=8.0)
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "hello there"), ("assistant", "First answer."))


def test_words_that_come_while_a_slow_reply_is_cancelled_are_in_the_next_request() -> None:
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM([1.5, "Your order is on its way."], "Cancelled."))
    harness.caller.says("where is my order", 0.5, 1.5)
    harness.caller.says("cancel my order", 2.5, 3.1)
    harness.run(until=7.0)
    request = harness.llm.requests[-1]
    assert [m.content for m in request.context.messages("user")] == ["where is my order cancel my order"]
    assert harness.llm.cancelled == [0]
    harness.expect_history(("user", "where is my order cancel my order"), ("assistant", "Cancelled."))
    assert [event.text for event in harness.recording.of(UserTranscript)] == ["where is my order", "cancel my order"]


def test_a_late_final_that_revises_a_word_makes_no_second_message_and_a_second_reply_only_if_one_was_heard() -> None:
    for final_at, answers in ((3.8, ["First answer.", "Second answer."]), (3.1, ["Second answer."])):
        harness = plain("First answer.", "Second answer.")
        interims = [(1.9, "book a table for to")]
        harness.caller.says("book a table for two", 0.5, 2.0, final_at=final_at, interims=interims)
        harness.run(until=8.0)
        harness.expect_history(("user", "book a table for two"), *(("assistant", answer) for answer in answers))
        harness.expect_outcomes(*["completed"] * len(answers))


def test_one_final_for_two_bursts_that_comes_before_the_end_is_reported_costs_nothing() -> None:
    harness = plain()
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(1.74, 3.0)
    harness.caller.is_recognised("a table for two", 3.1)
    harness.run(until=6.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 3.4), ("speaking", 3.7), ("idle", 4.3))


def test_one_sound_with_two_finals_is_one_turn_where_the_recogniser_gives_no_interims() -> None:
    stt = ScriptedSTT(capabilities=STTCapabilities(emits_interims=False))
    harness = SessionHarness(Agent("Be nice."), ScriptedLLM("All right then.", delay=0.1), stt=stt)
    harness.caller.makes_noise(0.5, 3.2)
    harness.caller.is_recognised("a table", 1.6)
    harness.caller.is_recognised("for two", 3.9)
    harness.run(until=7.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 3.9), ("speaking", 4.2), ("idle", 4.8))


def test_a_final_for_two_bursts_just_before_the_true_end_costs_nothing() -> None:
    harness = plain()
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(1.74, 3.0)
    harness.caller.is_recognised("a table for two", 2.98)
    harness.run(until=6.0)
    harness.expect_history(("user", "a table for two"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 3.4), ("speaking", 3.7), ("idle", 4.3))


def test_a_final_that_ends_the_words_of_the_burst_before_costs_nothing() -> None:
    harness = plain()
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(1.72, 2.5)
    harness.caller.is_recognised("I want", 1.0)
    harness.caller.is_recognised("a table", 1.2, is_final=False)
    harness.caller.is_recognised("a table for two", 2.2)
    harness.run(until=6.0)
    harness.expect_history(("user", "I want a table for two"), ("assistant", "All right then."))
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 2.9), ("speaking", 3.2), ("idle", 3.8))

"""Scenario 14, rule 18, for a model that speaks: words without audio were not heard."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vivavoce.agents import Agent, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedRealtimeModel, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import UnvoicedError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.base import Done
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimeOptions, RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup, TurnDetection
from vivavoce.pipelines.testing import ScriptedTTSOptions, ScriptedVAD, Spoken, StepItem
from vivavoce.pipelines.testing.script import Step
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection
from vivavoce.pipelines.tts.base import AudioChunk

ANSWER = "All is well."
FOREVER = 99
WRITES = RealtimeCapabilities(generates_text=True)


class Mute(ScriptedRealtimeModel):
    """A model that yields no audio for its next texts.

    Args:
        times: How many.
    """

    def __init__(self, *steps: Step, times: int, hears: Sequence[str] = ()) -> None:
        super().__init__(*steps, hears=hears, delay=0.1)
        self.times = times

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        return MuteConnection(self, setup)


class MuteConnection(ScriptedRealtimeConnection):
    def __init__(self, model: Mute, setup: RealtimeSetup) -> None:
        super().__init__(model, setup)
        self._mute = model

    def _speech(self, text: str) -> list[AudioChunk]:
        if self._mute.times > 0:
            self._mute.times -= 1
            return []
        return super()._speech(text)


def call(model: Mute, decides: TurnDetection, options: RealtimeOptions | None = None) -> SessionHarness:
    """The caller asks, and the model answers: asked by the session, or by itself."""
    options = options or RealtimeOptions(turn_detection=decides)
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), options=options)
    harness = SessionHarness(Clerk("Help."), model=model, pipeline=pipeline)
    harness.caller.makes_noise(0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        if decides == "remote":
            await harness.until(1.8)
            model.transcript("a question")
            model.start_reply(model.steps.pop(0))

    return harness.run(scenario, until=8.0)


class Clerk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"


def unheard(harness: SessionHarness) -> list[str]:
    events = harness.recording.of(ErrorOccurred)
    return [event.error.text for event in events if isinstance(event.error, UnvoicedError)]


EACH_JUDGE = pytest.mark.parametrize("decides", ["local", "remote"])


@EACH_JUDGE
def test_an_answer_that_has_its_voice_the_second_time_is_heard_once(decides: TurnDetection) -> None:
    model = Mute([ANSWER], times=1, hears=["a question"])
    harness = call(model, decides)
    harness.expect_outcomes("completed")
    assert harness.messages[-1] == ("assistant", ANSWER)
    record = model.connections[0].record
    assert record.said == [ANSWER]
    assert record.truncations == [("answer_1", 0.0, "")]  # the words that nobody has heard
    assert [getattr(item, "content", "") for item in record.appended] == [ANSWER]  # and those that were heard
    assert (harness.session.turns[0].unvoiced, unheard(harness)) == ((), [])
    assert [retry.attempt for retry in harness.session.turns[0].retries] == [1]


@EACH_JUDGE
def test_an_answer_without_a_voice_fails_and_is_not_in_the_history(decides: TurnDetection) -> None:
    model = Mute([ANSWER], times=FOREVER, hears=["a question"])
    harness = call(model, decides)
    assert model.connections[0].record.truncations == [("answer_1", 0.0, "")]
    harness.expect_outcomes("failed").expect_history(("user", "a question"))
    assert (harness.session.turns[0].unvoiced, unheard(harness)) == ((ANSWER,), [ANSWER])
    assert "gave no audio" in harness.session.turns[0].error


def test_a_model_that_must_not_be_tried_again_is_asked_once() -> None:
    model = Mute([ANSWER], times=1, hears=["a question"])
    options = RealtimeOptions(turn_detection="local", reply_retry=RetryOptions(waits=()))
    call(model, "local", options).expect_outcomes("failed")
    assert model.connections[0].record.said == []


def test_an_answer_that_its_server_has_ended_before_its_time_is_not_said_again() -> None:
    model = Mute([ANSWER, Done("content_filter")], times=1, hears=["a question"])
    call(model, "local").expect_outcomes("failed")
    assert model.connections[0].record.said == []


@EACH_JUDGE
def test_words_without_a_voice_beside_a_call_do_not_end_its_answer(decides: TurnDetection) -> None:
    step: list[StepItem] = ["Let me see.", ToolCall(call_id="c1", name="look_up", arguments="{}")]
    model = Mute(step, "It is here.", times=1, hears=["a question"])
    harness = call(model, decides)
    harness.expect_outcomes("completed").expect_tools(("look_up", "found"))
    assert [text for who, text in harness.messages if who == "assistant"] == ["It is here."]
    assert (harness.session.turns[0].unvoiced, unheard(harness)) == (("Let me see.",), ["Let me see."])
    assert model.connections[0].record.truncations == [("answer_1", 0.0, "")]  # nobody has heard them


@pytest.mark.parametrize(("times", "outcome"), [(1, "completed"), (FOREVER, "failed")])
def test_a_say_of_the_model_without_a_voice_is_asked_for_once_more(times: int, outcome: str) -> None:
    model = Mute(times=times)
    harness = SessionHarness(Agent("Help."), model=model)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say(ANSWER)
        await speech
        assert (speech.outcome, speech.heard_text) == (outcome, ANSWER if outcome == "completed" else "")

    harness.run(scenario)
    assert model.connections[0].record.said == [ANSWER, ANSWER]
    assert unheard(harness) == ([] if outcome == "completed" else [ANSWER])


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_model_that_writes_is_told_that_a_sentence_of_its_answer_was_not_heard(is_cut: bool) -> None:
    model = ScriptedRealtimeModel(["One two. Three. Four five six."], capabilities=WRITES, delay=0.1)
    voice = ScriptedTTS(options=ScriptedTTSOptions(by_text={"Three": Spoken(seconds=0.0)}))
    pipeline = RealtimePipeline(model, tts=voice, vad=ScriptedVAD(), options=RealtimeOptions(answers="text"))
    harness = SessionHarness(Agent("Help."), model=model, pipeline=pipeline)

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.reply("Count.")
        if is_cut:
            await harness.until(harness.now + 1.5)  # two words of the last sentence, which sounds from 1.0 on
            await harness.session.interrupt()
        await speech

    harness.run(scenario)
    heard = "One two. Four five" if is_cut else "One two. Four five six."
    assert harness.messages[-1] == ("assistant", heard)
    ((item_id, _, told),) = model.connections[0].record.truncations
    assert (item_id, told) == ("answer_1", heard)

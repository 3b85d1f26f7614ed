"""A realtime pipeline whose model is unavailable, at the start or in the middle, and its fallback."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import ErrorOccurred, PipelineChanged, TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingConnection, CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, VoiceError
from vivavoce.pipelines.events import PipelineFailed
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.pipeline import Pipeline, PipelineContext
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.fallback import FallbackRealtime
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD, Step

DOWN = ProviderConnectionError("down", provider="scripted", retryable=False)


class Call:
    """A caller, a realtime model, and the cascade to fall back to, which answers with `script`."""

    def __init__(
        self, model: ScriptedRealtimeModel, *script: Step, second: ScriptedRealtimeModel | None = None
    ) -> None:
        self.model = model
        self.stt = ScriptedSTT()
        self.llm = ScriptedLLM(*script, delay=0.1)
        self.tts = ScriptedTTS()
        self.cascade = CascadingPipeline(stt=self.stt, llm=self.llm, tts=self.tts, vad=ScriptedVAD())
        first = model if second is None else FallbackRealtime([model, second])
        self.pipeline: Pipeline = RealtimePipeline(first, vad=ScriptedVAD(), fallback=self.cascade)
        self.harness = SessionHarness(Agent("Help."), stt=self.stt, pipeline=self.pipeline)
        self.caller = self.harness.caller

    def fails(self) -> None:
        """The model goes down for good."""
        self.model.fail_open(*[DOWN] * 9)
        self.model.fail(DOWN)

    @property
    def errors(self) -> list[tuple[str, bool]]:
        """Source of each error, and whether the session went on."""
        return [(event.source, event.is_recovered) for event in self.harness.recording.of(ErrorOccurred)]

    @property
    def changes(self) -> list[tuple[str, str]]:
        """From and to."""
        return [(event.old, event.pipeline) for event in self.harness.recording.of(PipelineChanged)]


def test_a_model_that_cannot_be_had_at_the_start_leaves_the_call_to_the_cascade() -> None:
    call = Call(ScriptedRealtimeModel(), "Five.")
    call.model.fail_open(DOWN)
    call.caller.says("what is two and three", 0.5, 1.5)
    call.harness.run(until=4.0)
    assert call.harness.session.pipeline is call.cascade
    assert call.errors == [("pipeline", True)]
    assert call.changes == [("realtime", "cascading")]
    call.harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    assert call.harness.close_report is not None
    assert call.harness.close_report.is_clean


def test_the_start_fails_with_the_error_of_the_last_one() -> None:
    call = Call(ScriptedRealtimeModel())
    call.model.fail_open(DOWN)
    call.stt.fail_open(*[ProviderConnectionError("also down", provider="stt", retryable=False)] * 3)
    with pytest.raises(VoiceError, match="also down"):
        call.harness.run()


def test_a_model_that_is_lost_for_good_in_silence_leaves_the_call_to_the_cascade() -> None:
    call = Call(ScriptedRealtimeModel("One.", hears=["first"], delay=0.1), "Five.")
    call.caller.makes_noise(0.5, 1.0)
    call.caller.says("what is two and three", 4.0, 5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        call.fails()

    call.harness.run(scenario, until=8.0)
    assert call.errors == [("realtime_model", True)]
    assert call.changes == [("realtime", "cascading")]
    call.harness.expect_history(
        ("user", "first"), ("assistant", "One."), ("user", "what is two and three"), ("assistant", "Five.")
    )
    call.harness.expect_outcomes("completed", "completed")


def test_what_the_caller_was_saying_as_the_model_was_lost_is_heard_by_the_cascade_from_its_onset() -> None:
    call = Call(ScriptedRealtimeModel(), "Five.")
    call.caller.says("what is two and three", 1.0, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        call.fails()

    call.harness.run(scenario, until=6.0)
    call.harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    heard = call.stt.streams[0].pushed_seconds
    assert heard == pytest.approx(6.0 - 1.0, abs=0.6)  # with the second before the loss


def test_a_turn_whose_words_are_not_known_when_the_model_is_lost_is_heard_and_answered_by_the_cascade() -> None:
    call = Call(ScriptedRealtimeModel([5.0, "Never said."], delay=0.1), "Five.")
    call.caller.makes_noise(1.0, 2.0)  # committed at 2.4, the model does not answer in time

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        call.fails()
        await harness.until(3.3)
        call.stt.final("what is two and three")

    call.harness.run(scenario, until=6.0)
    assert call.harness.messages[-2:] == [("user", "what is two and three"), ("assistant", "Five.")]


def test_such_a_turn_is_as_long_for_a_model_that_is_given_it_at_once_as_it_was() -> None:
    first = ScriptedRealtimeModel([5.0, "Never said."], delay=0.1)
    second = ScriptedRealtimeModel("Five.", hears=["what is two and three"], delay=0.1, open_delay=0.2)
    spare = RealtimePipeline(second, vad=ScriptedVAD())
    pipeline = RealtimePipeline(first, vad=ScriptedVAD(), fallback=spare)
    harness = SessionHarness(Agent("Help."), model=first, pipeline=pipeline)
    harness.caller.makes_noise(1.0, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        first.fail_open(*[DOWN] * 9)
        first.fail(DOWN)

    harness.run(scenario, until=6.0)
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))


def test_what_the_caller_says_when_the_recogniser_beside_the_model_is_lost_is_heard_by_the_cascade() -> None:
    own, spare = ScriptedSTT(), ScriptedSTT()
    llm = ScriptedLLM("Five.", delay=0.1)
    cascade = CascadingPipeline(stt=spare, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())
    pipeline = RealtimePipeline(ScriptedRealtimeModel(), stt=own, vad=ScriptedVAD(), fallback=cascade)
    harness = SessionHarness(Agent("Help."), stt=spare, pipeline=pipeline)
    harness.caller.says("what is two and three", 1.0, 4.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        own.fail_open(*[ProviderConnectionError("down", provider="scripted")] * 9)  # tried again for a second
        own.fail()

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    assert spare.streams[0].pushed_seconds == pytest.approx(8.0 - 2.0, abs=0.1)  # from the loss on


@pytest.mark.parametrize(
    ("answer", "heard", "outcome"),
    [
        (["One two", 0.5, DOWN], "One", "failed"),  # text of a stream without an end is mapped with care
        (["One two", 0.5, " three."], "One two three.", "completed"),  # all of it had been sent
    ],
)
def test_the_answer_that_is_being_made_ends_as_its_stream_does_and_the_next_turn_works(
    answer: Step, heard: str, outcome: str
) -> None:
    call = Call(ScriptedRealtimeModel(answer, hears=["count"], delay=0.1), "Five.")
    call.caller.makes_noise(0.5, 1.0)
    call.caller.says("what is two and three", 4.0, 5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)
        call.fails()

    call.harness.run(scenario, until=8.0)
    call.harness.expect_history(
        ("user", "count"), ("assistant", heard), ("user", "what is two and three"), ("assistant", "Five.")
    )
    call.harness.expect_outcomes(outcome, "completed")
    assert call.harness.session.pipeline is call.cascade


def test_words_that_are_known_and_were_not_answered_are_answered_by_the_cascade() -> None:
    call = Call(ScriptedRealtimeModel([1.5, DOWN], hears=["what is two and three"], delay=0.1), "Five.")
    call.caller.makes_noise(1.0, 2.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.9)  # the words have come; the answer fails at 4.0
        call.stt.fail_open(ProviderConnectionError("not yet", provider="stt"))  # for half a second
        call.fails()

    call.harness.run(scenario, until=7.0)
    call.harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    assert call.changes == [("realtime", "cascading")]
    assert [turn.outcome for turn in call.harness.session.turns] == ["failed", "completed"]
    failed, answer = call.harness.session.turns
    assert (answer.kind, answer.answers_turn_id, failed.answers_turn_id) == ("reply", failed.turn_id, "")


def test_the_fallback_among_models_comes_before_that_of_the_pipeline() -> None:
    second = ScriptedRealtimeModel()
    call = Call(ScriptedRealtimeModel(), "Five.", second=second)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        call.model.fail_open(*[DOWN] * 9)
        call.model.fail()
        await harness.until(2.0)
        assert harness.session.pipeline is call.pipeline
        assert len(second.connections) == 1
        second.fail_open(*[DOWN] * 9)
        second.fail()
        await harness.until(4.0)
        await harness.session.reply("Say it.")

    call.harness.run(scenario)
    assert call.changes == [("realtime", "cascading")]
    assert call.errors == [("realtime_model", True)] * 4  # two lost connections, and two models passed over
    call.harness.expect_history(("assistant", "Five."))


def test_a_change_that_is_under_way_when_the_model_is_lost_takes_over_at_once() -> None:
    call = Call(ScriptedRealtimeModel(), "Five.")
    own = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM("Own.", delay=0.1), tts=ScriptedTTS(), vad=ScriptedVAD())
    call.caller.makes_noise(0.5, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.7)
        change = harness.session.update_pipeline(own)
        await harness.until(2.0)
        assert change.outcome is None
        call.fails()
        await change
        assert harness.now == pytest.approx(2.0)
        assert change.outcome == "completed"

    call.harness.run(scenario, until=5.0)
    assert call.harness.session.pipeline is own


class Breaking(CascadingPipeline):
    """Is lost for good by its first frame, in the very moment in which it takes over."""

    def open(self, context: PipelineContext) -> CascadingConnection:
        """Return its connection."""

        def fail(frame: AudioFrame) -> None:
            connection.push_audio = push  # type: ignore[method-assign]
            context.emit(PipelineFailed(DOWN, False, "stt"))
            push(frame)

        connection = super().open(context)
        push, connection.push_audio = connection.push_audio, fail  # type: ignore[method-assign]
        return connection


@pytest.mark.parametrize("has_fallback", [True, False])
def test_one_that_is_lost_as_it_takes_over_is_followed_by_its_fallback_or_ends_the_session(has_fallback: bool) -> None:
    call = Call(ScriptedRealtimeModel(), "Five.")
    breaking = Breaking(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD())
    breaking.fallback = call.cascade if has_fallback else None

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_pipeline(breaking)
        if has_fallback:
            await harness.until(2.0)
            await harness.session.reply("Say it.")
        else:
            report = await harness.session.wait_closed()
            assert report.reason == "error"

    call.harness.expects_error("stt" if has_fallback else "session").run(scenario)
    assert call.errors == [("stt", has_fallback)]
    assert call.changes == [("realtime", "cascading"), ("cascading", "cascading")][: 1 + has_fallback]
    call.harness.expect_history(*[("assistant", "Five.")] * has_fallback)


def test_a_fallback_that_cannot_be_had_either_ends_the_session() -> None:
    call = Call(ScriptedRealtimeModel())

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        call.stt.fail_open(*[ProviderConnectionError("also down", provider="stt", retryable=False)] * 3)
        call.fails()
        report = await harness.session.wait_closed()
        assert report.reason == "error"

    call.harness.expects_error("session").run(scenario)
    assert call.errors == [("realtime_model", True), ("pipeline", False)]


def test_without_a_fallback_a_lost_model_ends_the_session_as_before() -> None:
    model = ScriptedRealtimeModel()
    harness = SessionHarness(Agent("Help."), model=model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.fail_open(*[DOWN] * 9)
        model.fail(DOWN)
        report = await harness.session.wait_closed()
        assert report.reason == "error"

    harness.expects_error("session").run(scenario)
    assert [event.is_recovered for event in harness.recording.of(ErrorOccurred)] == [False]


@pytest.mark.parametrize("has_voice", [True, False])
def test_where_the_model_is_lost_a_voice_of_the_session_s_own_apologises(has_voice: bool) -> None:
    model = ScriptedRealtimeModel()
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), tts=ScriptedTTS() if has_voice else None)
    options = SessionOptions(apology="Sorry, please call again.")
    harness = SessionHarness(Agent("Help."), model=model, pipeline=pipeline, options=options)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        model.fail_open(*[DOWN] * 9)
        model.fail(DOWN)

    harness.expects_error("session").expects_error("realtime_model").run(scenario, until=8.0)
    assert harness.messages == ([("assistant", "Sorry, please call again.")] if has_voice else [])
    report = harness.close_report
    assert report is not None
    assert (report.reason, report.is_clean) == ("error", True)
    assert report.seconds < 3.0


def test_a_fallback_is_a_pipeline() -> None:
    with pytest.raises(ConfigurationError, match="fallback must be a Pipeline"):
        RealtimePipeline(ScriptedRealtimeModel(), fallback=ScriptedRealtimeModel())  # type: ignore[arg-type]


def test_records_of_turns_go_on_over_the_fallback() -> None:
    call = Call(ScriptedRealtimeModel("One.", hears=["first"], delay=0.1), "Five.")
    call.caller.makes_noise(0.5, 1.0)
    call.caller.says("what is two and three", 4.0, 5.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        call.fails()

    call.harness.run(scenario, until=8.0)
    records = [event.record for event in call.harness.recording.of(TurnCompleted)]
    assert [record.turn_id for record in records] == ["turn_1", "turn_2"]
    report = call.harness.session.report()
    assert report.pipeline == "cascading"
    assert {part.kind for part in report.components} == {"stt", "llm", "tts", "vad"}
    assert [mark.detail for mark in report.marks if mark.name == "pipeline_changed"] == ["realtime to cascading"]

"""`update_components`: other components take over in the middle of a call, and all other streams stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kit.pipeline import Muter
from vivavoce.agents import Agent, AgentOverrides, PipelineChange, RunContext, function_tool
from vivavoce.agents.events import ErrorOccurred, PipelineChanged
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline, PipelineCapabilities, PipelineConnection, PipelineContext
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import (
    HANG,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTurnDetector,
    ScriptedVAD,
    ScriptedVADStream,
)
from vivavoce.pipelines.turn_detector.base import TurnDetectorCapabilities, TurnDetectorStream

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

NUMBERS = "one two three four five six seven eight nine ten."

Scenario = Callable[[SessionHarness], Any]


def changing(at: float, changes: list[PipelineChange], **components: Any) -> Scenario:
    """A scenario that changes components at `at` and waits for the outcome."""

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(at)
        changes.append(harness.session.update_components(**components))
        await changes[-1]

    return scenario


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


def changed_at(harness: SessionHarness) -> list[float]:
    return [round(event.at, 3) for event in harness.recording.of(PipelineChanged)]


def cascade(*answers: Any, **more: Any) -> SessionHarness:
    return SessionHarness(more.pop("agent", None) or Agent("Help."), ScriptedLLM(*answers, delay=0.1), **more)


# --- the voice and the model


@BOTH
def test_a_speech_finishes_with_the_old_voice_and_the_next_one_has_the_new_voice() -> None:
    voice, changes = ScriptedTTS(), list[PipelineChange]()
    harness = cascade(NUMBERS, "Sure.")
    harness.caller.says("count please", 0.5, 1.0)
    harness.caller.says("thanks", 5.0, 5.5)
    harness.run(changing(2.0, changes, tts=voice), until=8.0)
    assert (harness.tts.texts, voice.texts) == ([NUMBERS], ["Sure."])
    assert changes[0].outcome == "completed"
    assert changed_at(harness) == [3.7]  # when the speech is over
    assert len(harness.stt.streams) == 1


def test_an_answer_that_waits_for_its_tool_goes_on_with_the_new_voice_and_model() -> None:
    voice, model = ScriptedTTS(), ScriptedLLM("Claro.", delay=0.1)

    class Host(Agent):
        @function_tool
        async def speak_spanish(self, ctx: RunContext) -> None:
            "Go on in Spanish."
            await ctx.session.update_components(tts=voice, llm=model)

    harness = cascade([ToolCall(call_id="c", name="speak_spanish", arguments="{}")], agent=Host("Help."))
    harness.caller.says("in Spanish please", 0.5, 1.0)
    harness.run(until=5.0)
    assert voice.texts == ["Claro."]
    harness.expect_history(("user", "in Spanish please"), ("assistant", "Claro."))


@BOTH
def test_a_change_of_the_voice_needs_no_half_second_of_audio() -> None:
    changes: list[PipelineChange] = []
    harness = cascade()
    harness.run(changing(1.0, changes, tts=ScriptedTTS()), until=2.0)
    assert changed_at(harness) == [1.0]


# --- the ears


@BOTH
def test_the_old_recogniser_hears_a_turn_to_its_end_and_the_new_one_the_next_turn() -> None:
    other, changes = ScriptedSTT(["second turn"]), list[PipelineChange]()
    harness = cascade("One.", "Two.", stt=ScriptedSTT(["first turn"]))
    harness.caller.makes_noise(0.5, 2.5)
    harness.caller.makes_noise(5.0, 6.0)
    harness.run(changing(1.0, changes, stt=other), until=9.0)
    harness.expect_history(
        ("user", "first turn"), ("assistant", "One."), ("user", "second turn"), ("assistant", "Two.")
    )
    assert changed_at(harness) == [3.4]
    (old,), (new,) = harness.stt.streams, other.streams
    assert old.is_closed
    assert new.is_closed  # with the session
    assert old.pushed_seconds == pytest.approx(3.4, abs=0.05)


@BOTH
def test_words_that_begin_as_the_recogniser_changes_are_heard_from_their_onset() -> None:
    other = ScriptedSTT(["hello"])
    harness = cascade("Hi.")
    harness.caller.makes_noise(2.46, 3.5)  # the vad knows it at 2.52
    harness.run(changing(2.0, [], stt=other), until=5.0)
    assert changed_at(harness) == [2.5]
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert other.streams[0].pushed_seconds == pytest.approx(5.0 - 2.0, abs=0.05)
    harness.expect_states("user", ("speaking", 2.46), ("idle", 3.5), ("listening", 4.2), ("idle", 4.4))


@BOTH
def test_a_new_vad_hears_the_half_second_before_it_took_over() -> None:
    vad = ScriptedVAD()
    harness = cascade("Hi.", stt=ScriptedSTT(["hello"]))
    harness.caller.makes_noise(2.46, 3.5)
    harness.run(changing(2.0, [], vad=vad), until=5.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    harness.expect_states("user", ("speaking", 2.46), ("idle", 3.5), ("listening", 4.2), ("idle", 4.4))
    assert harness.stt.streams[0].speech_starts == [pytest.approx(2.46, abs=0.001)]


@BOTH
def test_a_new_detector_judges_the_next_pause() -> None:
    detector = ScriptedTurnDetector(capabilities=TurnDetectorCapabilities(needs_audio=True, sample_rate=8000))
    old = ScriptedTurnDetector()
    harness = cascade("Hi.", "Ho.", turn_detector=old)
    harness.caller.says("one", 0.5, 1.0)
    harness.caller.says("two", 5.0, 5.5)
    harness.run(changing(3.0, [], turn_detector=detector), until=8.0)
    assert [context.text for context in old.asked] == ["one"]
    assert [context.text for context in detector.asked] == ["two"]


@BOTH
def test_noise_that_goes_on_stays_heard_by_the_vad_that_stays() -> None:
    harness = cascade("Hi.")
    harness.caller.makes_noise(0.5, 9.0)
    harness.caller.is_recognised("hello", 9.1)
    harness.run(changing(7.0, [], tts=ScriptedTTS()), until=12.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))


@pytest.mark.parametrize("part", ["tts", "llm"])
def test_a_voice_or_a_model_takes_over_in_the_caller_s_turn_and_answers_it(part: str) -> None:
    new: Any = ScriptedTTS() if part == "tts" else ScriptedLLM(default="Hi.", delay=0.1)
    harness = SessionHarness(Agent("Help."), ScriptedLLM(default="Hi." if part == "tts" else "Old.", delay=0.1))
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 4.0, interims=[(1.0, "hello")])
    harness.run(changing(2.0, [], **{part: new}), until=7.0)
    assert changed_at(harness) == [2.0]
    harness.expect_history(("user", "hello there"), ("assistant", "Hi."))
    assert set(new.texts if part == "tts" else harness.tts.texts) == {"Hi."}
    assert (harness.tts.texts == []) == (part == "tts")


@pytest.mark.parametrize("kind", ["cascade", "realtime"])
@pytest.mark.parametrize("part", ["tts", "stt"])
def test_the_session_goes_back_to_the_pipeline_with_which_it_began(kind: str, part: str) -> None:
    stt, voice = ScriptedSTT(["hello"]), ScriptedTTS()
    if kind == "cascade":
        llm = ScriptedLLM("Hi.", delay=0.1)
        harness = SessionHarness(
            Agent("Help."), pipeline=CascadingPipeline(stt=stt, llm=llm, tts=voice, vad=ScriptedVAD())
        )
    else:
        harness = hearing(ScriptedRealtimeModel("Hi.", hears=["hello"], delay=0.1), tts=voice, stt=stt)
    harness.caller.makes_noise(5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        session, first = harness.session, harness.pipeline
        new: Any = ScriptedTTS() if part == "tts" else ScriptedSTT()
        for change in (
            lambda: session.update_components(**{part: new}),
            lambda: session.update_agent(Agent("Help.", overrides=AgentOverrides(tts=ScriptedTTS()))),
        ):
            await change()
            assert session.pipeline is not first
            back = session.update_pipeline(first)
            await back
            assert (back.outcome, back.exception()) == ("completed", None)
            assert session.pipeline is first
        await session.say("Here again.")

    harness.run(scenario, until=8.0)
    assert voice.texts[0] == "Here again."
    harness.expect_history(("assistant", "Here again."), ("user", "hello"), ("assistant", "Hi."))
    assert all(stream.is_closed for stream in stt.streams)


# --- all or nothing


@BOTH
def test_of_several_components_none_takes_over_if_one_cannot_be_opened() -> None:
    stt, voice, changes = ScriptedSTT(), ScriptedTTS(), list[PipelineChange]()
    stt.fail_open(*[ProviderConnectionError("no such key", provider="scripted")] * 3)
    harness = cascade("Hi.")
    harness.expects_error("pipeline")
    harness.caller.says("hello", 3.0, 3.5)
    harness.run(changing(1.0, changes, stt=stt, tts=voice, vad=ScriptedVAD()), until=6.0)
    assert changes[0].outcome == "failed"
    assert isinstance(changes[0].exception(), ProviderError)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert (harness.tts.texts, voice.texts) == (["Hi."], [])
    assert errors(harness) == ["pipeline: scripted: no such key"]


def test_two_changes_hold_together() -> None:
    voice, model = ScriptedTTS(), ScriptedLLM("Sure.", delay=0.1)
    harness = cascade()
    harness.caller.says("hello", 2.0, 2.5)

    async def scenario(harness: SessionHarness) -> None:
        first = harness.session.update_components(tts=voice)
        second = harness.session.update_components(llm=model)
        await second
        assert (first.outcome, second.outcome) == ("completed", "completed")

    harness.run(scenario, until=5.0)
    assert voice.texts == ["Sure."]


@BOTH
def test_the_change_after_one_that_failed_begins_from_the_components_in_use() -> None:
    stt, voice = ScriptedSTT(), ScriptedTTS()
    stt.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * 3)
    harness = cascade("Hi.")
    harness.expects_error("pipeline")
    harness.caller.says("hello", 4.0, 4.5)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.update_components(stt=stt)
        await harness.session.update_components(tts=voice)

    harness.run(scenario, until=7.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert voice.texts == ["Hi."]
    assert len(harness.stt.streams) == 1


@BOTH
def test_a_recogniser_that_is_lost_before_its_moment_leaves_the_old_one_in_use() -> None:
    stt, changes = ScriptedSTT(), list[PipelineChange]()
    harness = cascade(NUMBERS, "Sure.")
    harness.expects_error("pipeline")
    harness.caller.says("count please", 0.5, 1.0)
    harness.caller.says("thanks", 6.0, 6.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.8)
        change = harness.session.update_components(stt=stt)
        await harness.until(2.6)
        stt.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * 3)
        stt.fail()
        await change
        changes.append(change)

    harness.run(scenario, until=9.0)
    assert changes[0].outcome == "failed"
    assert "gone" in str(changes[0].exception())
    harness.expect_history(("user", "count please"), ("assistant", NUMBERS), ("user", "thanks"), ("assistant", "Sure."))


class NoVAD(ScriptedVAD):
    def open(self) -> ScriptedVADStream:
        raise ProviderError("no such file", provider="scripted")


class NoDetector(ScriptedTurnDetector):
    def open(self) -> TurnDetectorStream:
        raise ProviderError("no such file", provider="scripted")


@BOTH
@pytest.mark.parametrize("broken", [{"vad": NoVAD()}, {"turn_detector": NoDetector()}], ids=["vad", "turn detector"])
def test_a_component_that_fails_as_it_takes_over_leaves_all_the_old_ones_in_use(broken: dict[str, Any]) -> None:
    voice, changes = ScriptedTTS(), list[PipelineChange]()
    harness = cascade("Hi.", "Ho.")
    harness.expects_error("pipeline")
    harness.caller.says("hello", 0.5, 1.5)
    harness.caller.says("and now", 6.0, 7.0)
    harness.run(changing(3.0, changes, tts=voice, **broken), until=9.0)
    assert changes[0].outcome == "failed"
    assert "no such file" in str(changes[0].exception())
    harness.expect_history(("user", "hello"), ("assistant", "Hi."), ("user", "and now"), ("assistant", "Ho."))
    assert (harness.tts.texts, voice.texts) == (["Hi.", "Ho."], [])
    assert len(errors(harness)) == 1


@BOTH
def test_no_moment_within_the_limit_fails_the_change() -> None:
    stt, changes = ScriptedSTT(), list[PipelineChange]()
    harness = cascade(NUMBERS)
    harness.expects_error("pipeline")
    harness.caller.says("count please", 0.5, 1.0)
    harness.run(changing(1.8, changes, stt=stt, within=0.5), until=5.0)
    assert (changes[0].outcome, str(changes[0].exception())) == ("failed", "no moment came within 0.5 s without speech")
    assert stt.streams[0].is_closed


@BOTH
def test_a_recogniser_that_dies_for_good_is_followed_by_the_one_that_is_being_opened() -> None:
    old, new = ScriptedSTT(), ScriptedSTT(["and then"], open_delay=3.0)
    harness = cascade("Hi.", stt=old)
    harness.expects_error("stt")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        change = harness.session.update_components(stt=new)
        await harness.until(1.2)
        old.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * 3)
        old.fail(ProviderConnectionError("gone", provider="scripted"))
        await change
        assert change.outcome == "completed"

    harness.caller.makes_noise(4.0, 5.0)
    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "and then"), ("assistant", "Hi."))


@BOTH
def test_the_close_ends_a_change_and_every_stream() -> None:
    stt, voice, changes = ScriptedSTT(open_delay=HANG), ScriptedTTS(), list[PipelineChange]()
    harness = cascade()

    async def scenario(harness: SessionHarness) -> None:
        changes.append(harness.session.update_components(stt=stt, tts=voice))
        await harness.until(1.0)

    harness.run(scenario)
    assert changes[0].outcome == "cancelled"
    assert harness.close_report is not None
    assert harness.close_report.seconds < 1.0


# --- realtime models


def hearing(model: ScriptedRealtimeModel, **parts: Any) -> SessionHarness:
    vad = parts.pop("vad", None) or ScriptedVAD()
    return SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model, vad=vad, **parts))


def test_the_voice_of_say_changes_beside_a_realtime_model_whose_connection_stays() -> None:
    model, old, new = ScriptedRealtimeModel(), ScriptedTTS(), ScriptedTTS()
    harness = hearing(model, tts=old)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("One.")
        await harness.session.update_components(tts=new)
        await harness.session.say("Two.")

    harness.run(scenario)
    assert (old.texts, new.texts) == (["One."], ["Two."])
    assert len(model.connections) == 1


def test_the_vad_changes_beside_a_realtime_model_which_hears_the_turn() -> None:
    model, vad = ScriptedRealtimeModel("Hi.", hears=["hello"], delay=0.1), ScriptedVAD()
    harness = hearing(model)
    harness.caller.makes_noise(2.46, 3.5)
    harness.run(changing(2.0, [], vad=vad), until=6.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert len(model.connections) == 1


def test_a_recogniser_beside_a_realtime_model_changes_and_the_model_s_connection_stays() -> None:
    model = ScriptedRealtimeModel("Hi.", delay=0.1)
    old, new = ScriptedSTT(), ScriptedSTT(["hello"])
    harness = hearing(model, stt=old)
    harness.caller.makes_noise(3.0, 4.0)
    harness.run(changing(2.0, [], stt=new), until=6.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert len(model.connections) == 1
    assert old.streams[0].is_closed


def test_a_first_recogniser_gives_the_realtime_model_a_new_connection_with_the_history() -> None:
    model = ScriptedRealtimeModel("Hi.", "Ho.", hears=["hello"], delay=0.1)
    stt = ScriptedSTT(["bye"])
    harness = hearing(model)
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(5.0, 6.0)
    harness.run(changing(3.0, [], stt=stt), until=8.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."), ("user", "bye"), ("assistant", "Ho."))
    assert [connection.setup.transcribe for connection in model.connections] == [True, False]
    assert [item.content for item in model.connections[1].setup.history.messages()] == ["hello", "Hi."]


def test_a_realtime_pipeline_takes_no_llm() -> None:
    harness = hearing(ScriptedRealtimeModel())

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match=r"'an llm'.*use update_pipeline"):
            _ = harness.session.update_components(llm=ScriptedLLM())

    harness.run(scenario)


def test_a_detector_needs_the_vad_beside_a_realtime_model_whose_server_decides() -> None:
    model = ScriptedRealtimeModel()
    detector = ScriptedTurnDetector(capabilities=TurnDetectorCapabilities(needs_transcript=False, needs_audio=True))
    harness = SessionHarness(Agent("Help."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match="give RealtimePipeline a vad"):
            _ = harness.session.update_components(turn_detector=detector)

    harness.run(scenario)


# --- wrong input


def test_a_component_of_another_port_none_at_all_and_one_that_lacks_a_part_are_refused() -> None:
    stt = ScriptedSTT()
    harness = SessionHarness(
        Agent("Help."), stt=stt, pipeline=CascadingPipeline(stt=stt, llm=ScriptedLLM(), tts=ScriptedTTS())
    )

    async def scenario(harness: SessionHarness) -> None:
        change = harness.session.update_components
        with pytest.raises(ConfigurationError, match=r"tts must be an instance of TTS, got"):
            _ = change(tts=stt)  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="needs a component, got none"):
            _ = change()
        with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
            _ = change(stt=ScriptedSTT(capabilities=STTCapabilities(needs_flush=True)))

    harness.run(scenario)


class _OwnPipeline(Pipeline):
    """An application's own pipeline."""

    name = "own"

    def __init__(self, inner: CascadingPipeline) -> None:
        self.inner = inner

    @property
    def capabilities(self) -> PipelineCapabilities:
        return self.inner.capabilities

    def open(self, context: PipelineContext) -> PipelineConnection:
        return self.inner.open(context)


def test_a_pipeline_of_another_kind_refuses_a_change_of_single_components() -> None:
    stt = ScriptedSTT()
    inner = CascadingPipeline(stt=stt, llm=ScriptedLLM(), tts=ScriptedTTS())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=_OwnPipeline(inner))

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(CapabilityError, match="own lacks"):
            _ = harness.session.update_components(tts=ScriptedTTS())

    harness.run(scenario)


@BOTH
def test_a_denoiser_of_another_rate_comes_and_goes_and_the_others_hear_on() -> None:
    muter, changes = Muter(), list[PipelineChange]()
    harness = cascade("Hi.", stt=ScriptedSTT(["hello"]))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.makes_noise(6.0, 7.0)  # muted
    harness.run(changing(3.5, changes, denoise=muter), until=10.0)
    assert changes[0].outcome == "completed"
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert harness.stt.streams[0].pushed_seconds == pytest.approx(10.0, abs=0.1)

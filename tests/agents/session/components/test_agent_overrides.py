"""Components of an agent: taken in the handoff to it, and given back in the handoff from it."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents import Agent, AgentOverrides, AgentSession, AgentState, function_tool
from vivavoce.agents.events import ErrorOccurred, PipelineChanged
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, ProviderConnectionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedTurnDetector, ScriptedVAD

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

TRANSFER = [ToolCall(call_id="c", name="transfer", arguments="{}")]


class Clerk(Agent):
    """Greets and says goodbye, and hands over to `to`."""

    def __init__(self, name: str, to: Agent | None = None, **overrides: Any) -> None:
        super().__init__(f"You are {name}.", id=name, overrides=AgentOverrides(**overrides))
        self.to = to

    @function_tool
    async def transfer(self) -> Agent | None:
        """Hand the caller over."""
        return self.to

    async def on_enter(self) -> None:
        await self.session.say(f"{self.id} here.")

    async def on_exit(self) -> None:
        if self.session.agent_state is not AgentState.CLOSING:
            await self.session.say(f"{self.id} leaves.")


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


@BOTH
def test_each_agent_speaks_with_its_own_voice_from_its_first_to_its_last_word() -> None:
    voice = ScriptedTTS()
    second = Clerk("second", tts=voice)
    first = second.to = Clerk("first", second)
    harness = SessionHarness(first, ScriptedLLM(TRANSFER, TRANSFER, delay=0.1))
    harness.caller.says("second please", 2.0, 2.5)
    harness.caller.says("first please", 6.0, 6.5)
    harness.run(until=10.0)
    assert harness.tts.texts == ["first here.", "first leaves.", "first here."]
    assert voice.texts == ["second here.", "second leaves."]
    assert len(harness.recording.of(PipelineChanged)) == 2
    assert harness.session.pipeline is harness.pipeline
    assert len(harness.stt.streams) == 1


def test_an_agent_s_ears_and_model_serve_in_its_time_only() -> None:
    stt, model, vad = ScriptedSTT(["inside"]), ScriptedLLM("Second answers.", TRANSFER, delay=0.1), ScriptedVAD()
    detector = ScriptedTurnDetector()
    second = Clerk("second", stt=stt, llm=model, vad=vad, turn_detector=detector)
    first = second.to = Clerk("first", second)
    harness = SessionHarness(first, ScriptedLLM(TRANSFER, "First answers.", delay=0.1))
    harness.caller.says("second please", 2.0, 2.5)
    harness.caller.makes_noise(6.0, 6.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.5)
        await harness.session.update_agent(first)
        harness.caller.says("and now", 12.0, 12.5)

    harness.run(scenario, until=16.0)
    assert ("user", "inside") in harness.messages
    assert ("assistant", "Second answers.") in harness.messages
    assert harness.messages[-2:] == [("user", "and now"), ("assistant", "First answers.")]
    assert [context.text for context in detector.asked] == ["inside"]
    assert all(stream.is_closed for stream in stt.streams)
    assert all(stream.is_closed for stream in vad.streams)


def test_an_agent_s_ears_beside_a_realtime_model_serve_in_its_time_only() -> None:
    stt, vad, detector = ScriptedSTT(["inside"]), ScriptedVAD(), ScriptedTurnDetector()
    second = Clerk("second", stt=stt, vad=vad, turn_detector=detector)
    first = second.to = Clerk("first", second)
    own, own_detector = ScriptedSTT(["second please", "and now"]), ScriptedTurnDetector()
    model = ScriptedRealtimeModel(TRANSFER, "Second answers.", "First answers.", delay=0.1)
    pipeline = RealtimePipeline(model, stt=own, vad=ScriptedVAD(), tts=ScriptedTTS(), turn_detector=own_detector)
    harness = SessionHarness(first, model=model, pipeline=pipeline)
    harness.caller.makes_noise(2.0, 2.5)
    harness.caller.makes_noise(6.0, 6.5)
    harness.caller.makes_noise(12.0, 12.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.5)
        await harness.session.update_agent(first)

    harness.run(scenario, until=16.0)
    texts = ["second please", "inside", "Second answers.", "and now", "First answers."]
    assert [text for _, text in harness.messages if text in texts] == texts
    assert [context.text for context in detector.asked] == ["inside"]
    assert [context.text for context in own_detector.asked] == ["second please", "and now"]
    assert all(stream.is_closed for stream in stt.streams)
    assert all(stream.is_closed for stream in vad.streams)
    assert len(model.connections) == 1


@BOTH
def test_the_first_agent_of_a_session_has_its_components_from_the_start() -> None:
    voice, stt = ScriptedTTS(), ScriptedSTT()
    harness = SessionHarness(Clerk("first", tts=voice, turn_detector=ScriptedTurnDetector()), stt=stt)
    harness.run(until=3.0)
    assert (voice.texts, harness.tts.texts) == (["first here."], [])


@pytest.mark.parametrize("has_ears", [False, True])
def test_an_agent_that_replaces_the_first_one_during_the_start_greets_with_its_own_voice(has_ears: bool) -> None:
    voice = ScriptedTTS()
    ears: dict[str, Any] = {"stt": ScriptedSTT(["hello"], open_delay=3.0)} if has_ears else {}
    harness = SessionHarness(Clerk("first"), ScriptedLLM("Yes.", delay=0.1), stt=ScriptedSTT(open_delay=2.0))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_agent(Clerk("second", tts=voice, **ears))
        await harness.started()

    harness.run(scenario, until=7.0, waits_for_start=False)
    assert (voice.texts, harness.tts.texts) == (["second here."], [])


def test_an_agent_that_replaces_the_first_one_during_the_start_enters_if_its_components_cannot_be_had() -> None:
    stt = ScriptedSTT()
    stt.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * 3)
    harness = SessionHarness(Clerk("first"), stt=ScriptedSTT(open_delay=2.0))
    harness.expects_error("pipeline")

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_agent(Clerk("second", tts=ScriptedTTS(), stt=stt))
        await harness.started()

    harness.run(scenario, until=7.0, waits_for_start=False)
    assert harness.tts.texts == ["second here."]


def test_an_override_that_does_not_fit_is_refused_at_once() -> None:
    llm = ScriptedLLM()
    needy = ScriptedSTT(capabilities=STTCapabilities(needs_flush=True))
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=llm, tts=ScriptedTTS())
    with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
        AgentSession[None](Clerk("first", stt=needy), pipeline)
    session = AgentSession[None](Clerk("first"), pipeline)
    with pytest.raises(CapabilityError, match="give CascadingPipeline a vad"):
        _ = session.update_agent(Clerk("second", stt=needy))
    realtime = RealtimePipeline(ScriptedRealtimeModel(), vad=ScriptedVAD())
    with pytest.raises(CapabilityError, match="use update_pipeline"):
        AgentSession[None](Clerk("first", llm=llm), realtime)
    with pytest.raises(ConfigurationError, match="tts must be an instance of TTS"):
        AgentOverrides(tts=llm)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="overrides must be"):
        Agent("Help.", overrides={"tts": ScriptedTTS()})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="context must be a function"):
        AgentOverrides(context=3)  # type: ignore[arg-type]


def test_a_tool_that_hands_over_to_an_agent_that_does_not_fit_leaves_the_conversation_with_the_old_one() -> None:
    needy = ScriptedTurnDetector()
    model = ScriptedRealtimeModel(TRANSFER, "I am sorry.", hears=["second please"], delay=0.1)
    first = Clerk("first", Clerk("second", llm=ScriptedLLM(), turn_detector=needy))
    harness = SessionHarness(first, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), tts=ScriptedTTS()))
    harness.expects_error("tool")
    harness.caller.makes_noise(2.0, 2.5)
    harness.run(until=6.0)
    assert harness.session.agent is first
    assert "cannot take over" in errors(harness)[0]


@BOTH
def test_components_that_cannot_be_opened_fail_the_handoff_and_the_agent_goes_on_with_the_others() -> None:
    stt, voice = ScriptedSTT(), ScriptedTTS()
    stt.fail_open(*[ProviderConnectionError("gone", provider="scripted")] * 3)
    second = Clerk("second", stt=stt, tts=voice)
    harness = SessionHarness(Clerk("first"), ScriptedLLM("Yes.", delay=0.1))
    harness.expects_error("pipeline")
    harness.caller.says("hello", 8.0, 8.5)

    async def scenario(harness: SessionHarness) -> None:
        handoff = harness.session.update_agent(second)
        await handoff
        assert handoff.outcome == "failed"
        assert "gone" in str(handoff.exception())

    harness.run(scenario, until=12.0)
    assert harness.session.agent is second
    assert harness.tts.texts[-2:] == ["second here.", "Yes."]
    assert voice.texts == []
    assert errors(harness) == ["pipeline: scripted: gone"]


def test_a_component_that_changes_in_an_agent_s_time_is_the_session_s_unless_the_agent_has_its_own() -> None:
    agents_voice, voice, model = ScriptedTTS(), ScriptedTTS(), ScriptedLLM("Yes.", delay=0.1)
    second, first = Clerk("second", tts=agents_voice), Clerk("first")
    harness = SessionHarness(first)
    harness.caller.says("hello", 11.0, 11.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.update_agent(second)
        await session.update_components(tts=voice, llm=model)
        await session.say("Changed.")
        await session.update_agent(first)

    harness.run(scenario, until=14.0)
    assert (agents_voice.texts, voice.texts) == (["second here."], ["Changed.", "second leaves."])
    assert harness.tts.texts[-2:] == ["first here.", "Yes."]


def test_a_pipeline_that_changes_in_an_agent_s_time_is_the_session_s_own_as_it_is() -> None:
    agents_voice, other = ScriptedTTS(), ScriptedTTS()
    second, first = Clerk("second", tts=agents_voice), Clerk("first")
    harness = SessionHarness(first)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.update_agent(second)
        await session.update_pipeline(CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=other))
        await session.say("Changed.")
        await session.update_agent(first)

    harness.run(scenario, until=12.0)
    assert agents_voice.texts == ["second here."]
    assert other.texts == ["Changed.", "second leaves.", "first here."]


def test_a_component_that_changes_beside_a_realtime_model_is_the_session_s_unless_the_agent_has_its_own() -> None:
    agents_voice, old, new, stt = ScriptedTTS(), ScriptedTTS(), ScriptedTTS(), ScriptedSTT(["hello"])
    second, first = Clerk("second", tts=agents_voice), Clerk("first")
    model = ScriptedRealtimeModel("Yes.", delay=0.1)
    pipeline = RealtimePipeline(model, vad=ScriptedVAD(), stt=ScriptedSTT(), tts=old)
    harness = SessionHarness(first, model=model, pipeline=pipeline)
    harness.caller.makes_noise(11.0, 11.5)

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.update_agent(second)
        await session.update_components(tts=new, stt=stt)
        await session.say("Changed.")
        await session.update_agent(first)

    harness.run(scenario, until=14.0)
    assert (agents_voice.texts, new.texts) == (["second here."], ["Changed.", "second leaves."])
    assert old.texts[-1] == "first here."
    assert harness.messages[-2:] == [("user", "hello"), ("assistant", "Yes.")]


def test_the_voice_of_an_agent_beside_a_realtime_model() -> None:
    model, own, other = ScriptedRealtimeModel("Hi.", delay=0.1), ScriptedTTS(), ScriptedTTS()
    second = Clerk("second", tts=other)
    first = Clerk("first", second)
    harness = SessionHarness(first, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), tts=own))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(second)
        await harness.session.update_agent(first)

    harness.run(scenario, until=8.0)
    assert own.texts == ["first here.", "first leaves.", "first here."]
    assert other.texts == ["second here.", "second leaves."]
    assert len(model.connections) == 1


@BOTH
def test_a_handoff_between_agents_without_components_changes_nothing() -> None:
    harness = SessionHarness(Clerk("first"))

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.update_agent(Clerk("second"))

    harness.run(scenario, until=4.0)
    assert not harness.recording.of(PipelineChanged)

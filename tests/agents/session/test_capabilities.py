"""A pipeline refuses requests beyond its capabilities at once, and the error names the remedy."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent, AgentSession, EndpointingOptions
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline, Pipeline, RealtimePipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError
from vivavoce.pipelines.llm.base import LLMCapabilities
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
    run_virtual,
)

PICTURE = VideoFrame(b"\xff\xd8", "image/jpeg", 1, 1)


async def started(pipeline: Pipeline) -> AgentSession[None]:
    clock = VirtualClock()
    session = AgentSession[None](Agent("Help."), pipeline, options=SessionOptions(clock=clock))
    await session.start(LocalTransport(clock))
    return session


def test_a_pipeline_without_a_model_speaks_but_refuses_to_reply() -> None:
    async def scenario() -> None:
        async with await started(CascadingPipeline(tts=ScriptedTTS())) as session:
            await session.say("Hello.")
            with pytest.raises(CapabilityError, match="give the pipeline an llm"):
                _ = session.reply("Greet.")

    run_virtual(scenario())


def test_a_pipeline_that_can_neither_speak_nor_answer_is_refused_by_the_constructor() -> None:
    with pytest.raises(CapabilityError, match="give the pipeline a tts"):
        AgentSession(Agent("Help."), CascadingPipeline(stt=ScriptedSTT()))


def test_a_fallback_that_does_not_fit_is_refused_before_it_is_needed() -> None:
    deaf = RealtimePipeline(ScriptedRealtimeModel(), fallback=CascadingPipeline(stt=ScriptedSTT()))
    with pytest.raises(CapabilityError, match="give the pipeline a tts"):
        AgentSession(Agent("Help."), deaf)
    ends_turns = RealtimePipeline(ScriptedRealtimeModel())  # its server does
    local = RealtimePipeline(ScriptedRealtimeModel(), vad=ScriptedVAD(), fallback=ends_turns)
    manual = SessionOptions(endpointing=EndpointingOptions(mode="manual"))
    with pytest.raises(CapabilityError, match="manual"):
        AgentSession(Agent("Help."), local, options=manual)


def test_pictures_go_to_a_model_that_sees_for_that_reply_only() -> None:
    async def scenario() -> None:
        llm = ScriptedLLM("A cat.", "Yes.", capabilities=LLMCapabilities(supports_images=True))
        async with await started(CascadingPipeline(llm=llm, tts=ScriptedTTS())) as session:
            await session.reply("What is this?", frames=[PICTURE])
            await session.reply("Sure?")
        assert [[m.images for m in request.context.messages("user")] for request in llm.requests] == [[(PICTURE,)], []]

    run_virtual(scenario())


def test_pictures_go_to_a_realtime_model_that_sees_and_leave_its_conversation_with_the_answer() -> None:
    sees = RealtimeCapabilities(supports_images=True, deletes=True)

    async def scenario() -> None:
        model = ScriptedRealtimeModel("A cat.", "Yes.", capabilities=sees)
        async with await started(RealtimePipeline(model)) as session:
            await session.reply("What is this?", frames=[PICTURE])
            record = model.connections[0].record
            (shown,) = record.appended
            assert isinstance(shown, ChatMessage)
            assert (shown.images, record.deleted) == ((PICTURE,), [shown.id])
            await session.reply("Sure?")
            assert record.appended == [shown]
            assert [item.content for item in session.history.messages()] == ["A cat.", "Yes."]

    run_virtual(scenario())


def test_pictures_are_refused_by_a_model_that_does_not_see() -> None:
    async def scenario() -> None:
        async with await started(CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS())) as session:
            with pytest.raises(CapabilityError, match="supports_images"):
                _ = session.reply("What is this?", frames=[PICTURE])

    run_virtual(scenario())


@pytest.mark.parametrize(("agent", "pipeline"), [("host", CascadingPipeline(tts=ScriptedTTS())), (Agent("x"), "tts")])
def test_what_is_no_agent_or_no_pipeline_is_refused(agent: object, pipeline: object) -> None:
    with pytest.raises(ConfigurationError, match="must be a"):
        AgentSession(agent, pipeline)  # type: ignore[arg-type]  # the mistake under test


def test_a_pipeline_that_answers_without_ears_is_warned_about_once_in_a_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        async with await started(CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS())) as session:
            assert caplog.text.count("answers but hears nothing") == 1
            await session.update_agent(Agent("Help too."))
            assert caplog.text.count("answers but hears nothing") == 1
            await session.update_pipeline(CascadingPipeline(llm=ScriptedLLM(), tts=ScriptedTTS()))
            assert caplog.text.count("answers but hears nothing") == 2, "another pipeline"

    run_virtual(scenario())

"""Stage hooks of agents, and observers of stages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, SessionOptions, SpeechLimits
from vivavoce.agents.agent import Generate, Speak
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedTTS, SessionHarness
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import HANG, ScriptedVAD
from vivavoce.pipelines.tts.base import AudioChunk

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

NUMBERS = "one two three four five six seven eight nine ten."

Transcript = UserFinal | UserInterim


class Redacting(Agent):
    """Hides digits in the caller's words, and in the model's."""

    async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
        async for transcript in transcripts:
            yield replace(transcript, text=transcript.text.replace("7", "#"))

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        async for event in generate(request):
            yield event.text.replace("7", "#") if isinstance(event, TextDelta) else event


class Tagging(Agent):
    """Puts a tag before each answer, for the voice only."""

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        async def tagged() -> AsyncIterator[str]:
            yield "(cheerful) "
            async for piece in text:
                yield piece

        async for chunk in speak(tagged()):
            yield chunk


def call(agent: Agent, *answers: Any, limits: SpeechLimits | None = None, **more: Any) -> SessionHarness:
    options = SessionOptions(speech=limits) if limits is not None else None
    return SessionHarness(agent, ScriptedLLM(*answers, delay=0.1), options=options, **more)


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


# --- what hooks change


@BOTH
def test_transcripts_and_answers_are_redacted_before_the_history_and_the_voice_get_them() -> None:
    harness = call(Redacting("Help."), "Your code is 77.")
    harness.caller.says("my code is 7", 0.5, 1.5)
    harness.run(until=4.0)
    harness.expect_history(("user", "my code is #"), ("assistant", "Your code is ##."))
    assert harness.tts.texts == ["Your code is ##."]


@BOTH
def test_a_hook_looks_something_up_and_adds_it_to_the_request() -> None:
    class Knowing(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            await anyio.sleep(0.2)
            async for event in generate(replace(request, extra_instructions="Open until six.")):
                yield event

    harness = call(Knowing("Help."), "Until six.")
    harness.caller.says("how long", 0.5, 1.0)
    harness.run(until=4.0)
    assert harness.llm.requests[0].extra_instructions == "Open until six."
    harness.expect_history(("user", "how long"), ("assistant", "Until six."))


@BOTH
def test_a_hook_answers_without_the_model_and_lets_tool_calls_through() -> None:
    ran: list[str] = []

    async def look(day: str) -> str:
        "Look at the calendar."
        ran.append(day)
        return "free"

    class Short(Redacting):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            if len(request.context.messages("user")) > 1:
                yield "Bye."
                return
            async for event in generate(request):
                yield event

    step = [ToolCall(call_id="c", name="look", arguments='{"day": "friday"}')]
    harness = call(Short("Help.", tools=[look]), step, "Friday is free.")
    harness.caller.says("friday", 0.5, 1.0)
    harness.caller.says("thanks", 4.0, 4.5)
    harness.run(until=7.0)
    assert ran == ["friday"]
    harness.expect_history(
        ("user", "friday"), ("assistant", "Friday is free."), ("user", "thanks"), ("assistant", "Bye.")
    )


@BOTH
def test_the_voice_gets_tags_which_the_history_does_not_have() -> None:
    harness = call(Tagging("Help."), "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(lambda it: say(it, "Welcome."), until=4.0)
    assert harness.tts.texts == ["(cheerful) Welcome.", "(cheerful) Sure."]
    harness.expect_history(("assistant", "Welcome."), ("user", "hello"), ("assistant", "Sure."))


async def say(harness: SessionHarness, text: str) -> None:
    await harness.session.say(text)


@BOTH
def test_of_a_text_that_a_hook_changed_the_heard_words_are_estimated() -> None:
    harness = call(Tagging("Help."), NUMBERS, "Ok.")
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.says("stop it now", 2.7, 3.6)
    harness.run(until=7.0)
    heard = harness.session.turns[0].heard_text
    assert harness.session.turns[0].outcome == "interrupted"
    assert NUMBERS.startswith(heard)
    assert 4 <= len(heard.split()) <= 8  # 1.5 s of 2.2 s had been played


@BOTH
def test_a_text_that_a_hook_does_not_change_keeps_its_word_times() -> None:
    class Listening(Agent):
        async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
            async for chunk in speak(text):
                yield chunk

    def heard(agent: Agent) -> str:
        harness = call(agent, NUMBERS, "Ok.")
        harness.caller.says("count", 0.5, 1.0)
        harness.caller.says("stop it now", 2.7, 3.6)
        harness.run(until=7.0)
        return harness.session.turns[0].heard_text

    assert heard(Listening("Help.")) == heard(Agent("Help.")) != ""


@BOTH
def test_an_agent_s_hooks_end_with_its_time() -> None:
    first, second = Redacting("First."), Agent("Second.")
    harness = call(first, "Code 7.", "Code 7.")
    harness.caller.says("one 7", 0.5, 1.0)
    harness.caller.says("two 7", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.update_agent(second)

    harness.run(scenario, until=8.0)
    harness.expect_history(("user", "one #"), ("assistant", "Code #."), ("user", "two 7"), ("assistant", "Code 7."))


@BOTH
def test_a_transcript_stage_may_drop_transcripts_and_keeps_the_order() -> None:
    class Dropping(Agent):
        async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
            async for transcript in transcripts:
                await anyio.sleep(0.05)
                if transcript.text != "uh":
                    yield transcript

    harness = call(Dropping("Help."), "Sure.")
    harness.caller.makes_noise(0.5, 2.0)
    for at, text in ((1.0, "uh"), (1.01, "one"), (1.02, "two"), (2.0, "three")):
        harness.caller.is_recognised(text, at)
    harness.run(until=5.0)
    harness.expect_history(("user", "one two three"), ("assistant", "Sure."))


# --- a hook that fails


class Broken(Agent):
    """Its hook `broken` raises, or hangs, once."""

    def __init__(self, broken: str, *, hangs: bool = False, late: bool = False) -> None:
        super().__init__("Help.")
        self.broken, self.hangs, self.late = broken, hangs, late

    async def fail(self, hook: str) -> None:
        if self.broken == hook:
            self.broken = ""
            if self.hangs:
                await anyio.sleep_forever()
            raise ZeroDivisionError("by my own")

    async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
        async for transcript in transcripts:
            await self.fail("stt")
            yield transcript

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        if not self.late:
            await self.fail("llm")
        async for event in generate(request):
            yield event
            await self.fail("llm")

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        if not self.late:
            await self.fail("tts")
        async for chunk in speak(text):
            yield chunk
            await self.fail("tts")


@BOTH
@pytest.mark.parametrize("late", [False, True], ids=["at once", "after its first item"])
@pytest.mark.parametrize("hook", ["llm", "tts"])
def test_a_hook_that_raises_fails_the_turn_by_name_and_the_next_one_works(hook: str, late: bool) -> None:
    is_asked = hook == "tts" or late
    harness = call(Broken(hook, late=late), *(["One."] if is_asked else []), "Two.")
    harness.expects_error(f"{hook}_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)
    harness.run(until=9.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed", "completed"]
    (error,) = errors(harness)
    assert error.startswith(f"{hook}_stage: {hook}_stage: the hook raised")
    assert harness.messages[-2:] == [("user", "second"), ("assistant", "Two.")]


@BOTH
@pytest.mark.parametrize("hook", ["llm", "tts"])
def test_a_hook_that_hangs_fails_the_turn_within_its_limit_and_is_named(hook: str) -> None:
    limits = SpeechLimits(llm_first_token=1.0, tts_first_byte=1.0)
    harness = call(Broken(hook, hangs=True), *(["One."] if hook == "tts" else []), "Two.", limits=limits)
    harness.expects_error(f"{hook}_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)
    harness.run(until=9.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed", "completed"]
    assert f"{hook}_stage" in errors(harness)[0]


@BOTH
def test_a_model_that_fails_behind_a_hook_is_blamed_itself() -> None:
    harness = call(Broken(""), [RuntimeError("no model")], "Two.")
    harness.expects_error("llm")
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=4.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]


@BOTH
def test_a_model_that_hangs_behind_a_hook_is_blamed_itself() -> None:
    harness = call(Broken(""), [HANG], limits=SpeechLimits(llm_first_token=1.0))
    harness.expects_error("llm")
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=5.0)
    assert errors(harness)[0].startswith("llm: llm: ")


@BOTH
@pytest.mark.parametrize("hangs", [False, True], ids=["raises", "hangs"])
def test_words_that_a_broken_transcript_stage_had_are_not_lost(hangs: bool) -> None:
    harness = call(Broken("stt", hangs=hangs), "One.", "Two.", limits=SpeechLimits(stt_stage=0.3))
    harness.expects_error("stt_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)
    harness.run(until=9.0)
    harness.expect_history(("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two."))
    assert len(errors(harness)) == 1


class Stuck(Agent):
    """Its transcript stage hangs before its first read, after its last one, or after it has given up a read."""

    def __init__(self, where: str, *, id: str = "stuck") -> None:
        super().__init__("Help.", id=id)
        self.where = where
        self.seen: list[str] = []

    async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
        if self.where == "before":
            await anyio.sleep_forever()
        if self.where == "given up":
            yield await anext(transcripts)
            with anyio.move_on_after(1.0):
                await anext(transcripts)
            await anyio.sleep_forever()
        async for transcript in transcripts:
            self.seen.append(transcript.text)
            yield transcript
        if self.where == "after":
            await anyio.sleep_forever()


@BOTH
@pytest.mark.parametrize("where", ["before", "given up"])
def test_words_do_not_wait_for_a_transcript_stage_that_hangs_outside_of_a_transcript(where: str) -> None:
    harness = call(Stuck(where), "One.", "Two.", limits=SpeechLimits(stt_stage=0.3))
    harness.expects_error("stt_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)
    harness.run(until=9.0)
    harness.expect_history(("user", "first"), ("assistant", "One."), ("user", "second"), ("assistant", "Two."))
    assert "the hook did not ask for the next transcript for 0.3 s" in errors(harness)[0]


@BOTH
def test_the_stage_of_the_next_agent_gets_its_words_if_that_of_the_agent_before_does_not_end() -> None:
    after = Stuck("", id="after")
    harness = call(Stuck("after"), "One.", "Two.", limits=SpeechLimits(stt_stage=0.3))
    harness.expects_error("stt_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.update_agent(after)

    harness.run(scenario, until=9.0)
    assert after.seen[-1] == "second"
    assert harness.messages[-2:] == [("user", "second"), ("assistant", "Two.")]
    assert len(errors(harness)) == 1


@BOTH
def test_hooks_of_another_kind_or_with_other_items_fail_by_name() -> None:
    class Wrong(Agent):
        async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
            async for transcript in transcripts:
                yield transcript.text  # type: ignore[misc]

        async def llm_stage(  # type: ignore[override]
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            return generate(request)  # type: ignore[return-value]

    harness = call(Wrong("Help."))
    harness.expects_error("stt_stage")
    harness.expects_error("llm_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=4.0)
    assert errors(harness)[0] == "stt_stage: stt_stage: needed a transcript, got str"
    assert "needed an async generator" in errors(harness)[1]
    assert [turn.user_text for turn in harness.session.turns] == ["first"]


@BOTH
def test_an_interruption_closes_the_hook_and_the_streams_that_it_opened() -> None:
    closed: list[str] = []

    class Watching(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            try:
                async for event in generate(request):
                    yield event
            finally:
                closed.append("hook")

    harness = call(Watching("Help."), [NUMBERS, HANG], "Ok.")
    harness.caller.says("count", 0.5, 1.0)
    harness.caller.says("stop it now", 2.7, 3.6)
    harness.run(until=7.0)
    assert closed == ["hook", "hook"]
    assert harness.llm.cancelled == [0]


# --- realtime models


def realtime(agent: Agent, model: ScriptedRealtimeModel, **parts: Any) -> SessionHarness:
    return SessionHarness(agent, model=model, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), **parts))


def test_transcripts_of_a_realtime_model_take_the_same_way() -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["my code is 7"], delay=0.1)
    harness = realtime(Redacting("Help."), model)
    harness.caller.makes_noise(0.5, 1.5)
    harness.run(until=4.0)
    harness.expect_history(("user", "my code is #"), ("assistant", "Sure."))


def test_text_of_a_realtime_model_is_redacted_and_tagged_for_one_s_own_voice() -> None:
    class Both(Redacting, Tagging):
        pass

    can = RealtimeCapabilities(generates_audio=False, generates_text=True)
    model = ScriptedRealtimeModel("Code 7.", hears=["hello"], delay=0.1, capabilities=can)
    voice = ScriptedTTS()
    harness = realtime(Both("Help."), model, tts=voice)
    harness.caller.makes_noise(0.5, 1.5)
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Code #."))
    assert voice.texts == ["(cheerful) Code #."]


def test_an_answer_that_a_realtime_server_began_goes_through_the_hook() -> None:
    model = ScriptedRealtimeModel(delay=0.1)
    harness = SessionHarness(Redacting("Help."), model=model)
    harness.caller.says("hello", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.0)
        model.start_reply("Code 7.")

    harness.run(scenario, until=5.0)
    assert harness.messages[-1] == ("assistant", "Code #.")

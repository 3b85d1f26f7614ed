"""Hooks of stages that wait for the session, that want to end the process, or that do not end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import pytest

from kit.tasks import GetAddress
from vivavoce.agents import Agent, SessionOptions, SpeechLimits
from vivavoce.agents.agent import Generate, Speak
from vivavoce.agents.events import Closed, ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.tts.base import AudioChunk

BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""

Transcript = UserFinal | UserInterim
Deed = Callable[[Agent], Awaitable[object] | object]


class Doing(Agent):
    """Does something once in the hook `where`, before its first item or after it, and notes the error."""

    def __init__(self, where: str, deed: Deed, *, is_late: bool = False, catches: bool = True) -> None:
        super().__init__("Help.", id="doing")
        self.where, self.deed, self.is_late, self.catches = where, deed, is_late, catches
        self.raised: list[BaseException] = []
        self.has_done = False

    async def do(self, where: str, *, is_late: bool = False) -> None:
        if (where, is_late) != (self.where, self.is_late) or self.has_done:
            return
        self.has_done = True
        try:
            doing = self.deed(self)
            if doing is not None:
                await doing  # type: ignore[misc]
        except SessionError as error:
            self.raised.append(error)
            if not self.catches:
                raise

    async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
        async for transcript in transcripts:
            await self.do("stt_stage")
            yield transcript
            await self.do("stt_stage", is_late=True)

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        await self.do("llm_stage")
        async for event in generate(request):
            yield event
            await self.do("llm_stage", is_late=True)

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        async def changed() -> AsyncIterator[str]:
            async for piece in text:
                await self.do("text of tts_stage")
                yield piece

        await self.do("tts_stage")
        async for chunk in speak(changed()):
            yield chunk
            await self.do("tts_stage", is_late=True)


STAGES = ["stt_stage", "llm_stage", "tts_stage"]


def calling(agent: Agent, *answers: Any, limits: SpeechLimits | None = None) -> SessionHarness:
    options = SessionOptions(speech=limits or SpeechLimits())
    return SessionHarness(agent, ScriptedLLM(*answers, delay=0.1), options=options)


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


def say(agent: Agent) -> Awaitable[object]:
    return agent.session.say("One moment.")


# --- waits that would never end


@BOTH
@pytest.mark.parametrize("where", [*STAGES, "text of tts_stage"])
def test_a_speech_that_comes_behind_the_stage_cannot_be_awaited_there_and_no_time_is_lost(where: str) -> None:
    agent = Doing(where, say)
    harness = calling(agent, "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    (error,) = agent.raised
    assert "cannot be awaited in " + where.removeprefix("text of ") in str(error)
    assert "do not await it" in str(error)
    assert [turn.outcome for turn in harness.session.turns if turn.user_text] == ["completed"]
    assert ("assistant", "One moment.") in harness.messages  # the speech itself was not refused
    assert harness.session.turns[0].heard_text in ("Sure.", "One moment.")
    assert max(turn.e2e_latency or 0.0 for turn in harness.session.turns) < 1.5


@pytest.mark.parametrize("where", STAGES)
def test_a_refusal_that_the_hook_does_not_catch_is_its_error(where: str) -> None:
    harness = calling(Doing(where, say, catches=False), *["Sure."] * (where != "llm_stage"))
    harness.expects_error(where)
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    assert errors(harness)[0].startswith(f"{where}: {where}: the hook raised SessionError: speech")


@pytest.mark.parametrize("where", STAGES)
@pytest.mark.parametrize(
    "deed",
    [
        lambda _: GetAddress([]),
        lambda agent: agent.session.update_agent(Agent("Other.", id="other")),
        lambda agent: agent.session.update_components(tts=ScriptedTTS()),
    ],
    ids=["task", "handoff", "component"],
)
def test_a_task_a_handoff_and_a_change_cannot_be_awaited_there(where: str, deed: Deed) -> None:
    agent = Doing(where, deed)
    harness = calling(agent, "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    (error,) = agent.raised
    assert "cannot be awaited" in str(error)
    harness.expect_history(("user", "hello"), ("assistant", "Sure."))


@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after its first item"])
@pytest.mark.parametrize("where", STAGES)
def test_a_hangup_acts_without_being_awaited_there(where: str, is_late: bool) -> None:
    agent = Doing(where, lambda agent: agent.session.hangup(), is_late=is_late)
    harness = calling(agent, "Sure, and goodbye.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=8.0)
    (error,) = agent.raised
    assert "hangup() cannot be awaited in" in str(error)
    assert harness.room.hung_up == ["caller"]
    assert harness.recording.of(Closed)[0].at < 4.0


def test_a_hangup_that_waits_for_no_speech_may_be_awaited_there() -> None:
    agent = Doing("llm_stage", lambda agent: agent.session.hangup(after_speech=False))
    harness = calling(agent, "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=4.0)
    assert (agent.raised, harness.room.hung_up) == ([], ["caller"])


def test_an_answer_that_is_begun_ahead_refuses_them_too() -> None:
    agent = Doing("llm_stage", say)
    harness = calling(agent, "Sure.", "Sure.")  # the history changes meanwhile, so that the model is asked again
    harness.preemptive = True
    harness.caller.says("hello", 0.5, 1.0, interims=[(0.9, "hello")])
    harness.run(until=6.0)
    assert len(agent.raised) == 1
    assert ("assistant", "Sure.") in harness.messages


def test_a_task_that_the_hook_has_started_may_wait_for_speech() -> None:
    said: list[str] = []

    async def talk(agent: Agent) -> None:
        handle = agent.session.say("By the way.")
        await handle
        said.append(str(handle.outcome))

    tasks: list[asyncio.Task[None]] = []
    agent = Doing("llm_stage", lambda agent: tasks.append(asyncio.create_task(talk(agent))))
    harness = calling(agent, "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    assert said == ["completed"]
    assert agent.raised == []


# --- waits that end


def test_a_transcript_may_wait_for_a_speech_that_has_the_floor_however_long() -> None:
    agent = Doing("stt_stage", lambda agent: agent.session.current_speech)
    harness = calling(agent, "Sure.", limits=SpeechLimits(stt_stage=0.3))
    harness.caller.makes_noise(1.0, 1.4)
    harness.caller.is_recognised("hello", 1.5)

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say("one two three four five six seven eight nine ten", interruptible=False)

    harness.run(scenario, until=8.0)
    assert (agent.has_done, agent.raised, errors(harness)) == (True, [], [])
    assert harness.messages[-2:] == [("user", "hello"), ("assistant", "Sure.")]


@BOTH
def test_an_interruption_may_be_awaited_in_a_stage() -> None:
    agent = Doing("stt_stage", lambda agent: agent.session.interrupt())
    harness = calling(agent, "Sure.")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=6.0)
    harness.expect_history(("user", "hello"), ("assistant", "Sure."))


# --- exits


def leave(_: Agent) -> None:
    raise SystemExit(3)


def press_ctrl_c(_: Agent) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("deed", [leave, press_ctrl_c])
@pytest.mark.parametrize("is_late", [False, True], ids=["at once", "after its first item"])
@pytest.mark.parametrize("where", STAGES)
def test_an_exit_in_a_stage_is_an_error_and_the_call_goes_on(where: str, is_late: bool, deed: Deed) -> None:
    agent = Doing(where, deed, is_late=is_late, catches=False)
    harness = calling(agent, *["One."] * (where != "llm_stage" or is_late), "Two.")
    harness.expects_error(where)
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)
    harness.run(until=9.0)
    (error,) = errors(harness)
    assert error.startswith(f"{where}: {where}: the hook raised SessionError: {where} ended with")
    assert harness.messages[-2:] == [("user", "second"), ("assistant", "Two.")]


# --- hooks that do not end


class Endless(Agent):
    """Reads its stream again and again, in the hook `where`."""

    def __init__(self, where: str, *, catches: bool = False) -> None:
        super().__init__("Help.", id="endless")
        self.where, self.catches = where, catches

    async def again(self, where: str, stream: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
        while self.where == where:
            try:
                async for item in stream:
                    yield item
            except Exception:  # noqa: BLE001 - the hook of an application that catches all
                if not self.catches:
                    raise
        async for item in stream:
            yield item

    async def stt_stage(self, transcripts: AsyncIterator[Transcript]) -> AsyncGenerator[Transcript, None]:
        async for transcript in self.again("stt_stage", transcripts):
            yield transcript

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        async for event in self.again("llm_stage", generate(request)):
            yield event

    async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
        async for chunk in speak(self.again("text of tts_stage", text)):
            yield chunk


@pytest.mark.parametrize("catches", [False, True], ids=["raises", "catches all"])
def test_a_transcript_stage_that_reads_on_after_its_agent_has_left_ends_with_an_error(catches: bool) -> None:
    agent = Endless("stt_stage", catches=catches)
    harness = calling(agent, "One.", "Two.", limits=SpeechLimits(stt_stage=0.5))
    harness.expects_error("stt_stage")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.0)
        await harness.session.update_agent(Next())

    harness.run(scenario, until=9.0)
    assert len(errors(harness)) == 1
    assert harness.messages[-2:] == [("user", "second"), ("assistant", "Two.")]


class Next(Endless):
    """The next agent, whose stage reads its stream once."""

    def __init__(self) -> None:
        super().__init__("")


@BOTH
@pytest.mark.parametrize("where", ["llm_stage", "text of tts_stage"])
@pytest.mark.parametrize("catches", [False, True], ids=["raises", "catches all"])
def test_a_stage_that_reads_an_ended_stream_for_ever_fails_the_turn_by_name(where: str, catches: bool) -> None:
    limits = SpeechLimits(llm_stall=1.0, tts_first_byte=1.0, tts_stall=1.0)
    harness = calling(Endless(where, catches=catches), "One.", limits=limits)
    harness.expects_error(where.removeprefix("text of "))
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=6.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]


def test_a_stage_that_never_waits_does_not_hold_the_loop() -> None:
    class Flooding(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            while True:
                yield " "

    harness = calling(Flooding("Help."))
    harness.caller.says("first", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.2)
        with anyio.move_on_after(1.0):
            await harness.session.close()

    harness.run(scenario)
    assert harness.close_report is not None


def test_an_endless_text_fails_the_answer_at_its_limit_and_the_call_goes_on() -> None:
    class Babbling(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            while request.context.messages("user")[-1].content == "first":
                yield "word " * 1000
            async for event in generate(request):
                yield event

    harness = calling(Babbling("Help."), "Sure.")
    harness.expects_error("llm_stage", contains="takes a text of at most 100000 characters")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 6.0, 6.5)
    harness.run(until=9.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed", "completed"]
    assert harness.messages[-1] == ("assistant", "Sure.")


# --- wrong use, and closing


def test_wrong_arguments_of_generate_and_speak_are_errors_of_the_hook() -> None:
    class Wrong(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            if request.context.messages("assistant"):
                async for event in generate("tell me"):  # type: ignore[arg-type]
                    yield event
            else:
                yield "Sure."

        async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
            async for chunk in speak([piece async for piece in text] if self.is_listing else text):  # type: ignore[arg-type]
                yield chunk

        is_listing = False

    agent = Wrong("Help.")
    harness = calling(agent)
    harness.expects_error("llm_stage", contains="needs a GenerateRequest, got 'tell me'")
    harness.expects_error("tts_stage", contains="needs text, or an async iterator of text")
    harness.caller.says("first", 0.5, 1.0)
    harness.caller.says("second", 5.0, 5.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        agent.is_listing = True
        await harness.session.say("Bye.")

    harness.run(scenario, until=10.0)


def test_an_error_in_the_text_that_a_hook_gives_to_the_voice_is_the_hook_s() -> None:
    class Failing(Agent):
        async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
            async def changed() -> AsyncIterator[str]:
                async for piece in text:
                    yield piece[:3]
                    raise ZeroDivisionError

            async for chunk in speak(changed()):
                yield chunk

    harness = calling(Failing("Help."), "Sure.")
    harness.expects_error("tts_stage", contains="the hook raised ZeroDivisionError")
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=5.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]


@BOTH
def test_an_interruption_closes_the_text_that_a_hook_gives_to_the_voice() -> None:
    closed: list[str] = []

    class Watching(Agent):
        async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
            async def changed() -> AsyncIterator[str]:
                try:
                    async for piece in text:
                        yield piece
                    await anyio.sleep_forever()
                finally:
                    closed.append("text")

            try:
                async for chunk in speak(changed()):
                    yield chunk
            finally:
                closed.append("hook")

    harness = calling(Watching("Help."), "one two three four five six seven eight nine ten.", "Ok.")
    harness.caller.says("count", 0.5, 1.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.7)
        await harness.session.interrupt()
        await harness.until(3.2)
        assert sorted(closed) == ["hook", "text"]

    harness.run(scenario, until=4.0)


def test_a_stage_that_yields_nothing_is_an_empty_answer() -> None:
    class Silent(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            async for event in generate(request):
                if not isinstance(event, TextDelta):
                    yield event

    harness = calling(Silent("Help."), "Sure.")
    harness.caller.says("first", 0.5, 1.0)
    harness.run(until=5.0)
    assert [turn.outcome for turn in harness.session.turns] == ["completed"]
    assert harness.messages == [("user", "first")]

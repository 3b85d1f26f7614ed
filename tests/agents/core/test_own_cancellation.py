"""Application code that cancels its own task: one error event with its source, and the call goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    CompletedTurn,
    ContentGuard,
    ConversationFlow,
    EmptyReply,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.agent import Generate, Speak
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.graphs import GraphOptions, PatternIntents, StateGraph
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, ToolCall
from vivavoce.agents.turn.options import InterruptionOptions
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts.base import AudioChunk

WAYS = pytest.mark.parametrize("waits", [True, False], ids=["waits", "returns"])
OWN = "ended with the cancellation of its own task"


def cancel_own_task(*_: object) -> Any:
    if (task := asyncio.current_task()) is not None:  # none: called back by the loop
        task.cancel()


async def cancel(*, waits: bool) -> None:
    """As code that stops itself with asyncio's means; without a wait, the cancellation is left for the next one."""
    cancel_own_task()
    if waits:
        await anyio.sleep(5)


def call(harness: SessionHarness, *sources: str, scenario: Any = None) -> None:
    """Have the caller say something twice; the second turn is answered, in a session that lives."""
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.says("again", 5.5, 6.0)
    for source in set(sources):
        harness.expects_error(source)
    harness.run(scenario, until=9.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
    assert harness.messages[-1] == ("assistant", "Bye.")
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, OWN in str(event.error)) for event in errors] == [(source, True) for source in sources]


def test_the_log_has_the_place_in_the_code_whose_wait_was_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    class Clerk(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            await cancel(waits=True)
            return "never"

    tool_call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    call(SessionHarness(Clerk("Help."), ScriptedLLM([tool_call], "I could not.", "Bye.")), "tool")
    (warning,) = [record.getMessage() for record in caplog.records if "Tool look_up raised" in record.getMessage()]
    assert "test_own_cancellation.py:" in warning
    assert " in cancel;" in warning


@WAYS
def test_in_a_tool_it_fails_the_call(waits: bool) -> None:
    class Clerk(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            await cancel(waits=waits)
            return "never"

    tool_call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(Clerk("Help."), ScriptedLLM([tool_call], "I could not.", "Bye."))
    call(harness, "tool")
    harness.expect_tools(("look_up", "The tool failed (RuntimeError)."))


@WAYS
def test_in_hooks_of_the_agent(waits: bool) -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await cancel(waits=waits)

        async def on_empty_reply(self, reply: EmptyReply) -> None:
            await cancel(waits=waits)

    call(SessionHarness(Host("Help."), ScriptedLLM("", "Bye.")), "hook", "hook", "hook")


@WAYS
@pytest.mark.parametrize("stage", ["llm_stage", "tts_stage", "stt_stage"])
def test_in_a_stage(waits: bool, stage: str) -> None:
    count = 0

    async def fails_once() -> None:
        nonlocal count
        count += 1
        if count == 1:
            await cancel(waits=waits)

    class Host(Agent):
        async def stage(self, given: Any, source: Callable[[Any], AsyncIterator[Any]]) -> AsyncGenerator[Any, None]:
            await fails_once()
            async for item in source(given):
                yield item

        async def hearing(self, events: AsyncIterator[Any]) -> AsyncGenerator[Any, None]:
            async for event in events:
                await fails_once()
                yield event

    hook = Host.hearing if stage == "stt_stage" else Host.stage
    agent = type("Staged", (Host,), {stage: hook})("Help.")
    call(SessionHarness(agent, ScriptedLLM(*["Hi.", "Bye."] if stage == "stt_stage" else ["Bye."] * 2)), stage)


@WAYS
def test_in_a_flow(waits: bool) -> None:
    class Flow(ConversationFlow):
        turns = 0

        async def on_turn_start(self, transcript: str) -> None:
            await cancel(waits=waits)

        async def run(self, transcript: str) -> AsyncIterator[str]:
            self.turns += 1
            if self.turns == 1:
                await cancel(waits=waits)
            yield "Bye."

        async def on_turn_end(self) -> None:
            await cancel(waits=waits)

    call(SessionHarness(Agent("Help."), conversation_flow=Flow()), "hook", "flow", "hook", "hook", "hook")


@WAYS
def test_in_a_text_that_is_said(waits: bool) -> None:
    async def text() -> AsyncIterator[str]:
        yield "One. "
        await cancel(waits=waits)
        yield "Two."

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say(text())

    call(SessionHarness(Agent("Help."), ScriptedLLM("Hi.", "Bye.")), "text", scenario=scenario)


@WAYS
def test_in_a_content_guard_a_policy_and_an_async_handler(waits: bool) -> None:
    async def judge(_: object) -> None:
        await cancel(waits=waits)

    async def policy(context: Any) -> Any:
        await cancel(waits=waits)
        return context

    async def handler(_: object) -> None:
        await cancel(waits=waits)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("agent_state_changed", handler)
        await harness.until(0.1)

    guard = ContentGuard(judge=judge, caller=False, on_failure="pass")
    options = SessionOptions(guard=guard, context_window=policy)
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi.", "Bye."), options=options)
    for source in ("guard", "context_window", "handler"):
        harness.expects_error(source)
    harness.caller.says("again", 5.5, 6.0)
    harness.run(scenario, until=9.0)
    assert harness.messages[-1] == ("assistant", "Hi.")
    assert all(OWN in str(event.error) for event in harness.recording.of(ErrorOccurred))


def test_in_functions_that_cannot_wait() -> None:
    class Host(Agent):
        async def on_enter(self) -> None:
            self.session.on("started", cancel_own_task)
            self.session.say("Welcome.").add_done_callback(cancel_own_task)

    async def scenario(harness: SessionHarness) -> None:
        for name in ("user_state_changed", "user_transcript", "speech_created", "turn_completed", "closed"):
            harness.session.on(name, cancel_own_task)
        await harness.until(0.1)

    harness = SessionHarness(Host("Help."), ScriptedLLM("Hi.", "Bye."))
    harness.expects_error("handler")
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.says("again", 5.5, 6.0)
    harness.run(scenario, until=9.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
    harness.expect_history(
        ("assistant", "Welcome."), ("user", "hello"), ("assistant", "Hi."), ("user", "again"), ("assistant", "Bye.")
    )


def test_in_functions_of_frames_there_is_no_task_to_cancel() -> None:
    tasks: list[object] = []

    def look(_: object) -> None:
        tasks.append(asyncio.current_task())
        cancel_own_task()

    class Host(Agent):
        def on_speech_in(self, frame: AudioFrame) -> None:
            look(frame)

        def on_speech_out(self, frame: AudioFrame) -> None:
            look(frame)

    async def scenario(harness: SessionHarness) -> None:
        harness.session.on("on_speech_in", look)
        harness.session.on("on_speech_out", look)
        await harness.until(0.1)

    harness = SessionHarness(Host("Help."), ScriptedLLM("Hi.", "Bye."))
    call(harness, scenario=scenario)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."), ("user", "again"), ("assistant", "Bye."))
    assert set(tasks) == {None}


def test_in_a_done_callback_of_a_speech_that_is_not_waited_for() -> None:
    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.reply("Greet the caller.", wait_for_playback=False)
        handle.add_done_callback(cancel_own_task)
        await handle
        await harness.until(3.0)

    harness = SessionHarness(Agent("Help."), ScriptedLLM("Welcome to all of you."))
    harness.run(scenario, until=4.0)
    harness.expect_history(("assistant", "Welcome to all of you."))
    assert harness.recording.of(ErrorOccurred) == []


def test_in_the_judgement_of_backchannels() -> None:
    options = SessionOptions(interruption=InterruptionOptions(backchannels=cancel_own_task))
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("one two three four five six seven eight nine ten.", "Bye."), options=options
    )
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.says("stop it", 2.5, 3.2)
    harness.expects_error("decision loop")
    harness.run(until=8.0)
    assert harness.messages[-1] == ("assistant", "Bye.")
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"


def test_a_limit_of_a_voice_s_hook_may_cut_the_text_that_the_hook_gives() -> None:
    class Host(Agent):
        async def tts_stage(self, text: AsyncIterator[str], speak: Speak) -> AsyncGenerator[AudioChunk, None]:
            async def slow() -> AsyncIterator[str]:
                await anyio.sleep(5.0)
                yield "Never."

            try:
                async with asyncio.timeout(0.5):
                    async for chunk in speak(slow()):
                        yield chunk
            except TimeoutError:
                async for chunk in speak("Bye."):
                    yield chunk

    call(SessionHarness(Host("Help."), ScriptedLLM("Bye.", "Bye.")))


@pytest.mark.parametrize("limit", ["timeout", "wait_for"])
def test_a_limit_of_a_flow_may_cut_the_model_s_hook(limit: str) -> None:
    class Host(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            await anyio.sleep(5.0)
            async for event in generate(request):
                yield event

    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            pieces = self.model(transcript)
            try:
                if limit == "wait_for":
                    await asyncio.wait_for(anext(pieces), 0.5)
                else:
                    async with asyncio.timeout(0.5):
                        await anext(pieces)
            except TimeoutError:
                yield "Bye."

    call(SessionHarness(Host("Help."), ScriptedLLM("Hi.", "Bye."), conversation_flow=Flow()))


@WAYS
def test_in_a_body_of_a_graph(waits: bool) -> None:
    graph = StateGraph(PatternIntents())
    one = graph.new_state("one", initial=True)

    @one.body
    async def body(_: object) -> None:
        await cancel(waits=waits)

    one.set_fallback_body(body)
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("Bye."), options=SessionOptions(graph=GraphOptions(graph=graph))
    )
    harness.expects_error("graph")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=4.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
    assert all(OWN in str(event.error) for event in harness.recording.of(ErrorOccurred))

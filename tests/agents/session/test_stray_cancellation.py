"""A cancellation without a request of the session is an error of the code that raised it, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from vivavoce.agents import (
    Agent,
    CompletedTurn,
    ConversationFlow,
    EmptyReply,
    MemoryOptions,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.events import ErrorOccurred, UserTranscript
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    SessionHarness,
    ToolCall,
    VirtualClock,
)
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.tts.base import AudioChunk

STRAY = "ended with a cancellation that nobody here asked for"


async def await_what_was_cancelled() -> None:
    """As code does that awaits a task which another part of the application has cancelled."""
    task = asyncio.create_task(anyio.sleep(10))
    await anyio.lowlevel.checkpoint()
    task.cancel()
    await task


def talk(harness: SessionHarness, scenario: Any = None, *, fails: str = "") -> SessionHarness:
    """Have the caller say something twice; both turns must have an outcome, in a session that lives."""
    harness.caller.says("hello", 0.5, 1.0)
    harness.caller.says("again", 5.5, 6.0)
    if fails:
        harness.expects_error(fails)
    harness.run(scenario, until=11.0)
    assert harness.close_report is not None
    assert harness.close_report.reason == "user_initiated"
    assert len(harness.session.turns) == 2
    return harness


def strays(harness: SessionHarness) -> list[str]:
    return [event.source for event in harness.recording.of(ErrorOccurred) if STRAY in str(event.error)]


def test_in_a_tool_it_fails_the_call_and_the_model_answers_that() -> None:
    class Clerk(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look it up."""
            await await_what_was_cancelled()
            return "never"

    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = talk(SessionHarness(Clerk("Help."), ScriptedLLM([call], "I could not.", "Bye.")), fails="tool")
    harness.expect_tools(("look_up", "The tool failed (VoiceError)."))
    harness.expect_history(("user", "hello"), ("assistant", "I could not."), ("user", "again"), ("assistant", "Bye."))
    assert strays(harness) == ["tool"]


def test_in_an_event_handler_it_is_an_error_event() -> None:
    async def show(event: UserTranscript) -> None:
        await await_what_was_cancelled()

    async def listen(harness: SessionHarness) -> None:
        harness.session.on(UserTranscript, show)

    harness = talk(SessionHarness(Agent("Help."), ScriptedLLM("Hi.", "Bye.")), listen, fails="handler")
    harness.expect_outcomes("completed", "completed")
    assert strays(harness) == ["handler", "handler"]


def test_in_a_hook_it_is_an_error_event_and_the_turn_is_answered() -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            await await_what_was_cancelled()

        async def on_empty_reply(self, reply: EmptyReply) -> None:
            await await_what_was_cancelled()

    harness = talk(SessionHarness(Host("Help."), ScriptedLLM("", "Bye.")), fails="hook")
    harness.expect_outcomes("completed", "completed")
    assert strays(harness) == ["hook", "hook", "hook"]


@pytest.mark.parametrize(
    ("part", "source", "outcome"),
    [
        ("on_turn_start", "hook", "completed"),
        ("run", "flow", "failed"),
        ("on_turn_end", "hook", "completed"),
    ],
)
def test_in_a_conversation_flow_it_costs_no_more_than_an_error(part: str, source: str, outcome: str) -> None:
    async def may_fail(here: str) -> None:
        if here == part:
            await await_what_was_cancelled()

    class Flow(ConversationFlow):
        async def on_turn_start(self, transcript: str) -> None:
            await may_fail("on_turn_start")

        async def run(self, transcript: str) -> AsyncIterator[str]:
            await may_fail("run")
            yield "Sure."

        async def on_turn_end(self) -> None:
            await may_fail("on_turn_end")

    async def use_flow(harness: SessionHarness) -> None:
        harness.session.update_flow(Flow())

    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = talk(SessionHarness(Agent("Help."), pipeline=pipeline, stt=stt), use_flow, fails=source)
    harness.expect_outcomes(outcome, outcome)
    assert strays(harness) == [source, source]


class StrayLLM(ScriptedLLM):
    """Lets one out after the first words of its first answer."""

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        is_first = not self.requests
        async for event in super().generate(request):
            yield event
            if is_first:
                await await_what_was_cancelled()


def test_in_a_model_it_fails_the_turn_and_the_next_one_works() -> None:
    harness = talk(SessionHarness(Agent("Help."), StrayLLM("Hi there.", "Bye.")))
    harness.expect_outcomes("failed", "completed")
    assert strays(harness) == ["llm"]


class StrayTTS(ScriptedTTS):
    """Lets one out in the place of its first speech."""

    is_first = True

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        if self.is_first:
            self.is_first = False
            await await_what_was_cancelled()
        async for chunk in super().synthesize(text):
            yield chunk


def test_in_a_voice_it_fails_the_turn_and_the_next_one_works() -> None:
    harness = talk(SessionHarness(Agent("Help."), ScriptedLLM("Hi there.", "Bye."), tts=StrayTTS()))
    harness.expect_outcomes("failed", "completed")
    assert strays(harness) == ["tts"]


def test_in_a_voice_that_speaks_ahead_it_costs_only_what_was_begun_ahead() -> None:
    options = SessionOptions(preemptive_tts=True)
    harness = SessionHarness(Agent("Help."), ScriptedLLM(default="Hi there."), tts=StrayTTS(), options=options)
    harness.preemptive = True
    talk(harness)
    harness.expect_outcomes("completed", "completed")
    assert strays(harness) == []


def test_in_a_store_the_changes_of_the_history_are_written_later() -> None:
    class Store(InProcessStore):
        tries = 0

        async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
            self.tries += 1
            if self.tries == 1:
                await await_what_was_cancelled()
            await super().write_many(place, texts)

    store = Store(clock=VirtualClock())
    loaded: list[ChatItem] = []

    async def look(harness: SessionHarness) -> None:
        await harness.until(10.0)
        loaded.extend(await store.history(harness.session.id))

    options = SessionOptions(memory=MemoryOptions(store=store))
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Hi.", "Bye."), options=options)
    talk(harness, look)
    assert len(loaded) == 4
    assert strays(harness) == ["memory"]

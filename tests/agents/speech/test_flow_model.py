"""A conversation flow hands a turn, whole or edited, to the model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, ConversationFlow, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import HANG

LOOK_UP = [ToolCall(call_id="c", name="look_up", arguments="{}")]
NUMBERS = "one two three four five six seven eight nine ten."


class Edited(ConversationFlow):
    """Asks the model with other words, between words of its own."""

    async def run(self, transcript: str) -> AsyncIterator[str]:
        yield "Well. "
        async for text in self.model(transcript.upper()):
            yield text
        yield " So."


class Desk(Agent):
    """Looks something up, and hands over."""

    def __init__(self, to: Agent | None = None) -> None:
        super().__init__("Help.")
        self.to = to
        self.looked = 0

    @function_tool
    async def look_up(self) -> Any:
        "Look something up."
        self.looked += 1
        return self.to or "found"


def call(flow: ConversationFlow, *answers: Any, agent: Agent | None = None) -> SessionHarness:
    harness = SessionHarness(agent or Desk(), ScriptedLLM(*answers, delay=0.1), conversation_flow=flow)
    harness.caller.says("hello", 0.5, 1.0)
    return harness


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


def test_a_flow_without_run_of_its_own_hands_each_turn_to_the_model() -> None:
    started: list[str] = []

    class Counting(ConversationFlow):
        async def on_turn_start(self, transcript: str) -> None:
            started.append(transcript)

    harness = call(Counting(), "Hi.").run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))
    assert started == ["hello"]


def test_a_flow_edits_the_words_for_the_model_and_adds_words_of_its_own() -> None:
    harness = call(Edited(), "Hi.").run(until=5.0)
    harness.expect_history(("user", "hello"), ("assistant", "Well. Hi. So."))
    assert [message.content for message in harness.llm.requests[0].context.messages("user")] == ["HELLO"]


def test_tools_that_the_model_calls_for_a_flow_run_and_the_model_goes_on_with_the_results() -> None:
    desk = Desk()
    harness = call(ConversationFlow(), ["One moment.", *LOOK_UP], "Here it is.", agent=desk).run(until=6.0)
    assert desk.looked == 1
    harness.expect_history(("user", "hello"), ("assistant", "One moment."), ("assistant", "Here it is."))
    assert len(harness.session.turns) == 1
    assert [tool.name for tool in harness.session.turns[0].tools] == ["look_up"]


def test_a_tool_that_hands_over_ends_the_flow_s_turn() -> None:
    class Greeting(Agent):
        async def on_enter(self) -> None:
            await self.session.say("Second here.")

    second = Greeting("Second.")
    harness = call(Edited(), LOOK_UP, agent=Desk(second)).run(until=6.0)
    assert harness.session.agent is second
    harness.expect_history(("user", "hello"), ("assistant", "Well."), ("assistant", "Second here."))
    assert not errors(harness)


def test_an_interruption_closes_the_model_s_answer() -> None:
    harness = call(ConversationFlow(), [NUMBERS, HANG], "Ok.")
    harness.caller.says("stop it now", 2.7, 3.6)
    harness.run(until=7.0)
    assert harness.llm.cancelled == [0]
    assert harness.messages[-1] == ("assistant", "Ok.")


def test_a_model_that_fails_behind_a_flow_is_blamed() -> None:
    harness = call(ConversationFlow(), [RuntimeError("no model")])
    harness.expects_error("llm")
    harness.run(until=4.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]


def test_a_flow_that_asks_for_a_model_where_there_is_none_fails_by_name() -> None:
    stt = ScriptedSTT()
    pipeline = CascadingPipeline(stt=stt, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, conversation_flow=ConversationFlow())
    harness.expects_error("flow")
    harness.caller.says("hello", 0.5, 1.0)
    harness.run(until=4.0)
    assert "give CascadingPipeline an llm" in errors(harness)[0]


def test_the_model_answers_within_run_only() -> None:
    flow = ConversationFlow()
    harness = call(flow, "Hi.")

    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(SessionError, match=r"call it in run\(\)"):
            flow.model("hello")

    harness.run(scenario, until=4.0)


# --- one answer at a time


def test_two_answers_of_the_model_at_the_same_time_are_refused_with_the_remedy() -> None:
    class Both(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            found: list[str] = []

            async def read(words: str) -> None:
                async for text in self.model(words):
                    found.append(text)

            async with anyio.create_task_group() as group:
                group.start_soon(read, "one")
                group.start_soon(read, "two")
            yield " ".join(found)

    harness = call(Both(), "One.")
    harness.expects_error("flow", contains="answers one at a time")
    harness.run(until=4.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]
    assert harness.llm.cancelled == [0]


def test_an_answer_that_the_flow_reads_no_more_ends_when_the_next_one_begins() -> None:
    class Twice(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            async for _ in self.model(transcript):
                break
            async for text in self.model("again"):
                yield text

    harness = call(Twice(), ["No", HANG], "Yes.")
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Yes."))
    assert harness.llm.cancelled == [0]


def test_answers_that_are_read_in_turns_are_refused() -> None:
    class InTurns(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            first, second = self.model("one"), self.model("two")
            yield await anext(first)
            yield await anext(second)
            yield await anext(first)

    harness = call(InTurns(), ["One", " more."], "Two.")
    harness.expects_error(
        "flow", contains="this answer of model() has ended: another answer of model() has begun since"
    )
    harness.run(until=4.0)


def test_one_answer_is_read_by_one_task() -> None:
    class Shared(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            answer = self.model(transcript)

            async def read() -> None:
                async for _ in answer:
                    pass

            async with anyio.create_task_group() as group:
                group.start_soon(read)
                group.start_soon(read)
            yield "Done."

    harness = call(Shared(), "One.")
    harness.expects_error("flow", contains="read by one task at a time")
    harness.run(until=4.0)

"""The usage of a request that was cut counts: by the provider's figure where one comes, else estimated and marked."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

from kit.telemetry import Watching
from vivavoce.agents import Agent, ConversationFlow, SessionOptions
from vivavoce.agents.agent import Generate
from vivavoce.agents.budget import BudgetOptions
from vivavoce.agents.records import UsageRecord
from vivavoce.agents.reports.page import render
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.tts.base import AudioChunk

LONG = ("one two three four five six seven eight nine ten. ", 3.0, "And more.", Usage(input_tokens=50, output_tokens=9))
FIGURE = Usage(input_tokens=50, output_tokens=9)


def talk(agent: Agent, *steps: Any, preemptive: bool = False, flow: ConversationFlow | None = None) -> SessionHarness:
    """The caller asks, and cuts the answer with words of their own if it is still on at 3.0."""
    harness = SessionHarness(
        agent, ScriptedLLM(*steps), options=SessionOptions(budget=BudgetOptions()), conversation_flow=flow
    )
    harness.preemptive = preemptive
    harness.caller.says("hello", 0.5, 1.5)
    return harness


def check_estimated(used: UsageRecord) -> None:
    assert used.llm_input_tokens > 0
    assert used.llm_estimated_tokens == used.llm_input_tokens + used.llm_output_tokens


def test_an_answer_that_the_caller_cuts_is_estimated_in_session_turn_and_budget() -> None:
    spent: dict[str, UsageRecord] = {}

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        spent.update(await harness.session.budget.usage())

    harness = talk(Agent("Help."), LONG, ("Fine.", FIGURE))
    harness.caller.says("wait stop", 3.0, 4.0)
    harness.run(scenario)
    assert sum(used.llm_estimated_tokens for used in spent.values()) == harness.session.usage.llm_estimated_tokens
    first, second = harness.session.turns
    check_estimated(first.usage)
    assert first.usage.llm_output_tokens > 5
    assert (second.usage.llm_input_tokens, second.usage.llm_estimated_tokens) == (50, 0)
    assert harness.session.usage.llm_input_tokens == first.usage.llm_input_tokens + 50
    assert harness.session.usage.llm_estimated_tokens == first.usage.llm_estimated_tokens


def test_an_answer_begun_ahead_that_the_caller_cuts_counts_for_its_turn() -> None:
    harness = talk(Agent("Help."), LONG, ("Fine.", FIGURE), preemptive=True)
    harness.caller.says("wait stop", 3.0, 4.0)
    harness.run(until=8.0)
    check_estimated(harness.session.turns[0].usage)


def test_an_answer_begun_ahead_that_is_discarded_is_estimated() -> None:
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM(LONG, LONG, LONG, ("Fine.", FIGURE), default=("Fine.", FIGURE))
    )
    harness.preemptive = True
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("and a table", 1.8, 2.6)
    harness.run(until=9.0)
    assert harness.session.usage.llm_estimated_tokens > 0


class Ending(Agent):
    """Ends the answer after its first piece."""

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        async for event in generate(request):
            yield event
            return


class Texting(Agent):
    """Passes on the text only."""

    async def llm_stage(
        self, request: GenerateRequest, generate: Generate
    ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
        async for event in generate(request):
            if isinstance(event, TextDelta):
                yield event.text


def test_a_hook_that_ends_the_answer_early_is_estimated() -> None:
    harness = talk(Ending("Help."), LONG).run(until=8.0)
    check_estimated(harness.session.turns[0].usage)
    check_estimated(harness.session.usage)


def test_usage_that_a_hook_does_not_pass_on_counts_by_the_provider_s_figure() -> None:
    harness = talk(Texting("Help."), ("Hi.", FIGURE)).run(until=5.0)
    used = harness.session.turns[0].usage
    assert (used.llm_input_tokens, used.llm_output_tokens, used.llm_estimated_tokens) == (50, 9, 0)
    assert harness.session.usage.llm_input_tokens == 50


def test_usage_that_a_hook_passes_on_counts_once() -> None:
    class Passing(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            async for event in generate(request):
                yield event

    harness = talk(Passing("Help."), ("Hi.", FIGURE)).run(until=5.0)
    assert harness.session.usage.llm_input_tokens == 50


def test_usage_of_a_request_that_a_hook_makes_beside_the_answer_counts_too() -> None:
    class Twice(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            async for _ in generate(request):
                pass
            async for event in generate(request):
                yield event

    other = Usage(input_tokens=7, output_tokens=2)
    harness = talk(Twice("Help."), ("A draft.", other), ("Hi.", FIGURE)).run(until=5.0)
    assert (harness.session.usage.llm_input_tokens, harness.session.usage.llm_output_tokens) == (57, 11)


def test_usage_that_a_hook_makes_itself_counts_instead_of_the_provider_s() -> None:
    class Telling(Agent):
        async def llm_stage(
            self, request: GenerateRequest, generate: Generate
        ) -> AsyncGenerator[LLMEvent | AudioChunk | str, None]:
            async for event in generate(request):
                yield Usage(input_tokens=1, output_tokens=1) if isinstance(event, Usage) else event

    harness = talk(Telling("Help."), ("Hi.", FIGURE)).run(until=5.0)
    assert harness.session.usage.llm_input_tokens == 1


def test_span_and_report_say_that_the_usage_of_a_cut_answer_is_estimated() -> None:
    watching = Watching()
    options = SessionOptions(telemetry=watching.telemetry)
    harness = SessionHarness(Agent("Help."), ScriptedLLM(LONG, ("Fine.", FIGURE)), options=options)
    harness.caller.says("hello", 0.5, 1.5)
    harness.caller.says("wait stop", 3.0, 4.0)
    harness.run(until=8.0)
    watching.check()
    first, second = (dict(span.attributes or {}) for span in watching.of("llm"))
    used = harness.session.turns[0].usage
    assert first["gen_ai.usage.input_tokens"] == used.llm_input_tokens
    assert first["vivavoce.llm.usage_is_estimated"] is True
    assert "vivavoce.llm.usage_is_estimated" not in second
    page = render(harness.session.report())
    assert f"{used.llm_output_tokens} out ({used.llm_estimated_tokens} of them estimated)" in page
    assert "estimated of both" in page


def test_a_flow_that_leaves_the_model_s_answer_early_is_estimated() -> None:
    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            async for piece in self.model(transcript):
                yield piece
                break

    harness = talk(Agent("Help."), LONG, flow=Flow()).run(until=8.0)
    check_estimated(harness.session.usage)


def test_tokens_that_a_cache_takes_in_are_summed_and_shown() -> None:
    watching = Watching()
    steps = [Usage(input_tokens=50, output_tokens=9, cached_tokens=10, cache_write_tokens=2100)] * 2
    options = SessionOptions(telemetry=watching.telemetry)
    harness = SessionHarness(Agent("Help."), ScriptedLLM(*((0.1, "Sure.", used) for used in steps)), options=options)
    harness.caller.says("hello", 0.5, 1.5)
    harness.caller.says("and now", 4.0, 5.0)
    session = harness.run(until=8.0).session
    assert [turn.usage.llm_cache_write_tokens for turn in session.turns] == [2100, 2100]
    assert session.usage.llm_cache_write_tokens == 4200
    assert [dict(span.attributes or {})["gen_ai.usage.cache_creation.input_tokens"] for span in watching.of("llm")] == [
        2100,
        2100,
    ]
    assert re.search("taken into the cache</td><td[^>]*>4,200<", render(session.report()))

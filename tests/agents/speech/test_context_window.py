"""SessionOptions.context_window: the part of a conversation for a model, and the pairs that no policy can break."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from kit.chat import outline
from vivavoce.agents import Agent, ChatContext, ContextWindow, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.llm.chat_context import ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.context_window import ContextPolicy
from vivavoce.pipelines.llm.tools import ToolCall


class Clerk(Agent):
    @function_tool
    async def look_up(self, seconds: float = 0.0, characters: int = 5) -> str:
        """Look something up."""
        await anyio.sleep(seconds)
        return "found".ljust(characters, ".")


BOTH = pytest.mark.usefixtures("each_pipeline")
"""Holds on both pipelines."""


def call(arguments: str = "{}") -> ToolCall:
    return ToolCall(call_id="c1", name="look_up", arguments=arguments)


def harness_with(policy: ContextPolicy, *answers: Any) -> SessionHarness:
    options = SessionOptions(context_window=policy)
    harness = SessionHarness(Clerk("Help."), ScriptedLLM(*answers, delay=0.1), options=options)
    for number, start in enumerate((0.5, 4.5, 8.5), start=1):
        harness.caller.says(f"q{number}", start, start + 1.0)
    return harness


def requests(harness: SessionHarness) -> list[list[str]]:
    return [outline(request.context) for request in harness.llm.requests]


def test_each_model_step_is_sent_the_newest_items_and_the_history_keeps_all() -> None:
    harness = harness_with(ContextWindow(max_items=2), "a1", "a2", "a3").run(until=12.0)
    assert requests(harness) == [["q1"], ["a1", "q2"], ["a2", "q3"]]
    assert outline(harness.session.history.items) == ["q1", "a1", "q2", "a2", "q3", "a3"]


@BOTH
def test_a_step_with_tools_is_sent_whole_with_the_question_that_it_answers() -> None:
    harness = harness_with(ContextWindow(max_items=1), [call()], "a1", "a2", "a3").run(until=12.0)
    assert requests(harness)[:3] == [["q1"], ["q1", "call:c1", "out:c1"], ["q2"]]


@BOTH
@pytest.mark.parametrize("policy", [ContextWindow(max_tokens=4000), lambda context: context.truncate(max_tokens=4000)])
def test_a_long_tool_result_does_not_push_out_the_question(policy: ContextPolicy) -> None:
    harness = harness_with(policy, [call('{"characters": 18000}')], "a1", "a2", "a3").run(until=12.0)
    assert requests(harness)[1:3] == [["q1", "call:c1", "out:c1"], ["q1", "call:c1", "out:c1", "a1", "q2"]]
    for request in harness.llm.requests[1:3]:
        output = request.context.items[2]
        assert isinstance(output, FunctionCallOutput)
        assert 3000 < len(output.output) <= 4000
        assert "characters left out" in output.output
    kept = harness.session.history.items[2]
    assert isinstance(kept, FunctionCallOutput)
    assert len(kept.output) == 18_000


def test_a_long_result_that_the_window_lacks_is_sent_shortened() -> None:
    answers = ([call('{"seconds": 1.0, "characters": 18000}')], "a2", "late", "a3")
    harness = SessionHarness(
        Clerk("Help."),
        ScriptedLLM(*answers, delay=0.1),
        options=SessionOptions(context_window=ContextWindow(max_tokens=40)),
    )
    harness.caller.says("q1", 0.5, 1.5)
    harness.caller.says("and a lot of words so that the window has no room for the call any more", 2.2, 4.5)
    harness.run(until=12.0)
    outputs = [
        item.output for sent in harness.llm.requests for item in sent.context if isinstance(item, FunctionCallOutput)
    ]
    assert outputs
    assert all(len(output) < 100 for output in outputs)


@BOTH
def test_a_policy_that_drops_the_question_has_it_added_where_it_stands() -> None:
    def nothing(context: ChatContext) -> ChatContext:
        return ChatContext()

    harness = harness_with(nothing, [call()], "a1", "a2", "a3").run(until=12.0)
    assert requests(harness) == [["q1"], ["q1", "call:c1", "out:c1"], ["q2"], ["q3"]]


def test_a_policy_may_put_its_own_message_in_the_place_of_the_question() -> None:
    def masked(context: ChatContext) -> ChatContext:
        return ChatContext([ChatMessage(role="user", content="masked")])

    harness = harness_with(masked, "a1", "a2", "a3").run(until=12.0)
    assert requests(harness) == [["masked"]] * 3


def test_a_call_that_still_runs_is_sent_however_small_the_window() -> None:
    harness = harness_with(ContextWindow(max_items=1), [call('{"seconds": 6.0}')], "a2", "a3", "late").run(until=14.0)
    second, third = harness.llm.requests[1:3]
    assert outline(third.context) == ["q1", "call:c1", "out:c1"]  # the late result, with the question that it answers
    waiting = second.context.items[1]
    assert isinstance(waiting, FunctionCallOutput)
    assert "still running" in waiting.output
    assert outline(second.context) == ["call:c1", "out:c1", "q2"]


def test_a_policy_that_raises_is_an_error_and_the_whole_conversation_is_sent(caplog: pytest.LogCaptureFixture) -> None:
    def broken(context: ChatContext) -> ChatContext:
        context.append(context.items[0])  # its own copy
        raise ZeroDivisionError("q1")

    with caplog.at_level(logging.WARNING, logger="vivavoce"):
        harness = harness_with(broken, "a1", "a2", "a3").expects_error("context_window").run(until=12.0)
    assert requests(harness)[1] == ["q1", "a1", "q2"]
    errors = harness.recording.of(ErrorOccurred)
    assert [error.source for error in errors] == ["context_window"] * 3
    harness.expect_outcomes("completed", "completed", "completed")
    assert "ZeroDivisionError" in caplog.text
    assert "q1" not in caplog.text


def test_a_policy_that_returns_something_else_is_an_error() -> None:
    harness = harness_with(lambda context: list(context), "a1", "a2", "a3")  # type: ignore[arg-type,return-value]  # that is the test
    harness.expects_error("context_window").run(until=12.0)
    assert requests(harness)[1] == ["q1", "a1", "q2"]
    assert "got list" in str(harness.recording.of(ErrorOccurred)[0].error)


def test_a_policy_of_ones_own_may_change_what_is_sent_but_parts_no_call_from_its_output() -> None:
    def no_outputs(context: ChatContext) -> ChatContext:
        return ChatContext([item for item in context if item.type != "function_call_output"])

    harness = harness_with(no_outputs, [call()], "a1", "a2", "a3").run(until=12.0)
    assert requests(harness)[2] == ["q1", "call:c1", "out:c1", "a1", "q2"]

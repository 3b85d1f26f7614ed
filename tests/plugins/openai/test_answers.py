"""Answers: text, tool calls in fragments, usage, reasons, refusals; and the deviations of compatible servers."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk

from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext, FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.plugins import openai
from vivavoce.plugins.openai.chat import ChatReader
from vivavoce.plugins.openai.twin import (
    BREAK,
    DONE,
    Answer,
    OpenAITwin,
    Step,
    chat_answer,
    chat_call,
    chat_delta,
    chat_end,
    responses_answer,
    responses_call,
    responses_end,
    responses_event,
)

Read = Callable[[openai.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]
MakeLLM = Callable[..., openai.LLM]

USAGE = Usage(input_tokens=12, output_tokens=7, cached_tokens=5)


@pytest.fixture
def chat(server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> Answered:
    """Return a function that lets the server stream steps in the chat API and returns our events."""

    async def run(*steps: Step, request: GenerateRequest = hello) -> list[LLMEvent]:
        server.add(Answer(steps=steps))
        return await answer(make_llm(), request)

    return run


@pytest.fixture
def responses(server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> Answered:
    """Return the same for the responses API."""

    async def run(*steps: Step, request: GenerateRequest = hello) -> list[LLMEvent]:
        server.add(Answer(steps=steps))
        return await answer(make_llm(api="responses"), request)

    return run


Answered = Callable[..., Awaitable[list[LLMEvent]]]


def calls(events: list[LLMEvent]) -> list[tuple[str, str, str]]:
    return [(event.call_id, event.name, event.arguments) for event in events if isinstance(event, ToolCall)]


async def test_a_chat_answer_is_text_usage_and_done(chat: Answered) -> None:
    events = await chat(*chat_answer("Hello ", "there.").steps)
    assert events == [TextDelta("Hello "), TextDelta("there."), USAGE, Done("stop")]


async def test_a_responses_answer_is_text_usage_and_done(responses: Answered) -> None:
    events = await responses(*responses_answer("Hello ", "there.").steps)
    assert events == [TextDelta("Hello "), TextDelta("there."), USAGE, Done("completed")]


async def test_fragments_of_parallel_calls_are_put_together_by_index(chat: Answered) -> None:
    events = await chat(
        chat_delta(content="One moment."),
        chat_call(0, "a", "book", ""),
        chat_call(1, "b", "cancel", ""),
        chat_call(0, None, None, '{"day": '),
        chat_call(1, None, None, "{}"),
        chat_call(0, None, None, '"Friday"}'),
        *chat_end("tool_calls"),
    )
    assert events[0] == TextDelta("One moment.")
    assert calls(events) == [("a", "book", '{"day": "Friday"}'), ("b", "cancel", "{}")]
    assert events[-2:] == [USAGE, Done("tool_calls")]


async def test_parallel_calls_of_the_responses_api(responses: Answered) -> None:
    events = await responses(
        *responses_call(0, "a", "book", '{"day": ', '"Friday"}'),
        *responses_call(1, "b", "cancel", is_done=False),
        responses_end(),
    )
    assert calls(events) == [("a", "book", '{"day": "Friday"}'), ("b", "cancel", "{}")]
    assert events[-1] == Done("completed")


async def test_calls_without_index_and_id_as_ollama_sent_them(chat: Answered) -> None:
    events = await chat(
        chat_call(None, None, "book", '{"day": "Friday"}'),
        chat_call(None, None, "book", '{"day": "Sunday"}'),
        *chat_end("stop"),
    )
    assert [arguments for _, _, arguments in calls(events)] == ['{"day": "Friday"}', '{"day": "Sunday"}']
    ids = [call_id for call_id, _, _ in calls(events)]
    assert all(ids)
    assert len(set(ids)) == 2


async def test_calls_that_share_an_index_are_told_apart_by_id(chat: Answered) -> None:
    events = await chat(chat_call(0, "a", "book", "{}"), chat_call(0, "b", "book", "{}"), *chat_end())
    assert [call_id for call_id, _, _ in calls(events)] == ["a", "b"]


async def test_an_id_that_the_history_has_already_is_replaced(chat: Answered, ask: Ask) -> None:
    request = ask(FunctionCall(call_id="call_0", name="book", arguments="{}"))
    events = await chat(chat_call(0, "call_0", "book", "{}"), *chat_end("tool_calls"), request=request)
    ((call_id, name, _),) = calls(events)
    assert name == "book"
    assert call_id not in ("", "call_0")


async def test_arguments_may_come_as_an_object(chat: Answered) -> None:
    chunk = chat_delta(tool_calls=[{"index": 0, "id": "a", "function": {"name": "book", "arguments": {"day": "Fri"}}}])
    events = await chat(chunk, *chat_end("tool_calls"))
    assert json.loads(calls(events)[0][2]) == {"day": "Fri"}


@pytest.mark.parametrize("cut", ['{"da', "[" * 50_000], ids=["in a name", "in brackets without end"])
@pytest.mark.parametrize(("reason", "count"), [("length", 1), ("tool_calls", 2)])
async def test_a_call_that_the_token_limit_cut_is_not_made(chat: Answered, reason: str, count: int, cut: str) -> None:
    """Without a limit the arguments are the model's own mistake, which its caller answers."""
    events = await chat(chat_call(0, "a", "book", "{}"), chat_call(1, "b", "book", cut), *chat_end(reason))
    assert len(calls(events)) == count
    assert events[-1] == Done(reason)


async def test_an_incomplete_response_says_why_and_drops_the_cut_call(responses: Answered) -> None:
    events = await responses(*responses_call(0, "a", "book", '{"da', is_done=False), responses_end("max_output_tokens"))
    assert calls(events) == []
    assert events == [USAGE, Done("max_output_tokens")]


async def test_refusals_are_spoken_and_named(chat: Answered, responses: Answered) -> None:
    assert await chat(chat_delta(refusal="I cannot."), *chat_end()) == [TextDelta("I cannot."), USAGE, Done("refusal")]
    events = await responses(*responses_answer(refusal_text="I cannot.").steps)
    assert events == [TextDelta("I cannot."), USAGE, Done("refusal")]


async def test_a_server_that_counts_nothing_yields_no_usage(chat: Answered) -> None:
    assert await chat(chat_delta(content="Hi"), chat_delta(finish="stop"), DONE) == [TextDelta("Hi"), Done("stop")]


async def test_usage_in_each_chunk_counts_once(chat: Answered) -> None:
    first = {**chat_delta(content="Hi"), "usage": {"prompt_tokens": 12, "completion_tokens": 1, "total_tokens": 13}}
    assert [event for event in await chat(first, *chat_end()) if isinstance(event, Usage)] == [USAGE]


async def test_the_end_may_lack_its_marker(chat: Answered) -> None:
    assert await chat(chat_delta(content="Hi"), chat_delta(finish="stop")) == [TextDelta("Hi"), Done("stop")]


async def test_comments_and_reasoning_are_not_spoken(chat: Answered, responses: Answered) -> None:
    keepalive = b": keep-alive\n\n"
    events = await chat(keepalive, chat_delta(reasoning_content="Hm."), chat_delta(content="Hi"), *chat_end())
    assert events[0] == TextDelta("Hi")
    thought = responses_event("response.reasoning_text.delta", output_index=0, delta="Hm.")
    assert (await responses(thought, *responses_answer("Hi").steps))[0] == TextDelta("Hi")


async def test_unknown_events_are_passed_over(responses: Answered) -> None:
    events = await responses(responses_event("response.something_new", data=1), *responses_answer("Hi").steps)
    assert events[0] == TextDelta("Hi")


async def test_a_connection_lost_after_the_end_of_the_answer_does_no_harm(chat: Answered) -> None:
    events = await chat(chat_delta(content="Hi"), chat_delta(finish="stop"), BREAK)
    assert events == [TextDelta("Hi"), Done("stop")]


@given(st.lists(st.text(max_size=6), min_size=1, max_size=8), st.randoms())
def test_law_fragments_give_the_same_call_however_they_interleave(pieces: list[str], random: Random) -> None:
    first = [(0, piece) for piece in pieces]
    second = [(1, piece) for piece in reversed(pieces)]
    order = [0] * len(first) + [1] * len(second)
    random.shuffle(order)
    reader = ChatReader(GenerateRequest(context=ChatContext()))
    starts: list[Step] = [chat_call(0, "a", "one", None), chat_call(1, "b", "two", None)]
    chunks = starts + [chat_call(i, None, None, (first, second)[i].pop(0)[1]) for i in order]
    for chunk in [*chunks, chat_delta(finish="tool_calls")]:
        assert isinstance(chunk, dict)
        reader.feed(ChatCompletionChunk.model_validate(chunk))
    made = {event.name: event.arguments for event in reader.finish() if isinstance(event, ToolCall)}
    expected = "".join(pieces), "".join(reversed(pieces))
    assert made == {
        "one": expected[0] if expected[0].strip() else "{}",
        "two": expected[1] if expected[1].strip() else "{}",
    }

"""Answers: the events of the API become ours, each answer ends as it should, and a cut cancels it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.chat import assistant, call, output, user
from vivavoce.pipelines.core.errors import (
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderStatusError,
)
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.streams import ServerEvent
from vivavoce.plugins import anthropic
from vivavoce.plugins.anthropic.twin import CUT, HANG, Answer, Call, Fail, Raw, Thought, Twin
from vivavoce.plugins.anthropic.wire import Reader

MakeLLM = Callable[..., anthropic.LLM]
Read = Callable[[anthropic.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]


async def test_text_comes_as_it_is_made_and_the_answer_ends_with_usage(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer("Hello ", "there.", output_tokens=7))
    *texts, usage, done = await answer(make_llm(caching=None), hello)
    assert texts == [TextDelta("Hello "), TextDelta("there.")]
    assert usage == Usage(input_tokens=usage.input_tokens, output_tokens=7)  # type: ignore[union-attr]
    assert done == Done("end_turn")


async def test_several_calls_come_whole_behind_the_words(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer("A moment.", Call("book", {"day": "Friday"}, id="a"), Call("leave", id="b", pieces=("",))))
    text, first, second, _, done = await answer(make_llm(), hello)
    assert text == TextDelta("A moment.")
    assert first == ToolCall(call_id="a", name="book", arguments='{"day": "Friday"}')
    assert second == ToolCall(call_id="b", name="leave", arguments="{}")
    assert done == Done("tool_use")


async def test_a_call_with_an_id_of_the_history_gets_its_own(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    twin.add(Answer(Call("book", id="a")))
    (made, *_) = await answer(make_llm(), ask(user("Friday"), call("a"), output("a"), user("Saturday")))
    assert isinstance(made, ToolCall)
    assert made.call_id not in ("", "a")


async def test_thoughts_are_not_spoken(twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> None:
    twin.add(Answer(Thought("They greet me."), Thought(is_redacted=True), "Hello."))
    text, _, done = await answer(make_llm(thinking="adaptive"), hello)
    assert (text, done) == (TextDelta("Hello."), Done("end_turn"))


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
async def test_a_call_that_the_end_of_the_answer_cuts_is_dropped(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, reason: str
) -> None:
    cut = Call("book", id="b", pieces=('{"day": "Fri',))
    twin.add(Answer(Call("book", {"day": "Friday"}, id="a"), cut, stop_reason=reason))
    events = await answer(make_llm(), hello)
    assert [event.call_id for event in events if isinstance(event, ToolCall)] == ["a"]
    assert events[-1] == Done(reason)


async def test_a_refusal_is_an_outcome_and_calls_nothing(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, caplog: pytest.LogCaptureFixture
) -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It is about malware."}
    twin.add(Answer("Well,", Call("book"), stop_reason="refusal", stop_details=details))
    events = await answer(make_llm(), hello)
    assert [type(event) for event in events] == [TextDelta, Usage, Done]
    assert events[-1] == Done("refusal")
    assert "refused to answer (cyber)" in caplog.text


async def test_the_next_turn_reads_the_conversation_so_far_from_the_cache(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    llm = make_llm()
    fields = {"instructions": "You take bookings. " * 20}
    usages = []
    history = [user("Hello"), assistant("Good evening.", interrupted=True), user("A table"), assistant("When?")]
    for turn in (2, 4):
        twin.add(Answer("Fine."))
        request = ask(*history[: turn - 1], extra_instructions=f"Turn {turn}.", **fields)
        usages.append(next(e for e in await answer(llm, request) if isinstance(e, Usage)))
    first, second = usages
    assert first.cached_tokens == 0
    assert 0.7 * first.input_tokens < first.cache_write_tokens <= first.input_tokens
    assert 0 < second.cache_write_tokens <= second.input_tokens - second.cached_tokens
    assert 0.7 * first.input_tokens < second.cached_tokens < second.input_tokens
    assert [body["system"][0]["cache_control"] for body in twin.bodies] == [{"type": "ephemeral"}] * 2


async def test_the_step_behind_a_tool_reads_all_of_the_step_before_from_the_cache(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    llm = make_llm(caching="1h")
    fields: dict[str, Any] = {"instructions": "Be brief. " * 20, "extra_instructions": "In German.", "turn_id": "t"}
    twin.add(Answer(Call("book")), Answer("Gut."))
    first = next(e for e in await answer(llm, ask(user("Hi"), **fields)) if isinstance(e, Usage))
    behind = ask(user("Hi"), call("a", turn_id="t"), output("a", turn_id="t"), **fields)
    second = next(e for e in await answer(llm, behind) if isinstance(e, Usage))
    assert "tools" in twin.bodies[1], "they stand before all, so that nothing else is read"
    assert second.cached_tokens == 0
    twin.add(Answer("Gut."))
    third = next(e for e in await answer(llm, behind) if isinstance(e, Usage))
    assert third.cached_tokens == third.input_tokens > first.input_tokens
    assert third.cache_write_tokens == 0
    assert twin.bodies[0]["system"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


async def test_an_overload_in_the_middle_of_an_answer_may_be_tried_again(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer("So", Fail()), Answer("So", Fail("invalid_request_error", "no")))
    with pytest.raises(ProviderStatusError, match="overloaded_error; Overloaded") as caught:
        await answer(make_llm(), hello)
    assert (caught.value.status, caught.value.retryable) == (529, True)
    with pytest.raises(ProviderStatusError) as caught:
        await answer(make_llm(), hello)
    assert (caught.value.status, caught.value.retryable) == (400, False)


async def test_an_answer_that_breaks_off_is_an_error_and_one_behind_its_end_stands(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    end = b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
    twin.add(Answer("So", CUT), Answer("So", Raw(end), CUT))
    with pytest.raises(ProviderConnectionError):
        await answer(make_llm(), hello)
    assert (await answer(make_llm(), hello))[-1] == Done("end_turn")


async def test_a_cut_cancels_the_request_and_the_next_one_works(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    llm = make_llm()
    twin.add(Answer("So", HANG), Answer("Yes."))
    async with aclosing(llm.generate(hello)) as events:
        assert await anext(events) == TextDelta("So")
    await twin.client_left()
    assert (await answer(llm, hello))[0] == TextDelta("Yes.")


async def test_answers_to_their_end_share_one_connection_also_if_the_server_does_not_end_the_body(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    llm = make_llm()
    twin.add(*(Answer(f"{number}.") for number in range(3)))
    for _ in range(3):
        await answer(llm, hello)
    assert len(twin.connections) == 1
    stop = b'data: {"type": "message_stop"}\n\n'
    end = b'data: {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}\n\n'
    twin.add(Answer("So", Raw(end), Raw(stop), HANG))
    assert (await answer(llm, hello))[-1] == Done("end_turn")
    await twin.client_left()


MALFORMED = {
    "no type": '{"index": 0}',
    "index": '{"type": "content_block_start", "index": "0", "content_block": {"type": "text"}}',
    "text": '{"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": 5}}',
    "before its start": '{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}}',
    "no name": '{"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "a"}}',
}
END = '{"type": "message_delta", "delta": {"stop_reason": "end_turn"}}'


def reader() -> Reader:
    return Reader(GenerateRequest(context=ChatContext([user("Hi")])), "a", Failures(provider="anthropic"))


def whole(*events: str) -> list[LLMEvent]:
    """Return what a reader makes of these events and no more."""
    read = reader()
    return [item for event in events for item in read.feed(ServerEvent(event))] + read.finish()


@pytest.mark.parametrize("event", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_is_a_protocol_error(event: str) -> None:
    with pytest.raises(ProviderProtocolError):
        whole(event, END)


@pytest.mark.parametrize(
    "event",
    [
        '{"type": "ping"}',
        '{"type": "of_the_future"}',
        '{"type": "content_block_start", "index": 3, "content_block": {"type": "server_tool_use", "id": "s"}}',
        '{"type": "content_block_delta", "index": 3, "delta": {"type": "citations_delta", "citation": {}}}',
        '{"type": "message_delta", "delta": null, "usage": {"input_tokens": null, "output_tokens": true}}',
    ],
)
def test_an_event_without_a_use_here_changes_nothing(event: str) -> None:
    assert whole(event, END) == [Done("end_turn")]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
names = ["message_start", "content_block_start", "content_block_delta", "message_delta", "error", "message_stop"]
fields = ["message", "index", "content_block", "delta", "usage", "error"]
blocks = st.fixed_dictionaries({"type": st.sampled_from(["text", "tool_use", "thinking", "text_delta"]) | values})
events = st.fixed_dictionaries(
    {"type": st.sampled_from(names) | values},
    optional={name: st.integers(0, 2) | blocks | values for name in fields},
)


@given(st.lists(events, max_size=6))
def test_no_sequence_of_events_raises_anything_but_a_provider_error(sequence: list[Any]) -> None:
    with suppress(ProviderError):
        whole(*map(json.dumps, sequence))

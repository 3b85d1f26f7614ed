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
from vivavoce.plugins import google
from vivavoce.plugins.google.llm_wire import Reader
from vivavoce.plugins.google.twin import CUT, HANG, Answer, Call, Raw, Refuse, Thought, Twin

MakeLLM = Callable[..., google.LLM]
Read = Callable[[google.LLM, GenerateRequest], Awaitable[list[LLMEvent]]]
Ask = Callable[..., GenerateRequest]

END = b'data: {"candidates": [{"finishReason": "STOP"}], "usageMetadata": {"promptTokenCount": 1}}\n\n'


async def test_text_comes_as_it_is_made_and_the_answer_ends_with_usage(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer("Hello ", "there.", output_tokens=7, thought_tokens=30))
    *texts, usage, done = await answer(make_llm(), hello)
    assert texts == [TextDelta("Hello "), TextDelta("there.")]
    assert usage == Usage(input_tokens=usage.input_tokens, output_tokens=37)  # type: ignore[union-attr]
    assert done == Done("STOP")


async def test_several_calls_come_whole_behind_the_words_with_ids_of_their_own(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer("A moment.", Call("book", {"day": "Friday"}), Call("leave"), Call("leave", id="given")))
    text, *calls, _, done = await answer(make_llm(), hello)
    assert text == TextDelta("A moment.")
    made = [(one.name, one.arguments) for one in calls if isinstance(one, ToolCall)]
    assert made == [("book", '{"day": "Friday"}'), ("leave", "{}"), ("leave", "{}")]
    ids = [one.call_id for one in calls if isinstance(one, ToolCall)]
    assert len(set(ids)) == 3
    assert ids[2] == "given"
    assert done == Done("STOP")


async def test_a_call_with_an_id_of_the_history_gets_its_own(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    twin.add(Answer(Call("book", id="a")))
    (made, *_) = await answer(make_llm(), ask(user("Friday"), call("a"), output("a"), user("Saturday")))
    assert isinstance(made, ToolCall)
    assert made.call_id not in ("", "a")


async def test_thoughts_are_not_spoken(twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest) -> None:
    twin.add(Answer(Thought("They greet me."), "Hello."))
    text, _, done = await answer(make_llm(), hello)
    assert (text, done) == (TextDelta("Hello."), Done("STOP"))


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "RECITATION", "SPII", "BLOCKLIST", "MODEL_ARMOR"])
async def test_a_withheld_answer_is_an_outcome_and_calls_nothing(
    twin: Twin,
    make_llm: MakeLLM,
    answer: Read,
    hello: GenerateRequest,
    caplog: pytest.LogCaptureFixture,
    reason: str,
) -> None:
    twin.add(Answer("Well,", Call("book"), finish_reason=reason))
    events = await answer(make_llm(), hello)
    assert [type(event) for event in events] == [TextDelta, Usage, Done]
    assert events[-1] == Done(reason)
    assert f"withheld ({reason})" in caplog.text


async def test_a_blocked_prompt_is_an_outcome_without_words(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, caplog: pytest.LogCaptureFixture
) -> None:
    twin.add(Answer(block_reason="JAILBREAK"))
    events = await answer(make_llm(), hello)
    assert [type(event) for event in events] == [Usage, Done]
    assert events[-1] == Done("JAILBREAK")
    assert "withheld (JAILBREAK)" in caplog.text


async def test_thinking_that_takes_all_tokens_is_named(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, caplog: pytest.LogCaptureFixture
) -> None:
    twin.add(Answer(finish_reason="MAX_TOKENS", thought_tokens=50))
    events = await answer(make_llm(max_output_tokens=50), hello)
    assert events[-1] == Done("MAX_TOKENS")
    assert "max_output_tokens before its first word" in caplog.text


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"])
async def test_a_call_that_the_model_wrote_wrong_may_be_tried_again(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, reason: str
) -> None:
    twin.add(Answer(finish_reason=reason))
    with pytest.raises(ProviderProtocolError, match=reason) as caught:
        await answer(make_llm(), hello)
    assert caught.value.retryable


async def test_a_missing_signature_is_not_tried_again(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    twin.add(Answer(finish_reason="MISSING_THOUGHT_SIGNATURE"))
    with pytest.raises(ProviderStatusError, match="MISSING_THOUGHT_SIGNATURE") as caught:
        await answer(make_llm(), hello)
    assert not caught.value.retryable


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
    assert 0.7 * first.input_tokens < second.cached_tokens < second.input_tokens


async def test_the_step_behind_a_tool_reads_all_of_the_step_before_from_the_cache(
    twin: Twin, make_llm: MakeLLM, answer: Read, ask: Ask
) -> None:
    llm = make_llm()
    fields: dict[str, Any] = {"instructions": "Be brief.", "extra_instructions": "In German.", "turn_id": "t"}
    twin.add(Answer(Call("book")), Answer("Gut."))
    events = await answer(llm, ask(user("Hi"), **fields))
    made = next(e for e in events if isinstance(e, ToolCall))
    own = (call(made.call_id, extra=made.extra, turn_id="t"), output(made.call_id, turn_id="t"))
    second = await answer(llm, ask(user("Hi"), *own, **fields))
    first, after = (next(e for e in one if isinstance(e, Usage)) for one in (events, second))
    assert after.cached_tokens == first.input_tokens > 0


async def test_an_error_in_the_middle_of_an_answer_says_whether_to_try_again(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    as_event = b'data: {"error": {"code": 400, "message": "no", "status": "INVALID_ARGUMENT"}}\n\n'
    limited = Refuse(code=429, message="Slow down", retry_delay="7s")
    twin.add(Answer("So", limited), Answer("So", Raw(as_event)), Answer(Raw(b'data: {"error": {}}\n\n')))
    with pytest.raises(ProviderStatusError, match="RESOURCE_EXHAUSTED, asks to wait 7 s; Slow down") as caught:
        await answer(make_llm(), hello)
    assert (caught.value.status, caught.value.retryable, caught.value.retry_after) == (429, True, 7.0)
    with pytest.raises(ProviderStatusError, match="INVALID_ARGUMENT; no") as caught:
        await answer(make_llm(), hello)
    assert (caught.value.status, caught.value.retryable) == (400, False)
    with pytest.raises(ProviderError, match="the answer failed"):
        await answer(make_llm(), hello)


async def test_an_answer_that_breaks_off_is_an_error_and_one_behind_its_end_stands(
    twin: Twin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    no_usage = b'data: {"candidates": [{"finishReason": "STOP"}]}\n\n'
    twin.add(Answer("So", CUT), Answer("So", Raw(END), CUT), Answer(Raw(no_usage), CUT))
    with pytest.raises(ProviderConnectionError):
        await answer(make_llm(), hello)
    assert (await answer(make_llm(), hello))[-1] == Done("STOP")
    assert await answer(make_llm(), hello) == [Done("STOP")]


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
    twin.add(Answer("So", Raw(END), HANG))
    assert (await answer(llm, hello))[-1] == Done("STOP")
    await twin.client_left()


MALFORMED = {
    "no object": "[]",
    "candidates": '{"candidates": {"a": 1}}',
    "parts": '{"candidates": [{"content": {"parts": "Hi"}}]}',
    "text": '{"candidates": [{"content": {"parts": [{"text": 5}]}}]}',
    "no name": '{"candidates": [{"content": {"parts": [{"functionCall": {"args": {}}}]}}]}',
    "args": '{"candidates": [{"content": {"parts": [{"functionCall": {"name": "a", "args": "{}"}}]}}]}',
    "reason": '{"candidates": [{"finishReason": 1}]}',
}
STOP = '{"candidates": [{"finishReason": "STOP"}]}'


def reader() -> Reader:
    return Reader(GenerateRequest(context=ChatContext([user("Hi")])), "a", Failures(provider="google"))


def whole(*events: str) -> list[LLMEvent]:
    """Return what a reader makes of these events and no more."""
    read = reader()
    return [item for event in events for item in read.feed(ServerEvent(event))] + read.finish()


@pytest.mark.parametrize("event", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_event_is_a_protocol_error(event: str) -> None:
    with pytest.raises(ProviderProtocolError):
        whole(event, STOP)


@pytest.mark.parametrize(
    "event",
    [
        "{}",
        '{"candidates": []}',
        '{"candidates": [{"content": {"role": "model"}, "index": 0}], "modelVersion": "m"}',
        '{"candidates": [{"content": {"parts": [{"executableCode": {}}, {"text": "", "thoughtSignature": "s"}]}}]}',
        '{"usageMetadata": {"promptTokenCount": null, "candidatesTokenCount": true, "ofTheFuture": 3}}',
        '{"candidates": [null], "promptFeedback": {"safetyRatings": []}}',
        '{"candidates": [{"finishReason": "FINISH_REASON_UNSPECIFIED"}]}',
        '{"promptFeedback": {"blockReason": "BLOCKED_REASON_UNSPECIFIED"}}',
    ],
)
def test_an_event_without_a_use_here_changes_nothing(event: str) -> None:
    assert whole(event, STOP) == [Done("STOP")]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
parts = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=5) | values,
        "thought": st.booleans() | values,
        "functionCall": st.fixed_dictionaries({}, optional={"name": values, "args": values, "id": values}) | values,
        "thoughtSignature": st.text(max_size=5) | values,
    },
)
contents = st.fixed_dictionaries({}, optional={"parts": st.lists(parts, max_size=3) | values})
candidates = st.fixed_dictionaries({}, optional={"content": contents | values, "finishReason": values})
events = st.fixed_dictionaries(
    {},
    optional={
        "candidates": st.lists(candidates, max_size=2) | values,
        "usageMetadata": st.dictionaries(st.sampled_from(["promptTokenCount", "x"]), values) | values,
        "promptFeedback": st.fixed_dictionaries({}, optional={"blockReason": values}) | values,
        "error": st.fixed_dictionaries({}, optional={"code": values, "message": values, "status": values}) | values,
    },
)


@given(st.lists(events, max_size=6))
def test_no_sequence_of_events_raises_anything_but_a_provider_error(sequence: list[Any]) -> None:
    with suppress(ProviderError):
        whole(*map(json.dumps, sequence))

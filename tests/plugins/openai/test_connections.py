"""Connections: when they open, are shared and closed, and the pipeline's reaction to failures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing

import anyio
import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.cascading import CascadingConnection, CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderStatusError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.pipeline import PipelineContext
from vivavoce.pipelines.testing import ScriptedTTS
from vivavoce.plugins import openai
from vivavoce.plugins.openai.options import Api
from vivavoce.plugins.openai.twin import (
    BREAK,
    HANG,
    Answer,
    OpenAITwin,
    Step,
    chat_answer,
    chat_delta,
    refusal,
    responses_answer,
    responses_event,
)

Read = Callable[[openai.LLM, GenerateRequest], Coroutine[None, None, list[LLMEvent]]]
MakeLLM = Callable[..., openai.LLM]

FIRST: dict[Api, Step] = {
    "chat": chat_delta(content="Hel"),
    "responses": responses_event("response.output_text.delta", output_index=0, delta="Hel"),
}


@pytest.mark.parametrize("api", list(FIRST))
async def test_closing_an_answer_closes_its_connection(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, api: Api
) -> None:
    llm = make_llm(api=api)
    server.add(Answer(steps=[FIRST[api], HANG]), chat_answer("Hi.") if api == "chat" else responses_answer("Hi."))
    async with aclosing(llm.generate(hello)) as events:
        assert await anext(events) == TextDelta("Hel")
    await server.client_is_gone()
    assert (await answer(llm, hello))[0] == TextDelta("Hi.")


@pytest.mark.parametrize("steps", [[HANG], [chat_delta(role="assistant"), HANG]])
async def test_cancelling_a_request_closes_its_connection(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest, steps: list[Step]
) -> None:
    server.add(Answer(steps=steps))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer, make_llm(), hello)
        await server.hangs()
        tasks.cancel_scope.cancel()
    await server.client_is_gone()


async def test_turns_share_one_connection(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    server.default = chat_answer("Hi.")
    llm = make_llm()
    for _ in range(3):
        await answer(llm, hello)
    assert len(server.connections) == 1


async def test_sessions_share_one_llm(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    llm = make_llm()
    server.add(Answer(steps=[FIRST["chat"], HANG]))
    server.default = chat_answer("Hi.")
    async with aclosing(llm.generate(hello)) as stalled:
        await anext(stalled)
        answers = await asyncio.gather(*(answer(llm, hello) for _ in range(5)))
    assert [events[0] for events in answers] == [TextDelta("Hi.")] * 5


async def test_a_closed_llm_says_so(
    server: OpenAITwin, make_llm: MakeLLM, answer: Read, hello: GenerateRequest
) -> None:
    server.default = chat_answer("Hi.")
    llm = make_llm()
    await answer(llm, hello)
    await llm.aclose()
    await llm.aclose()
    with pytest.raises(ConfigurationError, match="closed"):
        await answer(llm, hello)


async def test_closing_the_llm_ends_what_still_runs(
    server: OpenAITwin, make_llm: MakeLLM, hello: GenerateRequest
) -> None:
    llm = make_llm()
    server.add(Answer(steps=[FIRST["chat"], HANG]))
    events = llm.generate(hello)
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await server.hangs()
    await llm.aclose()
    with pytest.raises(ProviderConnectionError):
        await asyncio.wait_for(waiting, LIMIT)
    await server.client_is_gone()


def test_another_event_loop_is_refused(hello: GenerateRequest) -> None:
    llm = openai.LLM(model="m", base_url="http://127.0.0.1:9/v1")

    async def fail() -> None:
        with pytest.raises(ProviderConnectionError):
            await anext(llm.generate(hello))

    async def refused() -> None:
        with pytest.raises(ConfigurationError, match="for each event loop"):
            await anext(llm.generate(hello))
        with pytest.raises(ConfigurationError, match="for each event loop"):
            await llm.aclose()

    with asyncio.Runner() as first:
        first.run(fail())
        with asyncio.Runner() as second:
            second.run(refused())
        first.run(llm.aclose())


def test_an_llm_of_a_loop_that_has_ended_can_be_closed(hello: GenerateRequest) -> None:
    llm = openai.LLM(model="m", base_url="http://127.0.0.1:9/v1")

    async def fail() -> None:
        with pytest.raises(ProviderConnectionError):
            await anext(llm.generate(hello))

    asyncio.run(fail())
    asyncio.run(llm.aclose())


def opened(llm: openai.LLM) -> CascadingConnection:
    """Return a pipeline's connection that tries again at once."""
    options = CascadingOptions(llm_retry=RetryOptions(waits=(0.0, 0.0)))
    context = PipelineContext(
        clock=LoopClock(), emit=lambda _: None, input_rate=16000, open_limit=10.0, instructions=""
    )
    return CascadingPipeline(llm=llm, tts=ScriptedTTS(), options=options).open(context)


async def test_the_pipeline_tries_again_until_the_first_word(
    server: OpenAITwin, make_llm: MakeLLM, hello: GenerateRequest
) -> None:
    server.add(refusal(429, "slow down", Retry_After="1"), Answer(steps=[BREAK]), chat_answer("Hi."))
    connection = opened(make_llm())
    events = [event async for event in connection.generate(hello)]
    assert events[0] == TextDelta("Hi.")
    assert events[-1] == Done("stop")
    assert len(server.requests) == 3
    await connection.aclose()


async def test_the_pipeline_does_not_repeat_what_was_said(
    server: OpenAITwin, make_llm: MakeLLM, hello: GenerateRequest
) -> None:
    server.add(Answer(steps=[FIRST["chat"], BREAK]), chat_answer("Hi."))
    connection = opened(make_llm())
    events = connection.generate(hello)
    assert await anext(events) == TextDelta("Hel")
    with pytest.raises(ProviderConnectionError):
        await anext(events)
    assert len(server.requests) == 1
    await connection.aclose()


async def test_the_pipeline_does_not_try_a_wrong_key_again(
    server: OpenAITwin, make_llm: MakeLLM, hello: GenerateRequest
) -> None:
    server.add(refusal(401, "wrong key"), chat_answer("Hi."))
    connection = opened(make_llm())
    with pytest.raises(ProviderStatusError, match="check the API key"):
        await anext(connection.generate(hello))
    assert len(server.requests) == 1
    await connection.aclose()

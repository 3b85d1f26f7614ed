"""Conformance checks of LLM and TTS. Each takes a factory and raises AssertionError."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

import anyio

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import CapabilityError, ProviderError
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.call_extra import pack_extra
from vivavoce.pipelines.llm.chat_context import FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice
from vivavoce.pipelines.testing.promises import LIMIT, check_audio, check_closing, require, take, within
from vivavoce.pipelines.tts.base import TTS, AudioChunk, Word

WORD_TOLERANCE = 0.05
"""Seconds by which a word may lie outside of the audio."""


async def check_tts(
    make: Callable[[], TTS], *, text: str = "Hello there. How are you today?", limit: float = LIMIT
) -> None:
    """Check the promises of a TTS.

    Audio is mono, of the promised rate and audible; word times come if promised, in order, inside the audio, and with
    all words of the text; closing a synthesis stops it and the next one works; two at once do not mix; text without
    words is no error; `stream()` raises CapabilityError, or speaks pieces as they come, and also a sentence with a
    space behind it if the text stops there. If it tells what was heard, that is a beginning of the text, or None.

    Args:
        text: Some words, at least two.
        limit: Seconds for each wait.
    """
    async with AsyncExitStack() as stack:
        tts = make()
        stack.push_async_callback(tts.aclose)
        with within(limit, tts, "the speech to end"):
            chunks = [chunk async for chunk in tts.synthesize(text)]
        seconds = _check_speech(tts, chunks, text)
        with within(limit, tts, "a synthesis to be closed"):
            await take(tts.synthesize(text), 1)
        with within(2 * limit, tts, "two syntheses at once"):
            await _check_two_at_once(tts, text, seconds)
        with within(limit, tts, "text without words to end"):
            async for _ in tts.synthesize("…"):
                pass
        with within(limit, tts, "streamed text to end"):
            await _check_streaming(tts, text)
        if tts.capabilities.streams_text:
            with within(limit, tts, "audio of a sentence with a space behind it, before more text comes"):
                await _check_pause(tts)
                await _check_heard(tts, text)
        await check_closing(tts, limit=limit)


async def check_llm(
    make: Callable[[], LLM], *requests: GenerateRequest, limit: float = LIMIT
) -> list[tuple[LLMEvent, ...]]:
    """Check the promises of an LLM, and return its answers.

    Each request yields text or whole tool calls (of tools that were offered, with JSON objects for arguments and ids of
    their own) and ends with exactly one `Done`; closing an answer after its first piece cancels it and the next request
    works; requests do not disturb each other. A model that calls tools answers a history with a call of another
    provider, whose `extra` it ignores, and one with its own calls and their extras.

    Args:
        requests: At least one that the model answers with text or a call.
        limit: Seconds for each answer.
    """
    async with AsyncExitStack() as stack:
        llm = make()
        stack.push_async_callback(llm.aclose)
        answers = []
        for request in requests:
            with within(limit, llm, "an answer"):
                answers.append(tuple([event async for event in llm.generate(request)]))
            check_answer(llm, answers[-1], request)
        with within(limit, llm, "an answer to be closed, and two at once after it"):
            await take(llm.generate(requests[0]), 1)
            await _check_answers_at_once(llm, requests[0])
        if llm.capabilities.supports_tools:
            await _check_history(llm, requests[0], [_foreign_call(requests[0])], "the call of another provider", limit)
        for request, answer in zip(requests, answers, strict=True):
            own = [event for event in answer if isinstance(event, ToolCall)]
            if any(call.extra for call in own):
                await _check_history(llm, request, own, "its own calls", limit)
        await check_closing(llm, limit=limit)
        return answers


def _check_speech(tts: TTS, chunks: Sequence[AudioChunk], text: str) -> float:
    promises = tts.capabilities
    seconds = check_audio(tts, chunks, promises.sample_rate)
    words = [word for chunk in chunks for word in chunk.words]
    if not promises.emits_words:
        require(not words, tts, "no word times, by its capabilities", words)
        return seconds
    same = _bare("".join(word.text for word in words)) == _bare(text)
    require(same, tts, f"all words of {text!r}, as they stand", [word.text for word in words])
    _check_word_times(tts, words, seconds)
    return seconds


def _bare(text: str) -> str:
    return "".join(text.split())


def _check_word_times(tts: TTS, words: Sequence[Word], seconds: float) -> None:
    last = 0.0
    for word in words:
        require(last <= word.start <= word.end, tts, f"words in order (the one before begins at {last:.3f} s)", word)
        require(word.end <= seconds + WORD_TOLERANCE, tts, f"words inside the {seconds:.3f} s of audio", word)
        last = word.start


async def _check_two_at_once(tts: TTS, text: str, seconds: float) -> None:
    lengths: list[float] = []

    async def speak() -> None:
        lengths.append(_check_speech(tts, [chunk async for chunk in tts.synthesize(text)], text))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(speak)
        tasks.start_soon(speak)
    require(all(0.8 * seconds <= one <= 1.2 * seconds for one in lengths), tts, f"about {seconds:.2f} s each", lengths)


async def _check_streaming(tts: TTS, text: str) -> None:
    async def pieces() -> AsyncGenerator[str, None]:
        for start in range(0, len(text), 5):
            yield text[start : start + 5]

    if not tts.capabilities.streams_text:
        try:
            await take(tts.stream(pieces()), 1)
        except CapabilityError:
            return
        raise AssertionError(f"{tts.provider}: needed CapabilityError from stream(), by its capabilities, got a stream")
    _check_speech(tts, [chunk async for chunk in tts.stream(pieces())], text)


async def _check_pause(tts: TTS) -> None:
    is_heard = anyio.Event()

    async def pieces() -> AsyncGenerator[str, None]:
        yield "Hello there. "
        await is_heard.wait()
        yield "How are you?"

    async with aclosing(tts.stream(pieces())) as chunks:
        async for chunk in chunks:
            if chunk.frame.data:
                is_heard.set()


async def _check_heard(tts: TTS, text: str) -> None:
    """Cut a speech in its middle, and ask a voice that knows what was heard of it."""

    async def whole() -> AsyncGenerator[str, None]:
        yield text

    chunks = await take(tts.stream(whole()), 2)
    for chunk in chunks:
        if chunk.heard is not None:
            told = await chunk.heard(sum(chunk.frame.duration for chunk in chunks))
            is_begin = told is None or _bare(text).startswith(_bare(told))
            require(is_begin, tts, f"a beginning of {text!r}, or None, as the text that was heard", told)


async def _check_answers_at_once(llm: LLM, request: GenerateRequest) -> None:
    async def ask() -> None:
        check_answer(llm, [event async for event in llm.generate(request)], request)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        tasks.start_soon(ask)


def _foreign_call(request: GenerateRequest) -> ToolCall:
    name = request.tools[0].name if request.tools else "look_up"
    return ToolCall(call_id="foreign", name=name, arguments="{}", extra=pack_extra("another", {"signature": "c2ln"}))


async def _check_history(
    llm: LLM, request: GenerateRequest, calls: Sequence[ToolCall], whose: str, limit: float
) -> None:
    """Check the answer to a request behind which these calls were made."""
    context = request.context.copy()
    for call in calls:
        context.append(FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments, extra=call.extra))
    for call in calls:
        context.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output="ok"))
    further = replace(request, context=context, tool_choice=ToolChoice())
    promise = f"an answer to a history with {whose}"
    with within(limit, llm, promise):
        try:
            answer = [event async for event in llm.generate(further)]
        except ProviderError as error:
            raise AssertionError(f"{llm.provider}: needed {promise}, got {error}") from error
    check_answer(llm, answer, further)


def check_answer(who: Component, answer: Sequence[LLMEvent], request: GenerateRequest) -> None:
    """Check an answer: text or calls of tools that were offered, and one `Done` at its end."""
    kinds = [type(event).__name__ for event in answer]
    require(kinds.count("Done") == 1 and isinstance(answer[-1], Done), who, "exactly one Done, at the end", kinds)
    for event in answer:
        require(isinstance(event, TextDelta | ToolCall | Usage | Done), who, "an LLMEvent", event)
    calls = [event for event in answer if isinstance(event, ToolCall)]
    says = any(isinstance(event, TextDelta) and event.text for event in answer)
    require(says or bool(calls), who, "text or a tool call", kinds)
    require(len({call.call_id for call in calls}) == len(calls), who, "a call_id for each call", calls)
    offered = {tool.name for tool in request.tools}
    for call in calls:
        require(call.name in offered, who, f"a tool of {sorted(offered)}", call.name)
        require(isinstance(json.loads(call.arguments), dict), who, "a JSON object for arguments", call.arguments)

"""Conformance checks of a realtime model. They take a factory and raise AssertionError."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import TypeVar

import anyio

from vivavoce.pipelines.core.errors import CapabilityError, first_error
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeConnection,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeModel,
    RealtimeProblem,
    RealtimeSetup,
    RealtimeTranscript,
)
from vivavoce.pipelines.testing.checks_speaking import check_answer
from vivavoce.pipelines.testing.promises import LIMIT, check_audio, check_closing, frames_of, require, take, within
from vivavoce.pipelines.tts.base import AudioChunk

E = TypeVar("E", bound=RealtimeEvent)

PAST = (
    ChatMessage(role="user", content="My name is Ada."),
    ChatMessage(role="assistant", content="Hello Ada, how can I", interrupted=True),
)
"""The first message of the conversation."""


async def check_realtime_model(
    make: Callable[[], RealtimeModel],
    request: GenerateRequest,
    speech: AudioFrame,
    *,
    hears: str = "",
    limit: float = LIMIT,
) -> None:
    """Check the promises of a realtime model.

    It opens with a history; takes audio, and reports each `commit()` once, in order (local turn detection); an answer
    ends with exactly one `Done`, its pieces have an item id, and it holds audio of the promised rate, or none for an
    answer in text; calls are answered by `append()` and a new request; an answer that is truncated and closed is
    cancelled, and the next one works; unknown answers raise KeyError; `say()` is heard, or refused by a model without
    audio; it survives items that are appended, updated, cleared and refused; a closed connection ends its events and
    may be closed twice.

    Args:
        request: A request that the model answers, five times.
        speech: Mono, any rate; pushed before it.
        hears: The words of the speech, or a part of them, if its transcript is to be checked.
    """
    async with AsyncExitStack() as stack:
        model = make()
        stack.push_async_callback(model.aclose)
        setup = setup_for(model, request)
        with within(limit, model, "open() to return a connection"):
            connection = await model.open(setup)
        stack.push_async_callback(connection.aclose)
        reports = _Reports(model, connection, limit)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(reports.collect)
                await _check_listening(reports, setup, speech, hears)
                await _check_answers(model, connection, setup, request, limit)
                await _check_say(model, connection, setup, limit)
                require(not reports.of(RealtimeProblem), model, "no problem in an orderly conversation", reports.events)
                with within(limit, model, "the connection to be closed and its events to end"):
                    await connection.aclose()
                    await connection.aclose()
                    await reports.until(lambda: reports.have_ended, "the end of the events")
        except ExceptionGroup as failures:
            raise first_error(failures) from failures
        await check_closing(model, limit=limit)


def setup_for(model: RealtimeModel, request: GenerateRequest) -> RealtimeSetup:
    """Return the setup with which `model` answers `request`: turns ended by `commit()` and speech, if it can."""
    can = model.capabilities
    return RealtimeSetup(
        instructions=request.instructions,
        tools=request.tools,
        turn_detection="local" if "local" in can.turn_detection else "remote",
        answers="audio" if can.generates_audio else "text",
        history=ChatContext(PAST),
    )


class _Reports:
    """The events of a connection, as they come."""

    def __init__(self, model: RealtimeModel, connection: RealtimeConnection, limit: float) -> None:
        self.model = model
        self.connection = connection
        self.events: list[RealtimeEvent] = []
        self.have_ended = False
        self._limit = limit
        self._changed = anyio.Event()

    async def collect(self) -> None:
        async for event in self.connection.events():
            self.events.append(event)
            self._changed.set()
        self.have_ended = True
        self._changed.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, found: Callable[[], bool], what: str) -> None:
        """Wait until an event was reported.

        Raises:
            AssertionError: It was not, in time.
        """
        with anyio.move_on_after(self._limit):
            while not found():
                self._changed = anyio.Event()
                await self._changed.wait()
        require(found(), self.model, f"{what} within {self._limit} s", self.events)


async def _check_listening(reports: _Reports, setup: RealtimeSetup, speech: AudioFrame, hears: str) -> None:
    def committed() -> list[str]:
        return [event.item_id for event in reports.of(RealtimeInputCommitted)]

    def heard() -> list[RealtimeTranscript]:
        return [event for event in reports.of(RealtimeTranscript) if event.is_final and event.role == "user"]

    model, connection = reports.model, reports.connection
    frames = frames_of(speech, model.capabilities.input_rate)
    for frame in frames:
        connection.push(frame)
    if setup.turn_detection == "remote":
        return
    connection.commit()
    await reports.until(lambda: len(committed()) == 1, "RealtimeInputCommitted for the first commit")
    for frame in frames:
        connection.push(frame)
    connection.commit()
    await reports.until(lambda: len(committed()) == 2, "RealtimeInputCommitted for the second commit")
    names = committed()
    require(all(names) and len(set(names)) == 2, model, "an item_id of its own for each commit", names)
    if hears and model.capabilities.sends_transcripts:
        await reports.until(lambda: len(heard()) >= 2, "a final transcript of each commit")
        require({event.item_id for event in heard()} == set(names), model, f"transcripts of {names}", heard())
        for event in heard():
            require(hears.casefold() in event.text.casefold(), model, f"a transcript with {hears!r}", event.text)
    for frame in frames[: len(frames) // 2]:
        connection.push(frame)
    connection.clear()


async def _check_answers(
    model: RealtimeModel,
    connection: RealtimeConnection,
    setup: RealtimeSetup,
    request: GenerateRequest,
    limit: float,
) -> None:
    with within(limit, model, "an answer"):
        answer = [item async for item in connection.generate(request)]
    _check_spoken(model, setup, answer, request)
    for call in [item for item in answer if isinstance(item, ToolCall)]:
        connection.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output="done"))
    connection.append(ChatMessage(role="user", content="And now?"))
    with within(limit, model, "an answer to what was appended"):
        _check_spoken(model, setup, [item async for item in connection.generate(request)], request)
    with within(limit, model, "an answer to be truncated and closed"):
        await _cut(model, connection, connection.generate(request))
    if model.capabilities.updates:
        connection.update(request.instructions, request.tools)
    with within(limit, model, "an answer to be closed at its first piece"):
        await take(connection.generate(request), 1)
    with within(limit, model, "an answer after one that was closed"):
        _check_spoken(model, setup, [item async for item in connection.generate(request)], request)
    connection.refuse("no such answer")
    try:
        connection.accept("no such answer")
    except KeyError:
        return
    raise AssertionError(f"{model.provider}: needed KeyError for an answer that there is not, got a stream")


async def _cut(
    model: RealtimeModel, connection: RealtimeConnection, answer: AsyncGenerator[LLMEvent | AudioChunk, None]
) -> None:
    """Close an answer as soon as a part of it could be heard, and truncate it to that part, as a session does."""
    async with aclosing(answer) as items:
        async for item in items:
            if isinstance(item, AudioChunk | TextDelta) and item.item_id:
                if model.capabilities.truncates:
                    seconds = item.frame.duration if isinstance(item, AudioChunk) else 0.0
                    connection.truncate(item.item_id, seconds, "")
                break


def _check_spoken(
    model: RealtimeModel, setup: RealtimeSetup, answer: Sequence[LLMEvent | AudioChunk], request: GenerateRequest
) -> None:
    chunks = [item for item in answer if isinstance(item, AudioChunk)]
    texts = [item for item in answer if isinstance(item, TextDelta)]
    check_answer(model, [item for item in answer if not isinstance(item, AudioChunk)], request)
    require(bool(answer) and not isinstance(answer[-1], AudioChunk), model, "Done at the very end", answer)
    names = [chunk.item_id for chunk in chunks] + [text.item_id for text in texts]
    require(all(names), model, "an item_id on each piece of an answer", names)
    if setup.answers == "text":
        require(not chunks, model, "no audio, where text was asked for", f"{len(chunks)} chunks")
    elif texts or chunks:
        check_audio(model, chunks, model.capabilities.output_rate)


async def _check_say(model: RealtimeModel, connection: RealtimeConnection, setup: RealtimeSetup, limit: float) -> None:
    try:
        with within(limit, model, "say() to end"):
            chunks = [chunk async for chunk in connection.say("Hello there.")]
    except CapabilityError:
        require(setup.answers == "text", model, "say(), for it generates audio", "CapabilityError")
    else:
        check_audio(model, chunks, model.capabilities.output_rate)

"""Stages: the model's and the voice's streams, through the hooks of the agent that has the conversation.

`Agent.llm_stage` and `Agent.tts_stage` wrap a stream. An agent without such a hook costs nothing: its replies read the
pipeline's own stream. Decisions:

* The hook is closed first, then each stream that it opened, in the task that reads it, also if the hook was not at its
  end, as after an interruption. A hook need not close the streams that it reads.
* An exception of a hook fails the speech, as one of the model or the voice does; the error names the hook. A hook that
  neither waits for its stream nor yields is cut by the limits of that stream (`SpeechLimits`), and named too. The
  session does not go on without a failed hook: what it was to hide must not be heard.
* Where a hook changes the text that is spoken, the heard words of an interruption are estimated by proportion: the
  voice's word times are those of another text. The history has the model's text, not that of `tts_stage`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import Any, TypeVar

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.stage_observers import StageObservers
from vivavoce.agents.speech.blaming import Failure
from vivavoce.pipelines.core.errors import StageError, describe
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.live_text import LiveText

logger = logging.getLogger(__name__)

T = TypeVar("T")

ModelStream = AsyncGenerator[LLMEvent | AudioChunk, None]
_MODEL_ITEMS = (TextDelta, ToolCall, Usage, Done, AudioChunk)


class Stages:
    """The streams of replies: those of the pipeline in use, wrapped by hooks and watched by observers, if any."""

    def __init__(self, session: SessionContext) -> None:
        self._live = session.live
        self._observers = session.stage_observers

    def generate(self, request: GenerateRequest, failure: Failure) -> ModelStream:
        """Return a model step.

        Args:
            failure: Receives the name of the hook while that has the stream.
        """
        return self._model(request, self._live.connection.generate, failure)

    def accept(
        self, reply_id: str, request: Callable[..., Awaitable[GenerateRequest]], failure: Failure
    ) -> ModelStream:
        """Return an answer that the model's server began.

        Args:
            request: Makes the request that the session would have sent, for a hook.
        Raises:
            KeyError: There is no such answer.
        """
        source = self._live.connection.accept(reply_id)
        if not AgentControl.of(self._live.agent).overrides("llm_stage"):
            return source if not self._observers.has("llm") else _watched(source, self._observers, "llm")
        return self._accepted(source, request, failure)

    async def _accepted(
        self, source: ModelStream, request: Callable[..., Awaitable[GenerateRequest]], failure: Failure
    ) -> ModelStream:
        async with aclosing(source):
            asked = await request(may_call=True, is_first=True)
            async with aclosing(self._model(asked, lambda _: source, failure)) as events:
                async for event in events:
                    yield event

    def _model(
        self, request: GenerateRequest, make: Callable[[GenerateRequest], ModelStream], failure: Failure
    ) -> ModelStream:
        agent = self._live.agent
        stream: ModelStream
        if AgentControl.of(agent).overrides("llm_stage"):
            stream = _model_stage(agent, request, make, failure)
        else:
            stream = make(request)
        return stream if not self._observers.has("llm") else _watched(stream, self._observers, "llm")

    def speak(self, text: str | AsyncIterator[str], failure: Failure) -> AsyncGenerator[AudioChunk, None]:
        """Return the voice of `text`; `failure` as in `generate()`."""
        agent, speak = self._live.agent, self._live.connection.speak
        stream: AsyncGenerator[AudioChunk, None]
        if AgentControl.of(agent).overrides("tts_stage"):
            stream = _voice_stage(agent, text, speak, failure)
        else:
            stream = speak(text)
        return stream if not self._observers.has("tts") else _watched(stream, self._observers, "tts")


async def without_calls(source: ModelStream, speech_id: str) -> ModelStream:
    """Yield the answer that has to do without tools; a model that calls all the same is not heard there."""
    async with aclosing(source) as events:
        async for event in events:
            if isinstance(event, ToolCall):
                logger.warning("Speech %s: a call of %s after max_tool_steps is not run", speech_id, event.name)
            else:
                yield event


async def _watched(stream: AsyncGenerator[T, None], observers: StageObservers, stage: str) -> AsyncGenerator[T, None]:
    async with aclosing(stream) as items:
        async for item in items:
            observers.show(stage, item)
            yield item


async def _model_stage(
    agent: Agent, request: GenerateRequest, make: Callable[[GenerateRequest], ModelStream], failure: Failure
) -> ModelStream:
    async with AsyncExitStack() as opened:
        held = _Held("llm_stage", failure, opened)

        def generate(given: GenerateRequest) -> AsyncIterator[LLMEvent | AudioChunk]:
            return held.inner(make(given))

        async with aclosing(held.hook(agent.llm_stage(request, generate))) as items:
            async for item in items:
                if isinstance(item, str):
                    yield TextDelta(item)
                elif isinstance(item, _MODEL_ITEMS):
                    yield item
                else:
                    raise StageError(
                        f"needed text, or an event of the model, got {type(item).__name__}", component="llm_stage"
                    )


async def _voice_stage(
    agent: Agent,
    text: str | AsyncIterator[str],
    voice: Callable[[str | AsyncIterator[str]], AsyncGenerator[AudioChunk, None]],
    failure: Failure,
) -> AsyncGenerator[AudioChunk, None]:
    async with AsyncExitStack() as opened:
        held = _Held("tts_stage", failure, opened)
        given = _GivenText(text, held)
        said = _SaidText(given)

        def speak(spoken: str | AsyncIterator[str]) -> AsyncIterator[AudioChunk]:
            if isinstance(spoken, str):
                said.add(spoken)
                return held.inner(voice(spoken))
            return held.inner(voice(spoken if spoken is given else said.of(spoken)))

        async with aclosing(held.hook(agent.tts_stage(given, speak))) as chunks:
            async for chunk in chunks:
                if not isinstance(chunk, AudioChunk):
                    raise StageError(f"needed an AudioChunk, got {type(chunk).__name__}", component="tts_stage")
                if said.is_changed and (chunk.words or chunk.text):
                    chunk = AudioChunk(chunk.frame, requested_at=chunk.requested_at, is_end=chunk.is_end)
                yield chunk


def opened_stream(stream: Any, component: str, stack: AsyncExitStack) -> Any:
    """Return a hook's stream, which `stack` closes.

    Raises:
        StageError: It is none.
    """
    if not hasattr(stream, "__anext__"):
        if inspect.iscoroutine(stream):
            stream.close()
        kind = "a coroutine" if inspect.iscoroutine(stream) else type(stream).__name__
        raise StageError(f"needed an async generator, got {kind}; yield in the hook", component=component)
    if (aclose := getattr(stream, "aclose", None)) is not None:
        stack.push_async_callback(aclose)
    return stream


class _Held:
    """Knows whether a hook, or the stream that it reads, is waited for, and whose error an exception is.

    Args:
        opened: Closes the streams that the hook opens.
    """

    def __init__(self, component: str, failure: Failure, opened: AsyncExitStack) -> None:
        self._component = component
        self._failure = failure
        self._opened = opened
        self._error: BaseException | None = None

    async def hook(self, stream: Any) -> AsyncGenerator[Any, None]:
        """Yield what the hook yields."""
        try:
            async with AsyncExitStack() as stack:
                opened_stream(stream, self._component, stack)
                while True:
                    self._failure.waits_for(self._component)
                    try:
                        item = await anext(stream)
                    except StopAsyncIteration:
                        return
                    finally:
                        self._failure.waits_for("")
                    yield item
        except StageError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary to the hook's code: the error gets its name
            if error is self._error:  # the pipeline's, which came through the hook
                raise
            raise StageError(f"the hook raised {describe(error)}", component=self._component) from error

    def inner(self, stream: AsyncGenerator[T, None]) -> AsyncIterator[T]:
        """Return the pipeline's stream for the hook; it is closed after the hook."""
        reader = self._read(stream)
        self._opened.push_async_callback(reader.aclose)
        return reader

    async def _read(self, stream: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
        async with aclosing(stream):
            while True:
                with self.outside():
                    try:
                        item = await anext(stream)
                    except StopAsyncIteration:
                        return
                    except Exception as error:
                        self._error = error
                        raise
                yield item

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Around a wait of the hook for the pipeline."""
        self._failure.waits_for("")
        try:
            yield
        finally:
            self._failure.waits_for(self._component)


class _GivenText(LiveText):
    """The text of a speech, as a hook receives it."""

    def __init__(self, text: str | AsyncIterator[str], held: _Held) -> None:
        self._text = _once(text) if isinstance(text, str) else text
        self._held = held
        self.so_far = ""

    async def follows(self, within: float) -> bool:
        """Wait for more text, if the text can say that."""
        return not isinstance(self._text, LiveText) or await self._text.follows(within)

    def __aiter__(self) -> _GivenText:
        return self

    async def __anext__(self) -> str:
        with self._held.outside():
            piece = await anext(self._text)
        self.so_far += piece
        return piece


class _SaidText:
    """The text that a hook gives to the voice, compared with the text that the hook was given."""

    def __init__(self, given: _GivenText) -> None:
        self._given = given
        self._length = 0
        self.is_changed = False
        """Whether it is another text."""

    def add(self, piece: str) -> None:
        """Take more of it.

        Raises:
            StageError: It is no text.
        """
        if not isinstance(piece, str):
            raise StageError(f"speak() needs text, got {type(piece).__name__}", component="tts_stage")
        begin, self._length = self._length, self._length + len(piece)
        if self._given.so_far[begin : self._length] != piece:
            self.is_changed = True

    async def of(self, pieces: AsyncIterator[str]) -> AsyncGenerator[str, None]:
        """Yield a hook's text, and close its source."""
        try:
            async for piece in pieces:
                self.add(piece)
                yield piece
        finally:
            if (aclose := getattr(pieces, "aclose", None)) is not None:
                await aclose()


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text

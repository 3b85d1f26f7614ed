"""Stages: the model's and the voice's streams, through the hooks of the agent that has the conversation.

`Agent.llm_stage` and `Agent.tts_stage` wrap a stream. An agent without such a hook costs nothing: its replies read the
pipeline's own stream. Decisions:

* The hook is closed first, then each stream that it opened, in the task that reads it, also if the hook was not at its
  end, as after an interruption. A hook need not close the streams that it reads.
* An exception of a hook fails the speech, as one of the model or the voice does, also an exit (`SystemExit`); the error
  names the hook. A hook that neither waits for its stream nor yields is cut by the limits of that stream
  (`SpeechLimits`), and named too. The session does not go on without a failed hook: what it was to hide must not be
  heard.
* The answer waits for the hook. So speech that comes behind the answer, a task, a handoff and a change of the pipeline
  cannot be awaited there: that is a SessionError at once. It may wait for a speech that has the floor; the limits stand
  still meanwhile.
* A hook that reads on behind the end of a stream would hold the event loop; it gets an error there. So does an
  `llm_stage` whose text goes on beyond `MAX_TEXT`: an endless one would fill the memory.
* Where a hook changes the text that is spoken, the heard words of an interruption are estimated by proportion: the
  voice's word times are those of another text. The history has the model's text, not that of `tts_stage`.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Generic, TypeVar

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.stage_observers import StageObservers
from vivavoce.agents.core.stage_run import StageRun
from vivavoce.agents.core.usage import model_in_use, text_model_in_use
from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.step_usage import CountUsage, KeptUsage, ModelStream, estimate
from vivavoce.agents.speech.text_channel import MAX_TEXT
from vivavoce.agents.speech.whole_answer import whole_answer
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import StageError, describe
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.live_text import LiveText

logger = logging.getLogger(__name__)

T = TypeVar("T")

MOST_READS_OF_AN_END = 3
"""How often a hook may find that a stream has ended. A hook that reads on after that never ends."""

_MODEL_ITEMS = (TextDelta, ToolCall, Usage, Done, AudioChunk)


class Stages:
    """The streams of replies: the streams of the pipeline in use, wrapped by hooks and watched by observers, if any."""

    def __init__(self, session: SessionContext) -> None:
        self._session = session
        self._live = session.live
        self._observers = session.stage_observers

    def generate(self, request: GenerateRequest, failure: Failure, count: CountUsage) -> ModelStream:
        """Return a model step.

        Args:
            failure: Receives the name of the hook while the hook has the stream.
            count: Called with usage that the stream does not yield: of a step that is cut, or that a hook keeps.
        """
        return self._model(request, partial(self._counted, count), failure, count)

    def _counted(self, count: CountUsage, request: GenerateRequest) -> ModelStream:
        source = whole_answer(self._live.connection.generate(request))
        return self._count(request, source, self._session.session.pipeline, count)

    async def _count(
        self, request: GenerateRequest, source: ModelStream, pipeline: Pipeline, count: CountUsage
    ) -> ModelStream:
        """Yield a model step; its usage names its model, since another one may be in use when it is counted.

        A step that is cut before its model has reported the tokens is counted by an estimate, since its provider
        charges for it. A realtime model reports those tokens later.
        """
        said, is_over = 0, False
        async with aclosing(source) as events:
            try:
                async for event in events:
                    if isinstance(event, Usage):
                        is_over = True
                        if not event.made_by:
                            event = replace(event, made_by=model_in_use(pipeline, "llm"))
                    elif isinstance(event, TextDelta):
                        said += len(event.text.encode())
                    yield event
            except (GeneratorExit, anyio.get_cancelled_exc_class()):
                if not is_over and (model := text_model_in_use(pipeline)):
                    count(estimate(request, said, model))
                raise

    def accept(
        self,
        reply_id: str,
        request: Callable[..., Awaitable[GenerateRequest]],
        failure: Failure,
        count: CountUsage,
    ) -> ModelStream:
        """Return an answer that the model's server began.

        Args:
            request: Makes the request that the session would have sent, for a hook.
            failure, count: As for `generate()`.
        Raises:
            KeyError: There is no such answer. With a hook it is raised while iterating.
            ProviderConnectionError: Its connection is lost. Raised at the same times.
        """
        if AgentControl.of(self._live.agent).overrides("llm_stage"):
            return self._accepted(reply_id, request, failure, count)
        with failure.blaming("llm"):
            source = whole_answer(self._live.connection.accept(reply_id))
        return source if not self._observers.has("llm") else _watched(source, self._observers, "llm")

    async def _accepted(
        self,
        reply_id: str,
        request: Callable[..., Awaitable[GenerateRequest]],
        failure: Failure,
        count: CountUsage,
    ) -> ModelStream:
        asked = await request(may_call=True, is_first=True)  # a speech that is cut here refuses the answer
        async with aclosing(self._live.connection.accept(reply_id)) as source:
            async with aclosing(self._model(asked, lambda _: whole_answer(source), failure, count)) as events:
                async for event in events:
                    yield event

    def _model(
        self,
        request: GenerateRequest,
        make: Callable[[GenerateRequest], ModelStream],
        failure: Failure,
        count: CountUsage,
    ) -> ModelStream:
        agent = self._live.agent
        stream: ModelStream
        if AgentControl.of(agent).overrides("llm_stage"):
            stream = whole_answer(_model_stage(agent, request, make, failure, count))
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
    """Yield the answer of a step without tools. A call that the model makes all the same is not run."""
    async with aclosing(source) as events:
        async for event in events:
            if isinstance(event, ToolCall):
                logger.warning(
                    "Speech %s: a call of %s is not run: this answer does without tools", speech_id, event.name
                )
            else:
                yield event


async def _watched(stream: AsyncGenerator[T, None], observers: StageObservers, stage: str) -> AsyncGenerator[T, None]:
    async with aclosing(stream) as items:
        async for item in items:
            observers.show(stage, item)
            yield item


async def _model_stage(
    agent: Agent,
    request: GenerateRequest,
    make: Callable[[GenerateRequest], ModelStream],
    failure: Failure,
    count: CountUsage,
) -> ModelStream:
    async with AsyncExitStack() as opened:
        kept = KeptUsage(count)
        opened.callback(kept.count)
        held = _Held("llm_stage", failure, opened)

        def generate(given: GenerateRequest) -> AsyncIterator[LLMEvent | AudioChunk]:
            if not isinstance(given, GenerateRequest):
                raise StageError(f"generate() needs a GenerateRequest, got {shown(given)}", component="llm_stage")
            return held.inner(kept.noted(make(given)))

        length = 0
        async with aclosing(held.hook(lambda: agent.llm_stage(request, generate))) as items:
            async for item in items:
                event = TextDelta(item) if isinstance(item, str) else item
                if not isinstance(event, _MODEL_ITEMS):
                    problem = f"needed text, or an event of the model, got {type(event).__name__}"
                    raise StageError(problem, component="llm_stage")
                if isinstance(event, Usage):
                    kept.passed_on(event)
                if not isinstance(event, AudioChunk):
                    length += max(1, len(event.text)) if isinstance(event, TextDelta) else 1
                if length > MAX_TEXT:
                    problem = f"one answer takes a text of at most {MAX_TEXT} characters, got more; end the hook before"
                    raise StageError(problem, component="llm_stage")
                yield event


async def _voice_stage(
    agent: Agent,
    text: str | AsyncIterator[str],
    voice: Callable[[str | AsyncIterator[str]], AsyncGenerator[AudioChunk, None]],
    failure: Failure,
) -> AsyncGenerator[AudioChunk, None]:
    async with AsyncExitStack() as opened:
        held = _Held("tts_stage", failure, opened)
        given = _GivenText(text, held)
        said = _SaidText(given, held)

        def speak(spoken: str | AsyncIterator[str]) -> AsyncIterator[AudioChunk]:
            if isinstance(spoken, str):
                said.add(spoken)
                return held.inner(voice(spoken))
            if not isinstance(spoken, AsyncIterable):
                problem = f"speak() needs text, or an async iterator of text, got {shown(spoken)}"
                raise StageError(problem, component="tts_stage")
            if spoken is given:
                return held.inner(voice(given))
            pieces = said.of(spoken)
            opened.push_async_callback(pieces.aclose)  # a voice need not close its text
            return held.inner(voice(pieces))

        async with aclosing(held.hook(lambda: agent.tts_stage(given, speak))) as chunks:
            async for chunk in chunks:
                if not isinstance(chunk, AudioChunk):
                    raise StageError(f"needed an AudioChunk, got {type(chunk).__name__}", component="tts_stage")
                if said.is_changed and (chunk.words or chunk.text):
                    chunk = AudioChunk(chunk.frame, requested_at=chunk.requested_at, is_end=chunk.is_end)
                yield chunk


def opened_stream(stream: Any, run: StageRun, stack: AsyncExitStack) -> Any:
    """Return a hook's stream, which `stack` closes.

    Raises:
        StageError: It is not a stream.
    """
    if not hasattr(stream, "__anext__"):
        if inspect.iscoroutine(stream):
            stream.close()
        kind = "a coroutine" if inspect.iscoroutine(stream) else type(stream).__name__
        raise StageError(f"needed an async generator, got {kind}; yield in the hook", component=run.name)
    if (aclose := getattr(stream, "aclose", None)) is not None:

        async def close() -> None:
            async with run.code():
                await aclose()

        stack.push_async_callback(close)
    return stream


class Ends:
    """Counts how often a hook finds that a stream has ended.

    Args:
        component: The name of the hook.
    """

    def __init__(self, component: str) -> None:
        self._component = component
        self._count = 0

    async def note(self) -> None:
        """Count one more time that the hook has found the end.

        Raises:
            StageError: The hook reads on and on. If it catches this too, its next read waits for the limit.
        """
        self._count += 1
        if self._count > MOST_READS_OF_AN_END + 1:
            await anyio.sleep_forever()
        if self._count > MOST_READS_OF_AN_END:
            raise StageError("the hook reads on behind the end of a stream; end it there", component=self._component)
        if self._count > 1:
            await checkpoint()


class _Held:
    """Knows whether the hook or the stream that it reads is waited for, and whose error an exception is.

    Args:
        opened: Closes the streams that the hook opens.
    """

    def __init__(self, component: str, failure: Failure, opened: AsyncExitStack) -> None:
        self.component = component
        self._failure = failure
        self._run = StageRun(component, "the answer", failure)
        self._opened = opened
        self._error: BaseException | None = None
        self._own: StageError | None = None
        """The error of the hook's code that the pipeline has called."""

    def code(self) -> application_code:
        """Return a block for code of the hook."""
        return self._run.code()

    async def hook(self, make: Callable[[], Any]) -> AsyncGenerator[Any, None]:
        try:
            async with AsyncExitStack() as stack:
                with self.code():
                    stream = opened_stream(make(), self._run, stack)
                while True:
                    self._failure.waits_for(self.component, is_so=True)
                    try:
                        async with self.code():
                            item = await anext(stream)
                    except StopAsyncIteration:
                        return
                    finally:
                        self._failure.waits_for(self.component, is_so=False)
                    yield item
                    await checkpoint()  # a hook that never waits must not hold the loop
        except StageError:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary to the hook's code: the error gets its name
            if error is self._error:  # the pipeline's, which came through the hook
                raise
            raise self._named(error) from error

    def failed(self, error: Exception) -> StageError:
        """Return the error of the hook's code that the pipeline has called, with the hook's name."""
        self._own = error if isinstance(error, StageError) else self._named(error)
        return self._own

    def _named(self, error: Exception) -> StageError:
        return StageError(f"the hook raised {describe(error)}", component=self.component)

    def inner(self, stream: AsyncGenerator[T, None]) -> AsyncIterator[T]:
        """Return the pipeline's stream for the hook; it is closed after the hook."""
        reader = _Reader(self._read(stream), Ends(self.component))
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
                        if self._own is not None:
                            raise self._own from self._own.__cause__
                        self._error = error
                        raise
                yield item

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Note, during the block, that the hook waits for the pipeline."""
        self._failure.waits_for(self.component, is_so=False)
        try:
            yield
        finally:
            self._failure.waits_for(self.component, is_so=True)


class _Reader(AsyncIterator[T], Generic[T]):
    """The pipeline's stream, as a hook reads it."""

    def __init__(self, stream: AsyncGenerator[T, None], ends: Ends) -> None:
        self._stream = stream
        self._ends = ends
        self.aclose = stream.aclose

    async def __anext__(self) -> T:
        try:
            return await anext(self._stream)
        except StopAsyncIteration:
            await self._ends.note()
            raise


class _GivenText(LiveText):
    """The text of a speech, as a hook receives it."""

    def __init__(self, text: str | AsyncIterator[str], held: _Held) -> None:
        self._text = _once(text) if isinstance(text, str) else text
        self._held = held
        self._ends = Ends(held.component)
        self.so_far = ""

    async def follows(self, within: float) -> bool:
        """Wait for more text, if the text supports that."""
        return not isinstance(self._text, LiveText) or await self._text.follows(within)

    def __aiter__(self) -> _GivenText:
        return self

    async def __anext__(self) -> str:
        try:
            with self._held.outside():
                piece = await anext(self._text)
        except StopAsyncIteration:
            await self._ends.note()
            raise
        self.so_far += piece
        return piece


class _SaidText:
    """The text that a hook gives to the voice, compared with the text that the hook was given."""

    def __init__(self, given: _GivenText, held: _Held) -> None:
        self._given = given
        self._held = held
        self._length = 0
        self.is_changed = False
        """Whether the text differs from the given one."""

    def add(self, piece: str) -> None:
        """Take the next piece of the text.

        Raises:
            StageError: It is not text.
        """
        if not isinstance(piece, str):
            raise StageError(f"speak() needs text, got {type(piece).__name__}", component="tts_stage")
        begin, self._length = self._length, self._length + len(piece)
        if self._given.so_far[begin : self._length] != piece:
            self.is_changed = True

    async def of(self, pieces: AsyncIterable[str]) -> AsyncGenerator[str, None]:
        """Yield a hook's text, and close its source."""
        source = aiter(pieces)
        try:
            while True:
                try:
                    async with self._held.code():
                        piece = await anext(source)
                    self.add(piece)
                except StopAsyncIteration:
                    return
                except StageError as error:
                    self._held.failed(error)
                    raise
                except Exception as error:  # noqa: BLE001 - the boundary to the hook's code: else the voice is blamed
                    raise self._held.failed(error) from error
                yield piece
        finally:
            if (aclose := getattr(source, "aclose", None)) is not None:
                async with self._held.code():
                    await aclose()


async def _once(text: str) -> AsyncGenerator[str, None]:
    yield text

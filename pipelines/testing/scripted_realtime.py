"""ScriptedRealtimeModel: a speech-to-speech model whose answers and events a test writes down."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import anyio

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeModel,
    RealtimeReplyStarted,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
)
from vivavoce.pipelines.testing.script import ScriptError, Step, StepItem, items, lost, play, tone_chunks, wait
from vivavoce.pipelines.tts.base import AudioChunk


class ScriptedRealtimeModel(RealtimeModel):
    """Answers the n-th request with the n-th step, as ScriptedLLM does; text comes with its audio.

    A test drives the newest connection with `speech_started()`, `transcript()`, `start_reply()`, `fail()` and so on.

    Args:
        steps: The script.
        delay: Seconds before the first piece of each answer.
        seconds_per_word: Length of a word's audio, which comes at once, in chunks of 20 ms.
        open_delay: Seconds that connecting takes.
    """

    provider = "scripted"

    def __init__(
        self,
        *steps: Step,
        delay: float = 0.0,
        seconds_per_word: float = 0.2,
        open_delay: float = 0.0,
        capabilities: RealtimeCapabilities | None = None,
    ) -> None:
        self.steps = [items(step) for step in steps]
        self.delay = delay
        self.seconds_per_word = seconds_per_word
        self._open_delay = open_delay
        self._capabilities = capabilities or RealtimeCapabilities()
        self._open_errors: list[ProviderError] = []
        self.requests: list[GenerateRequest] = []
        """What was asked, oldest first, over all connections."""
        self.connections: list[ScriptedRealtimeConnection] = []
        """All connections ever opened, oldest first."""

    @property
    def capabilities(self) -> RealtimeCapabilities:
        """As given."""
        return self._capabilities

    @property
    def connection(self) -> ScriptedRealtimeConnection:
        """The newest connection.

        Raises:
            ScriptError: None is open.
        """
        if not self.connections or self.connections[-1].is_closed:
            raise ScriptError("needed an open connection, got none; start the session")
        return self.connections[-1]

    async def open(self, instructions: str, tools: Sequence[Tool[..., object]]) -> ScriptedRealtimeConnection:
        """Return a connection, or raise what `fail_open()` planned."""
        await wait(self._open_delay)
        if self._open_errors:
            raise self._open_errors.pop(0)
        connection = ScriptedRealtimeConnection(self)
        connection.record.updates.append((instructions, tuple(tools)))
        self.connections.append(connection)
        return connection

    def speech_started(self, ago: float = 0.0) -> None:
        """Have the server hear the user begin."""
        self.connection.emit(RealtimeSpeechStarted(ago))

    def speech_ended(self, ago: float = 0.0) -> None:
        """Have the server hear the user stop."""
        self.connection.emit(RealtimeSpeechEnded(ago))

    def transcript(self, text: str, *, item_id: str = "item_1", is_final: bool = True) -> None:
        """Have the server transcribe the user."""
        self.connection.emit(RealtimeTranscript(text=text, item_id=item_id, is_final=is_final))

    def start_reply(self, step: Step) -> str:
        """Have the server begin an answer by itself; return its id."""
        return self.connection.start_reply(items(step))

    def fail(self, error: ProviderError | None = None) -> None:
        """Cut the newest connection, by default with a retryable error."""
        self.connection.emit(error or lost(self.provider))

    def fail_open(self, *errors: ProviderError) -> None:
        """Have the next calls of `open()` raise, one each."""
        self._open_errors.extend(errors or (lost(self.provider),))

    def assert_done(self) -> None:
        """Check that the script was used up.

        Raises:
            ScriptError: Steps are left.
        """
        if self.steps:
            raise ScriptError(f"{len(self.steps)} scripted steps were never asked for: {self.steps!r}")


@dataclass(slots=True)
class RealtimeRecord:
    """What a scripted connection was told, each list oldest first."""

    pushed_seconds: float = 0.0
    commits: list[float] = field(default_factory=list)
    """Loop times."""
    clears: list[float] = field(default_factory=list)
    """Loop times."""
    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    cancelled: int = 0
    """Answers that were closed before their end."""
    said: list[str] = field(default_factory=list)
    truncations: list[tuple[str, float, str]] = field(default_factory=list)
    updates: list[tuple[str, tuple[Tool[..., object], ...]]] = field(default_factory=list)
    """Instructions and tools; the first is what it was opened with."""


class ScriptedRealtimeConnection(RealtimeConnection):
    """One connection, with a record of what it was told."""

    def __init__(self, model: ScriptedRealtimeModel) -> None:
        self._model = model
        self._send, self._receive = anyio.create_memory_object_stream[RealtimeEvent | Exception](math.inf)
        self._replies: dict[str, tuple[StepItem, ...]] = {}
        self._reply_count = 0
        self.record = RealtimeRecord()
        self.is_closed = False

    def emit(self, event: RealtimeEvent | Exception) -> None:
        """Have `events()` yield this, or raise it."""
        self._send.send_nowait(event)

    def start_reply(self, step: tuple[StepItem, ...]) -> str:
        """Begin an answer by itself; return its id."""
        self._reply_count += 1
        reply_id = f"remote_{self._reply_count}"
        self._replies[reply_id] = step
        self.emit(RealtimeReplyStarted(reply_id))
        return reply_id

    def push(self, frame: AudioFrame) -> None:
        """Count it."""
        self.record.pushed_seconds += frame.duration

    async def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield what the test gives, until closed."""
        try:
            async for event in self._receive:
                if isinstance(event, Exception):
                    raise event
                yield event
        except anyio.ClosedResourceError:
            return

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Play the script's next step.

        Raises:
            ScriptError: There is none.
        """
        self._model.requests.append(request)
        if not self._model.steps:
            raise ScriptError(f"got request {len(self._model.requests)}, but the script has run out; add a step")
        return self._play(self._model.steps.pop(0))

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer begun by `start_reply()`.

        Raises:
            KeyError: There is no such answer.
        """
        step = self._replies.pop(reply_id)
        self.record.accepted.append(reply_id)
        return self._play(step)

    def refuse(self, reply_id: str) -> None:
        """Note it."""
        self._replies.pop(reply_id, None)
        self.record.refused.append(reply_id)

    async def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; only with the capability."""
        if not self._model.capabilities.can_say:
            super().say(text)
        self.record.said.append(text)
        await wait(self._model.delay)
        for chunk in self._speech(text):
            yield chunk

    def commit(self) -> None:
        """Note it."""
        self.record.commits.append(LoopClock().now())

    def clear(self) -> None:
        """Note it."""
        self.record.clears.append(LoopClock().now())

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Note it."""
        self.record.truncations.append((item_id, played_seconds, heard_text))

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Note it."""
        self.record.updates.append((instructions, tuple(tools)))

    async def aclose(self) -> None:
        """End the connection."""
        self.is_closed = True
        self._send.close()
        self._receive.close()

    async def _play(self, step: tuple[StepItem, ...]) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        try:
            await wait(self._model.delay)
            async with aclosing(play(step)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TextDelta) and self._model.capabilities.generates_audio:
                        for chunk in self._speech(event.text):
                            yield chunk
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.record.cancelled += 1
            raise

    def _speech(self, text: str) -> list[AudioChunk]:
        seconds = self._model.seconds_per_word * len(text.split())
        frames = tone_chunks(seconds, self._model.capabilities.output_rate)
        return [AudioChunk(frame, text=text if number == 0 else "") for number, frame in enumerate(frames)]

"""ScriptedRealtimeModel: a speech-to-speech model with answers and events by a test's script."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import anyio

from vivavoce.pipelines.core.clock import LoopClock, TimerHandle
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.words import pieces
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.llm.tools import Tool, ToolCall
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeInputCommitted,
    RealtimeModel,
    RealtimeReplyCancelled,
    RealtimeReplyStarted,
    RealtimeSetup,
    RealtimeSpeechEnded,
    RealtimeSpeechStarted,
    RealtimeTranscript,
    RealtimeTurnEnded,
)
from vivavoce.pipelines.testing.script import ScriptError, Step, StepItem, items, lost, play, tone_chunks, wait
from vivavoce.pipelines.tts.base import AudioChunk


class ScriptedRealtimeModel(RealtimeModel):
    """Answers the n-th request with the n-th step, as ScriptedLLM does; text comes with its audio.

    A test drives the newest connection with `speech_started()`, `transcript()`, `start_reply()`, `fail()` and so on.

    Args:
        steps: The script.
        hears: The words of the n-th commit: its final transcript comes `transcript_delay` later; then a test need not
            call `transcript()`.
        delay: Seconds before the first piece of each answer.
        seconds_per_word: Length of a word's audio, which comes at once, in chunks of 20 ms.
        open_delay: Seconds that connecting takes.
        transcript_delay: Seconds from a commit to its transcript.
    """

    provider = "scripted"

    def __init__(
        self,
        *steps: Step,
        hears: Sequence[str] = (),
        delay: float = 0.0,
        seconds_per_word: float = 0.2,
        open_delay: float = 0.0,
        transcript_delay: float = 0.3,
        capabilities: RealtimeCapabilities | None = None,
    ) -> None:
        self.steps = [items(step) for step in steps]
        self.hears = list(hears)
        self.transcript_delay = transcript_delay
        self.delay = delay
        self.seconds_per_word = seconds_per_word
        self._open_delay = open_delay
        self._capabilities = capabilities or RealtimeCapabilities()
        self._open_errors: list[ProviderError] = []
        self.requests: list[GenerateRequest] = []
        """The requests, oldest first, over all connections."""
        self.connections: list[ScriptedRealtimeConnection] = []
        """All connections ever opened, oldest first."""
        self.script_error: ScriptError | None = None
        """The error of a request without a step in the script; the code under test may have swallowed it."""

    @property
    def pace(self) -> float:
        """Seconds for each word."""
        return self.seconds_per_word

    @property
    def capabilities(self) -> RealtimeCapabilities:
        """The given capabilities."""
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

    def next_step(self, request: GenerateRequest) -> tuple[StepItem, ...]:
        """Take the next step of the script, for a request.

        Raises:
            ScriptError: There is none.
        """
        self.requests.append(request)
        if not self.steps:
            text = f"ScriptedRealtimeModel got request {len(self.requests)}, but the script has run out; add a step"
            self.script_error = ScriptError(text)
            raise self.script_error
        return self.steps.pop(0)

    async def open(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        """Return a connection, or raise the error planned by `fail_open()`."""
        await wait(self._open_delay)
        if self._open_errors:
            raise self._open_errors.pop(0)
        connection = self.connect(setup)
        self.connections.append(connection)
        return connection

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        """Return the connection for `open()`; for a test that makes a connection of its own kind."""
        return ScriptedRealtimeConnection(self, setup)

    def speech_started(self, ago: float = 0.0) -> None:
        """Have the server hear the user begin."""
        self.connection.server.emit(RealtimeSpeechStarted(ago))

    def speech_ended(self, ago: float = 0.0) -> None:
        """Have the server hear the user stop."""
        self.connection.server.emit(RealtimeSpeechEnded(ago))

    def transcript(
        self,
        text: str,
        *,
        item_id: str = "item_1",
        is_final: bool = True,
        role: Literal["user", "assistant"] = "user",
    ) -> None:
        """Have the server transcribe the user, or an answer.

        Args:
            item_id: For the user's, the test's name of the utterance: the server gives its own, which it also gives to
                the nearest commit without a transcript.
        """
        self.connection.server.transcript(text, item_id, is_final, role)

    def turn_ended(self, item_id: str = "") -> None:
        """Have the server judge that the user's turn is over."""
        self.connection.server.emit(RealtimeTurnEnded(self.connection.server.name_of(item_id)))

    def start_reply(self, step: Step, *, item_id: str = "") -> str:
        """Have the server begin an answer on its own, to the utterance of that name; return its id."""
        return self.connection.server.start_reply(items(step), item_id)

    def cancel_reply(self, reply_id: str = "") -> None:
        """Have the server cut an answer on its own, by default the one that is streamed."""
        self.connection.server.cancel_reply(reply_id)

    def emit(self, event: RealtimeEvent | Exception) -> None:
        """Have the newest connection report anything, or raise it."""
        self.connection.server.emit(event)

    def fail(self, error: ProviderError | None = None) -> None:
        """Cut the newest connection, by default with a retryable error."""
        self.connection.server.emit(error or lost(self.provider))

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
    """The calls of a scripted connection, each list oldest first."""

    pushed_seconds: float = 0.0
    commits: list[float] = field(default_factory=list)
    """Loop times."""
    clears: list[float] = field(default_factory=list)
    """Loop times."""
    accepted: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    not_run: list[str] = field(default_factory=list)
    """Calls of refused answers, whose outputs say that they were not run; the connection gives these itself."""
    cancelled: int = 0
    """Answers that were closed before their end."""
    said: list[str] = field(default_factory=list)
    truncations: list[tuple[str, float, str]] = field(default_factory=list)
    updates: list[tuple[str, tuple[Tool[..., object], ...]]] = field(default_factory=list)
    """Instructions and tools; the first entry is from the opening."""
    appended: list[ChatItem] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    pictures: list[VideoFrame] = field(default_factory=list)


class ScriptedServer:
    """The other end of a scripted connection: its events, the answers that it begins, the names that it gives."""

    def __init__(self) -> None:
        self._send, self._receive = anyio.create_memory_object_stream[RealtimeEvent | Exception](math.inf)
        self._replies: dict[str, tuple[StepItem, ...]] = {}
        self._reply_count = self._input_count = 0
        self._names: dict[str, str] = {}
        self._uncommitted: deque[str] = deque()
        self._untranscribed: deque[str] = deque()
        self._streamed = ""
        self.cut = anyio.Event()
        """Set when it cuts the answer that is streamed."""

    def emit(self, event: RealtimeEvent | Exception) -> None:
        """Have `events()` yield this, or raise it."""
        self._send.send_nowait(event)

    async def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield the emitted events, until closed."""
        try:
            async for event in self._receive:
                if isinstance(event, Exception):
                    raise event
                yield event
        except anyio.ClosedResourceError:
            return

    def start_reply(self, step: tuple[StepItem, ...], item_id: str = "") -> str:
        """Begin an answer on its own; return its id."""
        self._reply_count += 1
        reply_id = f"remote_{self._reply_count}"
        self._replies[reply_id] = step
        self.emit(RealtimeReplyStarted(reply_id, self.name_of(item_id)))
        return reply_id

    def take_reply(self, reply_id: str) -> tuple[StepItem, ...]:
        """Return the script of an answer that the server began, once.

        Raises:
            KeyError: There is no such answer.
        """
        return self._replies.pop(reply_id)

    def refuse(self, reply_id: str) -> tuple[StepItem, ...] | None:
        """Forget an answer that was not accepted; return its script, if there was one."""
        return self._replies.pop(reply_id, None)

    def streams(self, reply_id: str) -> anyio.Event:
        """An answer is being streamed; return the event that is set when it is cut."""
        self._streamed, self.cut = reply_id, anyio.Event()
        return self.cut

    def cancel_reply(self, reply_id: str) -> None:
        """Cut an answer that is streamed, or waits to be."""
        if reply_id in self._replies:
            self._replies[reply_id] = (Done("cancelled"),)
        else:
            self.cut.set()
        self.emit(RealtimeReplyCancelled(reply_id or self._streamed))

    def transcript(self, text: str, item_id: str, is_final: bool, role: Literal["user", "assistant"]) -> None:
        """Transcribe an item."""
        name = self.name_of(item_id) if role == "user" else item_id
        self.emit(RealtimeTranscript(text=text, item_id=name, is_final=is_final, role=role))

    def name_of(self, item_id: str) -> str:
        """Return its name for the utterance that the test calls `item_id`."""
        if item_id and item_id not in self._names:
            if self._untranscribed:
                self._names[item_id] = self._untranscribed.popleft()
            else:
                self._names[item_id] = self._new_name()
                self._uncommitted.append(self._names[item_id])
        return self._names.get(item_id, "")

    def commit(self) -> str:
        """Make an item of the audio, report it, and return its name."""
        if self._uncommitted:
            name = self._uncommitted.popleft()
        else:
            name = self._new_name()
            self._untranscribed.append(name)
        self.emit(RealtimeInputCommitted(name))
        return name

    def close(self) -> None:
        """Report nothing from now on."""
        self._send.close()
        self._receive.close()

    def _new_name(self) -> str:
        self._input_count += 1
        return f"user_{self._input_count}"


class ScriptedRealtimeConnection(RealtimeConnection):
    """One connection, with a record of its calls."""

    def __init__(self, model: ScriptedRealtimeModel, setup: RealtimeSetup) -> None:
        self._model = model
        self.setup = setup
        """The setup of its opening."""
        self.server = ScriptedServer()
        self._answer_count = 0
        self._timers: list[TimerHandle] = []
        self.record = RealtimeRecord(updates=[(setup.instructions, setup.tools)])
        self.is_closed = False

    def push(self, frame: AudioFrame) -> None:
        """Count its length."""
        self.record.pushed_seconds += frame.duration

    def push_video(self, frame: VideoFrame) -> None:
        """Record it."""
        self.record.pictures.append(frame)

    def events(self) -> AsyncIterator[RealtimeEvent]:
        """Yield the test's events, until closed."""
        return self.server.events()

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Play the script's next step.

        Raises:
            ScriptError: There is no step.
        """
        return self._play(self._model.next_step(request))

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return the stream of an answer begun by `start_reply()`.

        Raises:
            KeyError: There is no such answer.
        """
        step = self.server.take_reply(reply_id)
        self.record.accepted.append(reply_id)
        return self._play(step, reply_id)

    def refuse(self, reply_id: str) -> None:
        """Record it, if there is such an answer, with its calls."""
        if (step := self.server.refuse(reply_id)) is not None:
            self.record.refused.append(reply_id)
            self.record.not_run += [item.call_id for item in step if isinstance(item, ToolCall)]

    async def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak, outside of the conversation."""
        if not self._model.capabilities.generates_audio:
            super().say(text)
        self.record.said.append(text)
        await wait(self._model.delay)
        for chunk in self._speech(text):
            yield chunk

    def commit(self) -> None:
        """Record it, and report the item of the audio."""
        self.record.commits.append(LoopClock().now())
        name = self.server.commit()
        if self._model.hears and self.setup.transcribe:
            event = RealtimeTranscript(text=self._model.hears.pop(0), item_id=name, is_final=True)
            now = LoopClock().now()
            self._timers.append(
                LoopClock().call_at(now + self._model.transcript_delay, partial(self.server.emit, event))
            )

    def clear(self) -> None:
        """Record it."""
        self.record.clears.append(LoopClock().now())

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        """Record it."""
        self.record.truncations.append((item_id, played_seconds, heard_text))

    def append(self, item: ChatItem) -> None:
        """Record it."""
        self.record.appended.append(item)

    def delete(self, item_id: str) -> None:
        """Record it."""
        self.record.deleted.append(item_id)

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        """Record it."""
        self.record.updates.append((instructions, tuple(tools)))

    async def aclose(self) -> None:
        """End the connection."""
        self.is_closed = True
        for timer in self._timers:
            timer.cancel()
        self.server.close()

    async def _play(
        self, step: tuple[StepItem, ...], reply_id: str = ""
    ) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        self._answer_count += 1
        item_id = f"answer_{self._answer_count}"
        cut = self.server.streams(reply_id)
        try:
            await wait(self._model.delay)
            async with aclosing(play(step)) as events:
                async for event in events:
                    if cut.is_set():
                        yield Done("cancelled")
                        return
                    if not isinstance(event, TextDelta):
                        yield event
                        continue
                    yield TextDelta(event.text, item_id)
                    if self.setup.answers == "audio":
                        for chunk in self._speech(event.text):
                            yield replace(chunk, item_id=item_id)
        except (GeneratorExit, anyio.get_cancelled_exc_class()):
            self.record.cancelled += 1
            raise

    def _speech(self, text: str) -> list[AudioChunk]:
        seconds = self._model.seconds_per_word * len(pieces(text))
        frames = tone_chunks(seconds, self._model.capabilities.output_rate)
        return [AudioChunk(frame, text=text if number == 0 else "") for number, frame in enumerate(frames)]

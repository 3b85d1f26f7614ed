"""PreemptiveReply: a model step begun before its turn is over, and kept until a reply takes it or it is dropped.

It runs to the end in its own task, and the reply reads its kept events: a provider's stream may hold cancel scopes,
which belong to the task that entered them, so that the stream itself cannot change hands at the commit.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Generic, TypeVar, TypeVarTuple

import anyio
from anyio import CancelScope
from anyio.lowlevel import checkpoint_if_cancelled

from vivavoce.agents.audio.utterance import LOOKAHEAD_SECONDS
from vivavoce.agents.extension.turn_in_hand import TurnInHand
from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.step_usage import StepUsage
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.agents.telemetry.logs.logs import log_turn
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.errors import ProviderTimeoutError, describe, first_error
from vivavoce.pipelines.core.incidents import FellBack, on_fallback
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.core.retry import on_retry
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.core.words import same_words
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk

logger = logging.getLogger(__name__)

T = TypeVar("T")
Facts = TypeVarTuple("Facts")

_TOKENS = (TextDelta, ToolCall)


CUT_LIMIT = 0.05
"""Seconds that a reply which is cut waits for the end of the request."""


class PreemptiveReply:
    """Asks the model and, at will, the voice. Start `run` in the session's group.

    It has no visible effect: no history, no event, no audio. A tool call in it waits like its words. Its usage is
    counted by the reply that takes it, or when it is dropped.

    Args:
        request: The request that the model would get if the turn were over now.
        turn: The turn, if extensions are to look at its words first; their material is added to the request.
        with_voice: Whether its text is synthesised ahead too.
    """

    def __init__(
        self,
        attempt_id: str,
        context: ReplyContext,
        request: GenerateRequest,
        turn: TurnInHand | None = None,
        *,
        with_voice: bool,
    ) -> None:
        self.id = attempt_id
        self.turn = turn
        """The turn that extensions look at, or have looked at; None once it is dropped."""
        self.looked = anyio.Event()
        """Set when the extensions have looked at the turn."""
        self.with_voice = with_voice
        self._asked_at = 0.0
        self.first_token: float | None = None
        """Seconds that the model took to its first word or call."""
        self.first_byte: float | None = None
        """Seconds that the voice took to its first audio."""
        self._context = context
        self._request = request
        self._agent = context.live.agent
        self._call = OwnedCall(f"attempt {attempt_id}", self._work, self._fail)
        self._error: BaseException | None = None
        self._is_taken = False
        self._is_dropped = False
        self._record: TurnRecordBuilder | None = None
        self._usage = StepUsage(self._add_usage)
        self._events: _Kept[LLMEvent | AudioChunk] = _Kept()
        self._text = TextChannel()
        self._audio: _Kept[AudioChunk] = _Kept()
        self._is_heard = False
        self._characters = 0
        self._seconds = self._seconds_read = 0.0
        self._room: anyio.Event | None = None
        self.retries: _Notes[Exception, int] = _Notes()
        self.fallbacks: _Notes[FellBack] = _Notes()

    def fits(self, request: GenerateRequest) -> bool:
        """Return whether the attempt is as good as a new request: it has not failed, and the model would get the same
        request.

        In the user's words only the spelling may differ.
        """
        if self._error is not None or self._is_dropped or self._agent is not self._context.live.agent:
            return False
        if self.turn is not None and self.turn.is_settled:
            return False
        return _is_equivalent(self._request, request)

    def drop(self, record: TurnRecordBuilder | None = None) -> None:
        """Stop the attempt if it still runs, and count its unused part. Synchronous; may be called again.

        Args:
            record: Of the turn that drops it.
        """
        if self._is_dropped:
            return
        self._is_dropped = True
        self._record = self._record or record
        self._call.cut()
        turn, self.turn = self.turn, None
        if turn is not None and turn.is_ahead:
            self._context.extensions.undo_turn(turn)
        if not self._is_taken:
            self.fallbacks.pass_on_to(self._context.session.log.fell_back)
        for event in self._events.drain():
            if isinstance(event, Usage):
                self._usage.add(event)
        if self._characters and not self._is_heard:
            self._context.add_usage(characters=self._characters, audio_seconds=self._seconds, record=record)

    def _add_usage(self, usage: Usage) -> None:
        self._context.add_usage(usage, record=self._record)

    # --- for the reply that takes it
    async def events(self, record: TurnRecordBuilder) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Yield the model's events, from the first one on.

        Args:
            record: Of the turn that it answers. If the reply is cut, the request ends here, so that it counts there.
        Raises:
            ProviderError: The model or the voice failed, or took longer than the limits allow.
        """
        self._is_taken, self._record = True, record
        try:
            async with aclosing(self._events.read()) as events:
                async for event in events:
                    yield event
        except anyio.get_cancelled_exc_class():
            self._call.cut()
            with anyio.move_on_after(CUT_LIMIT, shield=True):
                await self._call.wait()
            raise

    async def audio(self) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech of the attempt, as `PipelineConnection.speak()` would; only if it was made with a voice.

        Raises:
            ProviderError: As `events()`.
        """
        self._is_heard = True
        async with aclosing(self._audio.read()) as chunks:
            async for chunk in chunks:
                self._seconds_read += chunk.frame.duration
                if self._room is not None:
                    self._room.set()
                yield chunk

    # --- the task

    async def run(self) -> None:
        """Run to the end; exceptions do not leave this call."""
        on_retry.set(self.retries.note)
        on_fallback.set(self.fallbacks.note)
        log_turn(self._request.turn_id)
        try:
            await self._call.run()
        finally:
            self._events.close(self._error)  # it ends the reply, and with it the reader of the voice

    async def _work(self) -> None:
        with self._context.session.observer.attempt(self.id, self._request.turn_id):
            if (turn := self.turn) is not None:
                await self._look(turn)
            if turn is None or not (turn.is_settled or turn.is_cut):
                await self._ask()

    async def _look(self, turn: TurnInHand) -> None:
        """Have the extensions look at the turn; their material goes into the request."""
        try:
            await self._context.extensions.look_ahead(turn)
        finally:
            self.looked.set()
        self._request = replace(self._request, extra_instructions="\n".join(turn.material))

    async def _ask(self) -> None:
        if not self.with_voice:
            await self._generate()
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._speak)
            await self._generate()

    def _fail(self, error: BaseException) -> None:
        self._error = first_error(error)
        if not self._is_taken:
            logger.info("An answer begun ahead failed and is not used: %s", describe(self._error))
        logger.debug("Preemptive reply %s failed here", self.id, exc_info=error)

    async def _generate(self) -> None:
        clock, limits = self._context.clock, self._context.limits
        judged = self._context.guarding.judges_agent  # its words are not to be kept before the verdict
        self._asked_at = clock.now()
        with CancelScope() as scope:
            watchdog = Watchdog(clock, scope.cancel)
            watchdog.arm(limits.llm_first_token)
            watch = self._usage.watched_by(self._context.session.observer.model_step("llm", request=self._request))
            try:
                with watch:
                    stream = self._context.stages.generate(self._request, Failure(), self._usage.add_unseen)
                    async with aclosing(stream) as events:
                        async for event in events:
                            watch.take(TextDelta("") if judged and isinstance(event, TextDelta) else event)
                            watchdog.arm(limits.llm_stall)
                            self._keep(event)
            finally:
                watchdog.close()
        if watchdog.has_expired:
            raise ProviderTimeoutError(
                f"the model sent nothing for {limits.llm_first_token:g} s (first token) "
                f"or {limits.llm_stall:g} s (stall)",
                provider="llm",
            )
        self._events.close(None)
        self._text.close()

    def _keep(self, event: LLMEvent | AudioChunk) -> None:
        if self.first_token is None and isinstance(event, _TOKENS):
            self.first_token = self._context.clock.now() - self._asked_at
        if self.with_voice and isinstance(event, TextDelta):
            self._characters += len(event.text)
            self._text.push(event.text)
        self._events.put(event)

    async def _speak(self) -> None:
        # Its limits are kept by the reply, once there is one; before that the turn's end or drop ends the wait.
        try:
            with self._context.session.observer.voice() as watch, strays_as_errors("the voice"):
                async with aclosing(self._context.stages.speak(self._text, Failure())) as chunks:
                    async for chunk in chunks:
                        await self._keep_audio(chunk)
                        watch.first_byte(self.first_byte)
                        watch.spoken(self._characters, self._seconds)
        except Exception as error:
            self._audio.close(error)  # so that the reply blames the voice
            raise
        self._audio.close(None)

    async def _keep_audio(self, chunk: AudioChunk) -> None:
        if self.first_byte is None and chunk.requested_at is not None:
            self.first_byte = self._context.clock.now() - chunk.requested_at
        self._seconds += chunk.frame.duration
        self._audio.put(chunk)
        while self._seconds - self._seconds_read > LOOKAHEAD_SECONDS:
            self._room = anyio.Event()
            await self._room.wait()


class _Notes(Generic[*Facts]):
    """Retries and fallbacks of providers, kept until there is a listener."""

    def __init__(self) -> None:
        self._kept: list[tuple[*Facts]] = []
        self._listener: Callable[[*Facts], None] | None = None

    def note(self, *facts: *Facts) -> None:
        """Keep an incident, or call the listener with it."""
        if self._listener is None:
            self._kept.append(facts)
        else:
            self._listener(*facts)

    def pass_on_to(self, listener: Callable[[*Facts], None]) -> None:
        """Call `listener` with the incidents so far and with all later ones."""
        self._listener = listener
        for facts in self._kept:
            listener(*facts)


class _Kept(Generic[T]):
    """A queue from one task to another, and the error that ended it."""

    def __init__(self) -> None:
        self._items: deque[T] = deque()
        self._error: BaseException | None = None
        self._is_closed = False
        self._changed = anyio.Event()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._changed.set()

    def close(self, error: BaseException | None) -> None:
        """End the queue; only the first call counts."""
        if not self._is_closed:
            self._is_closed, self._error = True, error
            self._changed.set()

    def drain(self) -> list[T]:
        items = list(self._items)
        self._items.clear()
        return items

    async def read(self) -> AsyncGenerator[T, None]:
        while True:
            while self._items:
                yield self._items.popleft()
            if self._is_closed:
                break
            await checkpoint_if_cancelled()  # a model that never rests would end each wait before its cancellation
            self._changed = anyio.Event()
            await self._changed.wait()
        if self._error is not None:
            raise self._error


def _is_equivalent(asked: GenerateRequest, wanted: GenerateRequest) -> bool:
    if replace(asked, context=wanted.context) != wanted or len(asked.context) != len(wanted.context):
        return False
    return all(_tells_the_same(*items) for items in zip(asked.context, wanted.context, strict=True))


def _tells_the_same(item: ChatItem, other: ChatItem) -> bool:
    """Return whether both are the same for a model, which gets neither ids nor times."""
    if item is other:
        return True
    if isinstance(item, ChatMessage) and isinstance(other, ChatMessage) and item.role == "user":
        if not same_words(item.content, other.content):
            return False
        item = replace(item, content=other.content)
    return replace(item, id=other.id, sequence=other.sequence, created_at=other.created_at) == other

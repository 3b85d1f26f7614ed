"""Guarding: asks the content guard about the words of agent and caller. Without a guard it costs nothing."""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, aclosing
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.agent import StopResponse
from vivavoce.agents.guard.content_guard import ContentGuard, GuardedText, GuardVerdict, SaidBy
from vivavoce.agents.records import GuardRecord
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError, describe
from vivavoce.pipelines.llm.base import LLMEvent, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.sentences import SentenceCutter

if TYPE_CHECKING:
    from vivavoce.agents.core.context import SessionContext
    from vivavoce.agents.history.history import HistoryControl
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
    from vivavoce.pipelines.llm.chat_context import ChatMessage

NAME = "the content guard"
_PASS = GuardVerdict()

Answer = AsyncGenerator[LLMEvent | AudioChunk, None]
Still = Callable[[], AbstractContextManager[None]]
"""Returns a block in which the limits of the speech do not count."""


def guards_agent(guard: ContentGuard | None) -> bool:
    """Return whether a guard judges the agent."""
    return guard is not None and guard.agent


def guards_caller(guard: ContentGuard | None) -> bool:
    """Return whether a guard judges the caller."""
    return guard is not None and guard.caller


class Guarding:
    """Judges for the replies of one session.

    Args:
        guard: None for none.
    """

    def __init__(self, context: SessionContext, history: HistoryControl, guard: ContentGuard | None) -> None:
        self._context = context
        self._history = history
        self._guard = guard
        self.judges_caller = guards_caller(guard)
        """Whether the caller's turns are judged."""
        self.judges_agent = guards_agent(guard)
        """Whether the agent's answers are judged."""

    # --- the caller

    async def turn(self, item: ChatMessage, transcript: str, record: TurnRecordBuilder) -> tuple[str, str | None]:
        """Judge the caller's turn; return the words for the model, and the guard's own answer, if any.

        Args:
            item: The message of the turn.
            transcript: Its words, behind the agent's hook.
        Raises:
            StopResponse: The turn is held back.
        """
        if not transcript.strip():
            self._history.judged(item)
            return transcript, None
        verdict, words = await self._judge(item, transcript, record)
        if verdict.action in ("pass", "replace"):
            return words, None
        if verdict.action == "end" and verdict.text.strip():
            return "", verdict.text
        raise StopResponse

    @property
    def has_unjudged(self) -> bool:
        """Whether words of the caller wait for a verdict."""
        return bool(self._history.caller_words.unjudged)

    async def judge_left(self, record: TurnRecordBuilder) -> None:
        """Judge the caller's words that no speech has judged: their speech was cut, or they were corrected after the
        verdict.

        A message that does not pass is removed from the history.
        """
        async with anyio.create_task_group() as group:
            for item in self._history.caller_words.unjudged:
                group.start_soon(self._judge, item, item.transcript, record)

    async def _judge(self, item: ChatMessage, words: str, record: TurnRecordBuilder) -> tuple[GuardVerdict, str]:
        """Judge the present text of a message, and change the history by the verdict; return the verdict and the
        words."""
        waiting, is_edited = self._history.caller_words, words != item.transcript
        while True:
            judged = waiting.get_unjudged(item.id)
            if judged is not None:
                item, words = judged, judged.transcript
            elif not is_edited and (left := self._history.message(item)) is not None:
                return _PASS, left.transcript  # another speech's request has judged it
            verdict = await self._verdict(words, "caller", record)
            record.mark("guard", "user_code", self._context.clock.now())
            if waiting.get_unjudged(item.id) is judged:
                break
            is_edited = False
        if verdict.action == "replace":
            words = verdict.text
            item = self._history.replace_text(item, words)
        elif verdict.action != "pass":
            self._history.withhold(item)
        self._history.judged(item)
        return verdict, words

    # --- the agent

    def answer(self, source: Answer, record: TurnRecordBuilder, still: Still) -> Answer:
        """Return the part of a model's step, or of a flow's text, that passes the guard.

        Args:
            still: Returns the block in which the limits of the model do not count, while the guard judges.
        """
        if not self.judges_agent:
            return source
        makes_audio = self._context.live.capabilities.generates_audio
        made = _Made(still)
        return self._audio_answer(source, made, record) if makes_audio else self._text_answer(source, made, record)

    async def _text_answer(self, source: Answer, made: _Made, record: TurnRecordBuilder) -> Answer:
        """Judge sentence by sentence. An empty text is yielded as soon as the model has begun."""
        text = _Sentences()
        async with aclosing(source) as events:
            async for event in events:
                sentences: Iterator[str] = iter(())
                if isinstance(event, TextDelta):
                    yield TextDelta("", event.item_id)
                    made.note(event.item_id)
                    sentences = text.push(event.text)
                elif isinstance(event, ToolCall):  # its text is over
                    sentences = text.finish()
                for sentence in sentences:
                    if piece := await self._piece(sentence, made, record):
                        yield piece
                    if made.is_ended:
                        self._cut(made)
                        return
                if not isinstance(event, TextDelta):
                    yield event
        for sentence in text.finish():
            if not made.is_ended and (piece := await self._piece(sentence, made, record)):
                yield piece
        self._cut(made)

    async def _piece(self, sentence: str, made: _Made, record: TurnRecordBuilder) -> TextDelta | None:
        """Judge a sentence; return the text to speak, or None if there is none."""
        clock, is_first = self._context.clock, not made.passed
        if is_first:
            record.mark("first_sentence", "provider", clock.now())
        verdict = await self._verdict_on_agent(sentence, made, record)
        if is_first:
            record.mark("guard", "user_code", clock.now())
        spoken = made.judged(sentence, verdict)
        return TextDelta(spoken, made.last_item) if spoken else None

    async def _audio_answer(self, source: Answer, made: _Made, record: TurnRecordBuilder) -> Answer:
        """Hold the audio back until the transcript of the whole answer has passed."""
        text = _Sentences()
        verdict = _PASS
        held: list[LLMEvent | AudioChunk] = []
        async with aclosing(source) as events:
            async for event in events:
                held.append(event)
                if isinstance(event, TextDelta | AudioChunk):
                    yield TextDelta("", event.item_id)  # the model works: its limits begin anew
                    made.note(event.item_id)
                if isinstance(event, TextDelta) and verdict.action == "pass":
                    verdict = await self._all(text.push(event.text), made, record)
        if verdict.action == "pass":
            verdict = await self._all(text.finish(), made, record)
        has_audio = any(isinstance(event, AudioChunk) and event.frame.data for event in held)
        if has_audio and not made.passed.strip() and verdict.action == "pass":
            error = ProviderProtocolError("needed a transcript to judge the answer, got audio only", provider="llm")
            self._context.report_error(error, "guard")
            verdict = self._fate()
        record.mark("guard", "user_code", self._context.clock.now())
        if verdict.action == "pass":
            for event in held:
                yield event
            return
        made.forget()
        self._cut(made)
        if verdict.text.strip() and self._context.live.capabilities.can_say:
            yield TextDelta(verdict.text)
            async with aclosing(self._context.live.connection.speak(verdict.text)) as chunks:
                async for chunk in chunks:
                    yield chunk
        for event in held:
            if not isinstance(event, TextDelta | AudioChunk | ToolCall) or (
                isinstance(event, ToolCall) and verdict.action != "end"
            ):
                yield event

    async def _all(self, sentences: Iterator[str], made: _Made, record: TurnRecordBuilder) -> GuardVerdict:
        """Judge sentences until one does not pass."""
        for sentence in sentences:
            verdict = await self._verdict_on_agent(sentence, made, record)
            made.judged(sentence, verdict)
            if verdict.action != "pass":
                return verdict
        return _PASS

    def _cut(self, made: _Made) -> None:
        """Inform a model that keeps its own conversation that its answer was not heard as it was given."""
        if made.is_changed:
            for item_id in made.items:
                self._context.live.connection.truncate(item_id, 0.0, made.passed.strip())

    async def _verdict_on_agent(self, sentence: str, made: _Made, record: TurnRecordBuilder) -> GuardVerdict:
        with made.still():
            return await self._verdict(sentence, "agent", record, before=made.passed)

    # --- a verdict

    async def _verdict(
        self, text: str, said_by: SaidBy, record: TurnRecordBuilder, *, before: str = ""
    ) -> GuardVerdict:
        if not any(map(str.isalnum, text)):
            return _PASS
        guard, context = self._guard, self._context
        assert guard is not None
        given = GuardedText(text=text.strip(), said_by=said_by, before=before.strip(), turn_id=record.turn_id)
        verdicts: list[GuardVerdict] = []

        async def judge() -> None:
            result = guard.judge(given)
            verdict = await result if inspect.isawaitable(result) else result
            if not isinstance(verdict, GuardVerdict | None):
                raise ConfigurationError(f"needed a GuardVerdict or None of {NAME}, got {shown(verdict)}")
            verdicts.append(verdict or _PASS)

        began_at = context.clock.now()
        watch = context.observer.hook("content_guard")
        run = context.hooks.start("guard", NAME, judge, guard.limit, source="guard", watch=watch)
        try:
            await run.finish()
        finally:
            run.cut()
        error = run.failure
        verdict = verdicts[0] if verdicts else self._fate()
        record.add_guard(
            GuardRecord(
                said_by=said_by,
                action=verdict.action,
                seconds=context.clock.now() - began_at,
                error="" if error is None else describe(error),
            )
        )
        return verdict

    def _fate(self) -> GuardVerdict:
        assert self._guard is not None
        return GuardVerdict(self._guard.on_failure)


class _Made:
    """The answer in the making: the text that has passed, and the ids of its items in a remote conversation."""

    def __init__(self, still: Still) -> None:
        self.still = still
        self.passed = ""
        self.items: list[str] = []
        self.is_changed = False
        """Whether a sentence did not pass."""
        self.is_ended = False

    @property
    def last_item(self) -> str:
        return self.items[-1] if self.items else ""

    def note(self, item_id: str) -> None:
        """Note the item of the next piece."""
        if item_id and item_id != self.last_item:
            self.items.append(item_id)

    def judged(self, sentence: str, verdict: GuardVerdict) -> str:
        """Take a verdict; return the text that goes on."""
        spoken = sentence
        if verdict.action != "pass":
            self.is_changed = True
            self.is_ended = verdict.action == "end"
            spoken = verdict.text.strip()
            if spoken and not self.is_ended:
                spoken += sentence[len(sentence.rstrip()) :] or " "
        self.passed += spoken
        return spoken

    def forget(self) -> None:
        """Note that none of the answer is heard."""
        self.passed, self.is_changed = "", True


class _Sentences:
    """Cuts text into sentences, each with the white space after it, so that no character is lost."""

    def __init__(self) -> None:
        self._cutter = SentenceCutter(keeps_code=True)
        self._rest = ""

    def push(self, text: str) -> Iterator[str]:
        """Take more text, and yield the sentences that are complete."""
        self._rest += text
        yield from map(self._taken, self._cutter.push(text))

    def finish(self) -> Iterator[str]:
        """Yield the rest."""
        yield from map(self._taken, self._cutter.finish())

    def _taken(self, sentence: str) -> str:
        found = self._rest.find(sentence)
        end = max(found, 0) + len(sentence)
        while end < len(self._rest) and self._rest[end].isspace():
            end += 1
        piece, self._rest = self._rest[:end], self._rest[end:]
        return piece

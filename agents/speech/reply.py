"""Reply: one speech from the floor to its outcome: hook, model steps, voice, playout, tools, heard text.

The model's stream, the voice's stream and the playout live in one cancel scope; tools do not. A reply never decides
whether it may speak: it is granted the floor, paused, resumed and cancelled from outside.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

import anyio
import anyio.lowlevel
from anyio import CancelScope

from vivavoce.agents.agent import StopResponse
from vivavoce.agents.observe.logs import log_turn
from vivavoce.agents.observe.observer import NO_WATCH, Watch
from vivavoce.agents.observe.turn_record import TurnRecordBuilder
from vivavoce.agents.records import StageOwner, TurnOutcome
from vivavoce.agents.speech.attempt import Attempt
from vivavoce.agents.speech.blaming import Blaming
from vivavoce.agents.speech.given_audio import play_given
from vivavoce.agents.speech.given_text import GivenText
from vivavoce.agents.speech.handle import SpeechHandle, running_speech
from vivavoce.agents.speech.host import SpeechHost, SpeechRequest
from vivavoce.agents.speech.pictures import Pictures
from vivavoce.agents.speech.playout import Utterance
from vivavoce.agents.speech.synthesis import synthesise
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.agents.speech.truncation import tell_cut
from vivavoce.agents.speech.turn_hook import completed_turn
from vivavoce.agents.tools.executor import PendingHandoff, ToolBatch
from vivavoce.agents.turn.inputs import SpeechEnded, ToolsAwaited, ToolsFinished, ToolsStarted
from vivavoce.pipelines.core.errors import ProviderTimeoutError, describe, first_error, located
from vivavoce.pipelines.core.retry import on_retry
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk

logger = logging.getLogger(__name__)

MODEL_STAGE: tuple[str, StageOwner] = ("model_first_token", "provider")
SERVER_STAGE: tuple[str, StageOwner] = ("server_first_output", "provider")
FLOW_STAGE: tuple[str, StageOwner] = ("flow_first_text", "user_code")
"""What a turn's record calls the wait for the first of an answer, by where the answer comes from."""


class Reply:
    """Runs one speech.

    Args:
        record: Collects the turn's times; the session makes the record of it when the reply has ended.
        attempt: The first model step, begun before the turn was over; taken if it is as good as a new one.
    """

    def __init__(
        self,
        host: SpeechHost,
        handle: SpeechHandle,
        request: SpeechRequest,
        record: TurnRecordBuilder,
        attempt: Attempt | None = None,
    ) -> None:
        self.handle = handle
        self.record = record
        self.is_withdrawn = False
        self.is_running = False
        """Whether it was granted the floor once, so that its task runs."""
        self._host = host
        self._request = request
        self._attempt = attempt
        self._asked_at = 0.0
        self._scope: CancelScope | None = None
        self._floor = asyncio.Event()  # asyncio's: to wait for what is there costs no turn of the loop
        self._stopped: TurnOutcome | None = None
        self._expired: ProviderTimeoutError | None = None
        self._error: Exception | None = None
        self._failed_component = ""
        self._utterance: Utterance | None = None
        self._calls: list[ToolCall] = []
        self._batch: ToolBatch | None = None
        self._extra_instructions = request.instructions
        self._text_stage = MODEL_STAGE
        self._pictures = Pictures(request.frames)

    # --- from outside, synchronous

    def grant(self) -> None:
        """The speech has the floor (again)."""
        self.record.mark("queue", "runtime", self._host.clock.now())
        self.is_running = True
        self._floor.set()

    def cancel(self, outcome: TurnOutcome, *, is_withdrawn: bool = False) -> None:
        """Silence the speech now, note what was heard, and let its task end."""
        self._stopped = outcome
        self.is_withdrawn = is_withdrawn
        self._stop_utterance()
        if self._batch is not None:
            self._record_tools(self._batch)
            self._batch.interrupt()
            self._host.release_tools(self._batch)
        if self._scope is not None:
            self._scope.cancel()

    def let_go(self) -> None:
        """It is over: what was begun for it, here or by the model's server, is thrown away where nobody took it."""
        self.drop_attempt()
        self._host.connection.refuse(self._request.remote_reply_id)

    def drop_attempt(self) -> None:
        """Throw away what was begun before the turn was over, and count what nobody used of it."""
        if self._attempt is not None:
            self._attempt.drop(self.record)

    def on_played(self, utterance: Utterance) -> None:
        """All of a step has been played."""
        self._commit_heard(utterance, utterance.total, interrupted=False)
        if self._batch is not None:
            self._host.release_tools(self._batch)

    # --- the task

    async def run(self) -> None:
        """Carry the speech to its outcome; never raises but for the cancellation of the whole session."""
        with self._host.observer.speech(self.handle.id):
            await self._run()

    async def _run(self) -> None:
        outcome: TurnOutcome = "cancelled"
        running_speech.set(self.handle)
        log_turn(self.record.turn_id)
        on_retry.set(self._note_retry)
        try:
            with CancelScope() as self._scope:
                if self._stopped is None:
                    with strays_as_errors("the speech"):
                        outcome = await self._perform()
            if self._expired is not None:
                raise self._expired
        except StopResponse:
            outcome = "discarded"
        except Exception as error:  # noqa: BLE001 - the reply boundary: user code and providers end here
            outcome, self._error = "failed", first_error(error)
            self._report_failure(self._error)
        finally:
            if self._stopped is not None:
                outcome = self._stopped
            self._stop_utterance()
            if self._batch is not None:
                self._batch.is_interrupted |= outcome == "failed"  # it will not tell their results either
                self._record_tools(self._batch)
                self._host.release_tools(self._batch)
            self._end(outcome)

    def _note_retry(self, error: Exception, attempt: int) -> None:
        self.record.add_retry(error, attempt, self._host.clock.now())

    def _limit(self, component: str, first: float, stall: float, watch: Watch = NO_WATCH) -> Watchdog:
        """Return what ends the speech, `failed`, when it expires: one cancel scope does for all of its limits."""

        def expire() -> None:
            if self._stopped is not None:  # it is ending, and only its provider's close takes its time
                return
            message = f"it sent nothing for {first:g} s (before the first of it) or {stall:g} s (after that)"
            self._expired = ProviderTimeoutError(message, provider=component)
            self._failed_component = self._failed_component or component
            watch.failed(self._expired)
            assert self._scope is not None
            self._scope.cancel()

        return Watchdog(self._host.clock, expire)

    def _blaming(self, component: str) -> Blaming:
        """Blame `component` for what fails in here, unless something inside it was blamed before."""
        return Blaming(self.blame, component)

    def blame(self, component: str) -> None:
        """Note which component failed, unless one was noted before."""
        self._failed_component = self._failed_component or component

    def _report_failure(self, error: Exception) -> None:
        self.record.error = describe(error)
        logger.warning("Speech %s failed: %s", self.handle.id, located(error))
        logger.debug("Speech %s failed here", self.handle.id, exc_info=error)  # foreign errors may quote content
        self._failed_component = getattr(error, "component", "") or self._failed_component or "reply"
        self._host.report_error(error, self._failed_component)

    def _end(self, outcome: TurnOutcome) -> None:
        self._host.post(SpeechEnded(self.handle.id, outcome, self._failed_component))
        self.handle.set_outcome(outcome, self._error)
        self._host.speech_ended(self.handle, outcome)

    async def _perform(self) -> TurnOutcome:
        item, transcript = self._request.user_item, ""
        if item is not None:
            transcript = item.transcript
            if self._host.agent.overrides("on_user_turn_completed"):
                transcript = await self._run_hook(item)
        if self._request.text is not None or self._request.audio is not None:
            await self._say()
            return "completed"
        if item is not None and self._host.flows.flow is not None and not self._request.remote_reply_id:
            await self._answer_by_flow(transcript)
        else:
            with self._pictures.shown_in(self._host.connection.conversation):
                await self._answer_by_model()
        return "completed"

    async def _answer_by_flow(self, transcript: str) -> None:
        self.drop_attempt()  # the flow was set after it had begun
        self._text_stage = FLOW_STAGE
        source = await self._host.flows.begin_turn(self.handle, transcript)
        self.record.mark("hook", "user_code", self._host.clock.now())
        with self._blaming("flow"):
            await self._generate_step(source, "flow")
        self._note_if_empty("flow")

    async def _answer_by_model(self) -> None:
        limit = self._host.limits.max_tool_steps
        for step in range(limit + 1):
            await self._floor.wait()
            with self._blaming("llm"):
                batch = await self._model_step(step, may_call=step < limit)
            if batch is None:
                break
            if not await self._await_tools(batch):
                return
        self._note_if_empty("model")

    async def _unless_cut(self) -> None:
        """End here if the speech was cut in the very moment in which what it waited for came."""
        assert self._scope is not None
        if self._scope.cancel_called:
            await anyio.lowlevel.checkpoint_if_cancelled()

    def _note_if_empty(self, who: str) -> None:
        if self._utterance is None:
            self.record.is_empty = True
            logger.warning("Speech %s: the %s's answer is empty", self.handle.id, who)

    async def _run_hook(self, item: Any) -> str:
        """Let the agent edit its user's turn; return the text that is left."""
        try:
            turn = await completed_turn(self._host, item)
        except StopResponse:
            await self._unless_cut()
            self._host.history.remove(item)
            raise
        await self._unless_cut()
        if turn.text != item.transcript:
            self.drop_attempt()  # even if the words are the same: the hook wanted the model to see them so
            if turn.text.strip():
                self._host.history.replace_text(item, turn.text)
            else:
                self._host.history.remove(item)
        self._extra_instructions = "\n".join(part for part in (self._extra_instructions, turn.instructions) if part)
        self.record.mark("hook", "user_code", self._host.clock.now())
        return turn.text

    # --- given text

    async def _say(self) -> None:
        request, utterance = self._request, self._open_utterance()
        if request.audio is not None:
            text = request.text if isinstance(request.text, str) else ""
            self.record.agent_text.append(text)
            await play_given(request.audio, text, utterance, self._host.clock, limit=self._host.limits.tts_stall)
            utterance.finish()
        elif isinstance(request.text, str):
            utterance.heard.add_text(request.text)
            self.record.agent_text.append(request.text)
            with self._blaming("tts"):
                await self._voice(request.text, utterance)
            utterance.finish()
        else:
            assert request.text is not None
            channel, limits = TextChannel(), self._host.limits
            watchdog = self._limit("text", limits.llm_first_token, limits.llm_stall)
            given = GivenText(request.text, utterance, self.record, limits, watchdog, self._blaming("text"))
            async with anyio.create_task_group() as group:
                group.start_soon(given.feed, channel)
                with self._blaming("tts"):
                    await self._voice(channel, utterance)
            utterance.finish()
        await utterance.done.wait()

    # --- a model's step

    def _request_for(self, *, may_call: bool, is_first: bool) -> GenerateRequest:
        context = self._host.request_context(self.record)
        for picture in self._pictures.messages:
            context.append(picture)
        return self._host.step_request(
            context,
            turn_id=self.record.turn_id,
            may_call=may_call,
            extra_instructions=self._extra_instructions,
            tool_choice=self._request.tool_choice if is_first else None,
        )

    async def _model_step(self, number: int, *, may_call: bool) -> ToolBatch | None:
        connection, is_first = self._host.connection, number == 0
        if is_first and self._request.remote_reply_id:
            self._text_stage = SERVER_STAGE
            return await self._generate_step(connection.accept(self._request.remote_reply_id), "llm")
        self._text_stage = MODEL_STAGE
        request = self._request_for(may_call=may_call, is_first=is_first)
        attempt = self._take_attempt(request) if is_first else None
        source = connection.generate(request) if attempt is None else attempt.events()
        return await self._generate_step(source, "llm", attempt, request, number=number)

    async def _generate_step(
        self,
        source: AsyncGenerator[LLMEvent | AudioChunk, None],
        component: Literal["llm", "flow"],
        attempt: Attempt | None = None,
        request: GenerateRequest | None = None,
        *,
        number: int = 0,
    ) -> ToolBatch | None:
        """Run one step until its text is played out; return its tool calls, which run since the model was done."""
        self._calls, self._utterance = [], None
        batch: ToolBatch | None = None
        channel = TextChannel()
        host, makes_audio = self._host, self._host.capabilities.generates_audio  # the pipeline may change meanwhile
        self._asked_at = host.clock.now()
        assert self._scope is not None
        async with anyio.create_task_group() as group:
            watch = NO_WATCH if attempt is not None else host.observer.model_step(component, number, request)
            watchdog = self._limit(component, host.limits.llm_first_token, host.limits.llm_stall, watch)
            try:
                self.record.mark("unattributed", "runtime", host.clock.now())  # what the loop took to come here
                watchdog.arm(host.limits.llm_first_token)
                if not makes_audio:  # while the model is waited for, its start costs nothing
                    group.start_soon(self._speak_channel, channel, attempt)
                with watch, self._blaming(component):
                    async with aclosing(source) as events:
                        async for event in events:
                            watch.take(event)
                            watchdog.arm(host.limits.llm_stall)
                            if self._scope.cancel_called:
                                await self._unless_cut()
                            self._take(event, channel)
                await self._unless_cut()
                watchdog.disarm()
                self._generation_ended(makes_audio=makes_audio)
                if self._calls:
                    batch = self._start_tools(self._calls)
                channel.close()
            finally:
                watchdog.close()
        if self._utterance is not None and makes_audio:
            await self._utterance.done.wait()
        return batch

    def _take_attempt(self, request: GenerateRequest) -> Attempt | None:
        attempt = self._attempt
        if attempt is None or not attempt.fits(request):
            self.drop_attempt()
            return None
        self.record.preemptive = True
        attempt.retries.tell(self._note_retry)
        self._host.observer.attempt_taken(attempt.id, self.handle.id)
        return attempt

    def _model_answered(self) -> None:
        """Note the model's first word, call or sound; the next ones change nothing."""
        now = self._host.clock.now()
        self.record.mark(*self._text_stage, now)
        if self.record.llm_first_token is None and self._text_stage != FLOW_STAGE:
            ahead = self._attempt.first_token if self._attempt is not None and self.record.preemptive else None
            self.record.llm_first_token = now - self._asked_at if ahead is None else ahead

    def _take(self, event: LLMEvent | AudioChunk, channel: TextChannel) -> None:
        """Take one event of the model."""
        if isinstance(event, TextDelta):
            self._model_answered()
            if self._utterance is None and not event.text.strip():
                return
            utterance = self._answer()
            utterance.items.note(event.item_id, utterance.total, len(utterance.heard.text))
            utterance.heard.add_text(event.text)
            self.record.agent_text[-1] += event.text
            channel.push(event.text)
        elif isinstance(event, ToolCall):
            self._model_answered()
            self._calls.append(event)
        elif isinstance(event, AudioChunk):
            self._model_answered()
            self._answer().push(event)
        elif isinstance(event, Usage):
            self._host.add_usage(event, record=self.record)

    def _generation_ended(self, *, makes_audio: bool) -> None:
        is_last = not self._calls
        if self._utterance is not None:
            self._utterance.is_last = is_last
            if makes_audio:
                self._utterance.finish()
        if not self._request.wait_for_playback and is_last:
            self.handle.resolve()

    async def _speak_channel(self, channel: TextChannel, attempt: Attempt | None) -> None:
        if not await channel.has_text() or self._utterance is None:  # without text, or cut as the text came
            return
        utterance = self._utterance
        with self._blaming("tts"):
            await self._voice(channel, utterance, attempt)
        utterance.finish()
        await utterance.done.wait()

    async def _voice(self, text: str | TextChannel, utterance: Utterance, attempt: Attempt | None = None) -> None:
        await self._floor.wait()
        host, limits = self._host, self._host.limits
        watch = NO_WATCH if attempt is not None and attempt.with_voice else host.observer.voice()
        watchdog = self._limit("tts", limits.tts_first_byte, limits.tts_stall, watch)
        with watch:
            await synthesise(text, utterance, host=host, record=self.record, limit=(watchdog, watch), attempt=attempt)

    # --- playout: the wait for its end is bounded by the audio's length, and by who paused it, who resumes or cancels

    def _open_utterance(self) -> Utterance:
        playout = self._host.playout
        self._utterance = Utterance(self.handle.id, playout.rate)
        playout.play(self._utterance)
        return self._utterance

    def _answer(self) -> Utterance:
        if self._utterance is None:
            self.record.agent_text.append("")
        return self._utterance or self._open_utterance()

    def _stop_utterance(self) -> None:
        utterance, self._utterance = self._utterance, None
        if utterance is None or utterance.done.is_set():
            return
        position = self._host.playout.stop(utterance, self._host.fade)
        self._commit_heard(utterance, position, interrupted=True)
        tell_cut(self._host, utterance, position, self.record.turn_id if self._request.add_to_history else None)

    def _commit_heard(self, utterance: Utterance, samples: int, *, interrupted: bool) -> None:
        heard = utterance.heard.at(samples)
        self.handle.add_heard(heard, samples / utterance.rate)
        self.record.audio.played += samples / utterance.rate
        self.record.audio.generated += utterance.total / utterance.rate
        self.record.heard_text.append(heard)
        if heard and self._request.add_to_history:
            history, turn_id, ids = self._host.history, self.record.turn_id, utterance.items.ids
            history.add_message("assistant", heard, interrupted=interrupted, turn_id=turn_id, said_as=ids)

    # --- tools

    def _start_tools(self, calls: list[ToolCall]) -> ToolBatch:
        self._host.post(ToolsStarted(self.handle.id))
        self._batch = batch = self._host.run_tools(self.handle, calls, self.record.turn_id)
        if self._utterance is None or self._utterance.done.is_set():
            self._host.release_tools(batch)
        return batch

    def _record_tools(self, batch: ToolBatch) -> None:
        for record in batch.take_records():
            self.record.add_tool(record)

    async def _await_tools(self, batch: ToolBatch) -> bool:
        """Wait for results, and for the agent that one of them hands off to; tell whether the model goes on."""
        host, goes_on = self._host, True
        if batch.is_settled and batch.handoff is None:
            self.record.mark("tools", "user_code", host.clock.now())
            return True
        self._floor = asyncio.Event()
        host.post(ToolsAwaited(self.handle.id))
        await batch.settled.wait()  # bounded by the tools' own timeouts
        self.record.mark("tools", "user_code", host.clock.now())
        if batch.handoff is not None:
            goes_on = await self._await_handoff(batch, batch.handoff)
        if goes_on:
            host.post(ToolsFinished(self.handle.id))
        return goes_on

    async def _await_handoff(self, batch: ToolBatch, handoff: PendingHandoff) -> bool:
        if self._request.by_hook:  # the handoff waits for the hook, which may wait for this speech
            return not batch.is_mere_handoff
        # Bounded by the hooks' timeouts and by what they say.
        await handoff.wait(self.record)
        self.record.mark("handoff", "user_code", self._host.clock.now())
        if handoff.record is not None:
            self.record.add_handoff(handoff.record)
        return not (batch.is_mere_handoff and handoff.is_answer)

"""Reply: one speech from the floor to its outcome: hook, model steps, voice, playout, tools, heard text.

The model's stream, the voice's stream and the playout live in one cancel scope; tools do not. A reply never decides
whether it may speak: its caller grants the floor, pauses, resumes and cancels.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from vivavoce.agents.agent import AgentControl, StopResponse
from vivavoce.agents.core.call_site import call_site
from vivavoce.agents.core.speech_handle import SpeechSite
from vivavoce.agents.speech.blaming import Failure
from vivavoce.agents.speech.flow_model import FlowModel
from vivavoce.agents.speech.flow_parts import FlowParts, pass_floor
from vivavoce.agents.speech.given_text import speak_given
from vivavoce.agents.speech.incidents import SpeechIncidents
from vivavoce.agents.speech.pictures import Pictures
from vivavoce.agents.speech.reply_audio import BrokenAnswer, ReplyAudio
from vivavoce.agents.speech.reply_tools import MOST_REFUSED_ANSWERS, ReplyTools
from vivavoce.agents.speech.step_usage import StepUsage
from vivavoce.agents.speech.text_channel import TextChannel
from vivavoce.agents.speech.turn_extensions import pass_extensions, turn_to_answer
from vivavoce.agents.speech.turn_hook import pass_hook
from vivavoce.agents.speech.voice import synthesise
from vivavoce.agents.telemetry.logs.logs import log_turn
from vivavoce.agents.turn.inputs import FloorYielded, SpeechEnded
from vivavoce.agents.turn_records.stages import FLOW_STAGE, MODEL_STAGE, SERVER_STAGE
from vivavoce.pipelines.core.errors import describe, first_error, located
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.core.watchdog import Watchdog
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.tts.base import AudioChunk

if TYPE_CHECKING:
    from vivavoce.agents.audio.utterance import Utterance
    from vivavoce.agents.core.speech_handle import SpeechControl
    from vivavoce.agents.extension.text_parts import TextParts
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.records import TurnOutcome
    from vivavoce.agents.speech.context import ReplyContext
    from vivavoce.agents.speech.preemptive import PreemptiveReply
    from vivavoce.agents.speech.request import SpeechRequest
    from vivavoce.agents.telemetry.observer import Watch
    from vivavoce.agents.tools.batch import StepCalls
    from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
    from vivavoce.pipelines.llm.chat_context import ChatMessage

logger = logging.getLogger(__name__)


class Reply:
    """Runs one speech.

    Args:
        record: Collects the turn's times; the session makes the record of it when the reply has ended.
        words_before: Returns the texts that are heard before the speech of an id.
        attempt: The first model step, begun before the turn was over; used if it is as good as a new one.
    """

    def __init__(
        self,
        context: ReplyContext,
        speech: SpeechControl,
        request: SpeechRequest,
        record: TurnRecordBuilder,
        *,
        words_before: Callable[[str], Sequence[str]],
        attempt: PreemptiveReply | None = None,
    ) -> None:
        self.speech, self.handle = speech, speech.handle
        self.record = record
        self._usage = StepUsage(partial(context.add_usage, record=record))
        self.outcome: TurnOutcome | None = None
        """The outcome of its task; None until the task ends."""
        self.is_running = False
        """Whether the floor was granted once, so that the task runs."""
        self.context, self.request = context, request
        self._incidents = SpeechIncidents(record, context)
        self._words_before = words_before
        self._attempt = attempt
        self._asked_at: float | None = None
        self._scope: anyio.CancelScope | None = None
        self._turn: TurnInHand | None = None
        self._flow: FlowParts | None = None
        self._stopped: TurnOutcome | None = None
        self.failure = Failure()
        """The failure of the speech, if there is one."""
        self._tools = ReplyTools(context, self.handle, record, by_hook=request.by_hook)
        self._audio = ReplyAudio(
            context, speech, record, in_history=request.add_to_history, on_played=self._tools.release
        )
        self._broken = BrokenAnswer(self._audio, self.failure, context.live, self._has_answer)
        self._calls: list[ToolCall] = []
        self._extra_instructions, self._text_stage = request.instructions, MODEL_STAGE
        self._pictures = Pictures(request.frames)

    @property
    def unplayed(self) -> Utterance | None:
        """The audio of the present step that plays or waits for the floor, or None."""
        return self._audio.unplayed

    @property
    def played(self) -> float:
        """Seconds of audio that were played in the finished steps, and in a step that was just stopped."""
        return self.record.audio.played + self._audio.unsettled

    @property
    def flow(self) -> TextParts | None:
        """The text of the code that answers: of a flow, or of an extension."""
        return self._flow if self._turn is None or self._turn.answering is None else self._turn.answering

    # --- from outside, synchronous

    def grant(self) -> None:
        """Give the speech the floor (again)."""
        self.record.mark("queue", "runtime", self.context.clock.now())
        self.is_running = True
        self._audio.floor.grant()

    def prepare(self) -> None:
        """Let the speech generate; it plays when it has the floor."""
        self.record.mark("queue", "runtime", self.context.clock.now())
        self.is_running = True
        self._audio.floor.prepare()

    def take_floor_back(self) -> None:
        """Take the floor from the speech, until it is granted again."""
        self._audio.floor.take_back()

    def hook_speaks(self) -> None:
        """Let speech that a hook of the turn has asked for go first."""
        if self.flow is not None:
            self.flow.split()
        else:
            self._yield_floor()

    def interrupt_calls(self) -> None:
        """Cancel the calls with `cancel_on_interrupt`, since the caller took the floor while they run."""
        self._tools.interrupt()

    def cancel(self, outcome: TurnOutcome) -> None:
        """Silence the speech now, commit the heard words, and let its task end."""
        self._stopped = outcome
        self._audio.stop()
        self._tools.cut()
        if self._scope is not None:
            self._scope.cancel()

    def give_up(self, error: Exception) -> None:
        """End a speech that cannot begin; its outcome is `failed`."""
        self.failure.note(error)
        self._end("failed")

    def let_go(self) -> None:
        """Drop an unused answer that was begun for this speech, in this process or by the model's server."""
        self.drop_attempt()
        if self.request.remote_reply_id:
            self.context.live.connection.refuse(self.request.remote_reply_id)

    def drop_attempt(self) -> None:
        """Drop the answer that was begun before the turn was over, and count its unused part."""
        if self._attempt is not None:
            self._attempt.drop(self.record)

    # --- the task

    async def run(self) -> None:
        """Carry the speech to its outcome; only the cancellation of the whole session leaves this call."""
        with self.context.session.observer.speech(self.handle.id):
            await self._run()

    async def _run(self) -> None:
        outcome: TurnOutcome = "cancelled"
        call_site.set(SpeechSite(self.handle))
        log_turn(self.record.turn_id)
        self._incidents.listen()
        try:
            with anyio.CancelScope() as self._scope:
                if self._stopped is None:
                    with strays_as_errors("the speech"):
                        outcome = await self._perform()
                        self._audio.unvoiced.check()
            if self.failure.expired is not None:
                raise self.failure.expired
        except StopResponse as stop:
            outcome = "completed" if stop.is_taken else "discarded"
        except Exception as error:  # noqa: BLE001 - the reply boundary: user code and providers end here
            outcome = "failed"
            self._report_failure(first_error(error))
        finally:
            if self._stopped is not None:
                outcome = self._stopped
            self._audio.stop()
            self._audio.unvoiced.report()
            self._tools.end(has_failed=outcome == "failed")
            await self._audio.settled()
            self._end(outcome)

    def limit(self, component: str, first: float, stall: float, watch: Watch) -> Watchdog:
        """Return the watchdog that ends the speech as `failed`; all of its limits use one cancel scope."""

        def expire() -> None:
            if self._stopped is not None:  # it is ending, and only its provider's close takes its time
                return
            watch.failed(self.failure.expire(component, first, stall))
            assert self._scope is not None
            self._scope.cancel()

        return self.failure.add_limit(Watchdog(self.context.clock, expire))

    def _report_failure(self, error: Exception) -> None:
        self.record.failed(describe(error))
        logger.warning("Speech %s failed: %s", self.handle.id, located(error))
        logger.debug("Speech %s failed here", self.handle.id, exc_info=error)  # foreign errors may quote content
        self.context.session.report_error(error, self.failure.settle(error))

    def _end(self, outcome: TurnOutcome) -> None:
        self.outcome = outcome
        self.context.session.inbox.post(SpeechEnded(self.handle.id, outcome, self.failure.component))

    async def _perform(self) -> TurnOutcome:
        transcript = "" if (item := self.request.user_item) is None else item.transcript
        if item is not None:
            if AgentControl.of(self.context.live.agent).overrides("on_user_turn_completed"):
                transcript = await self._run_hook(item)
            if self.context.guarding.judges_caller:
                transcript, text = await self.context.guarding.turn(item, transcript, self.record)
                self.request = self.request.with_text(text)
        if self.request.text is not None or self.request.audio is not None:
            blaming, limit, audio = self.failure.blaming, self.limit, self._audio.open()
            await speak_given(
                self.request, audio, self.context, self.record, blaming=blaming, limit=limit, voice=self.voice
            )
            return "completed"
        if item is not None:
            self._turn = turn_to_answer(self.context, self.request, transcript, self.handle, self.record, self._attempt)
            await pass_extensions(self.context, self._turn, item, self._attempt)
        if self._turn is not None and self._turn.answering is not None:
            await self._answer_by_extension(self._turn.answering, self._turn.settled_by)
        elif item is not None and self.context.flows.answers and not self.request.remote_reply_id:
            await self._answer_by_flow(item, transcript)
        else:
            with self._pictures.shown_in(self.context.live.connection.conversation):
                await self._answer_by_model()
        return "completed"

    async def _answer_by_flow(self, item: ChatMessage, transcript: str) -> None:
        self.drop_attempt()  # the flow was set after it had begun
        self._text_stage = FLOW_STAGE
        stages, most = self.context.stages, self.context.limits.max_tool_steps
        model = FlowModel(stages, self.failure, self._request_for, self._start_tools, self._usage.add, most, item=item)
        source = await self.context.flows.begin_turn(self.handle, transcript, model)
        self.record.mark("hook", "user_code", self.context.clock.now())
        self._flow = flow = FlowParts(source, self.context.session.hooks, self.handle.id)
        model.open(flow)
        async with anyio.create_task_group() as group:
            group.start_soon(flow.run)
            with self.failure.blaming("flow"):
                await self._generate_step(flow.next_part(), "flow")
                while not flow.is_over:
                    if (calls := model.calls) is None:
                        await self._pass_floor(flow)
                    elif await self._await_tools(calls):
                        await self._audio.floor.may_generate()
                        model.resume()
                    else:
                        return group.cancel_scope.cancel()
                    await self._generate_step(flow.next_part(), "flow")
        if not (flow.hook.handles or flow.has_rested):
            self._audio.note_if_empty("flow")

    async def _answer_by_extension(self, parts: TextParts, key: str) -> None:
        self.drop_attempt()
        self._text_stage = FLOW_STAGE
        with self.failure.blaming(key):
            await self._generate_step(parts.next_part(), key)
            while not parts.is_over:
                await self._pass_floor(parts)
                await self._generate_step(parts.next_part(), key)

    async def _pass_floor(self, parts: TextParts) -> None:
        await pass_floor(parts, self.context.session.inbox, self.handle.id, self._yield_floor)
        await self._audio.floor.may_play()

    def _yield_floor(self) -> None:
        self._audio.floor.take_back()
        self.context.session.inbox.post(FloorYielded(self.handle.id))

    async def _answer_by_model(self) -> None:
        limit = 0 if self.request.tool_choice.mode == "none" else self.context.limits.max_tool_steps
        for step in range(limit + 1 + MOST_REFUSED_ANSWERS):
            await self._audio.floor.may_generate()
            with self.failure.blaming("llm"):
                calls = await self._broken.mended(partial(self._model_step, step, may_call=step < limit))
            if calls is None and not self._tools.asks_again:
                break
            if calls is not None and not await self._await_tools(calls):
                return
        self._audio.note_if_empty("model")

    async def _unless_cut(self) -> None:
        """Stop here if the speech was cut at the very moment at which its wait ended."""
        assert self._scope is not None
        if self._scope.cancel_called:
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def _run_hook(self, item: Any) -> str:
        """Let the agent edit its user's turn; return the text that is left."""
        turn, is_edited = await pass_hook(self.context, item, self.handle, self._unless_cut)
        if is_edited:
            self.drop_attempt()  # even if the words are the same: the hook wanted the model to see them so
        self._extra_instructions = "\n".join(part for part in (self._extra_instructions, turn.instructions) if part)
        self.record.mark("hook", "user_code", self.context.clock.now())
        return turn.text

    # --- a model's step

    async def _request_for(self, *, may_call: bool, is_first: bool, note: str = "") -> GenerateRequest:
        with self.failure.standing_still():  # a guard and a policy have limits of their own
            context, to_hear = await self.context.request_context(self.record, self._words_before(self.handle.id))
        for picture in self._pictures.messages:
            context.append(picture)
        material = self._turn.material if is_first and self._turn is not None else ()
        return self.context.step_request(
            context,
            turn_id=self.record.turn_id,
            may_call=may_call,
            extra_instructions="\n".join(part for part in (self._extra_instructions, *material, to_hear, note) if part),
            tool_choice=self.request.tool_choice if is_first else None,
        )

    async def _model_step(self, number: int, note: str, *, may_call: bool) -> StepCalls | None:
        stages, is_first = self.context.stages, number == 0 and not self._broken.was_asked_again
        if is_first and (begun := self.request.remote_reply_id):
            self._text_stage = SERVER_STAGE
            source = stages.accept(begun, self._request_for, self.failure, self._usage.add_unseen)
            return await self._generate_step(source, "llm", may_call=may_call)
        self._text_stage = MODEL_STAGE
        request = await self._request_for(may_call=may_call, is_first=number == 0, note=note)
        attempt = self._take_attempt(request) if is_first else None
        ahead = None if attempt is None else attempt.events(self.record)
        source = ahead or stages.generate(request, self.failure, self._usage.add_unseen)
        return await self._generate_step(source, "llm", attempt, request, number=number, may_call=may_call)

    async def _generate_step(
        self,
        source: AsyncGenerator[LLMEvent | AudioChunk, None],
        component: str,
        attempt: PreemptiveReply | None = None,
        request: GenerateRequest | None = None,
        *,
        number: int = 0,
        may_call: bool = True,
    ) -> StepCalls | None:
        """Run one step until its text is played out; return its tool calls, which started when the model was done."""
        self._calls = []
        self._audio.begin_step()
        calls: StepCalls | None = None
        channel = TextChannel(whole_sentences=self.context.guarding.judges_agent)
        context = self.context
        makes_audio = component == "llm" and context.live.capabilities.generates_audio  # the pipeline may change later
        self._asked_at = context.clock.now()
        assert self._scope is not None
        async with anyio.create_task_group() as group:
            seen = None if attempt is not None else context.session.observer.model_step(component, number, request)
            watch = self._usage.watched_by(seen)
            watchdog = self.limit(component, context.limits.llm_first_token, context.limits.llm_stall, watch)
            if self.flow is not None and self.flow.has_limit:
                watchdog.hold()
            try:
                self.record.mark("unattributed", "runtime", context.clock.now())  # the loop's delay until here
                watchdog.arm(context.limits.llm_first_token)
                if not makes_audio:  # while the model is waited for, its start costs nothing
                    group.start_soon(self._speak_channel, channel, attempt)
                with watch, self.failure.blaming(component):
                    source = self._tools.allowed(source, may_call=may_call)
                    guarded = context.guarding.answer(source, self.record, self.failure.standing_still)
                    async with aclosing(guarded) as events:
                        async for event in events:
                            watch.take(event)
                            watchdog.arm(context.limits.llm_stall)
                            if isinstance(event, AudioChunk) and self._audio.is_empty:
                                self._model_answered(is_first_sound=True)
                                await context.first_frame(self.record)
                            if self._scope.cancel_called:
                                await self._unless_cut()
                            self._take(event, channel)
                await self._unless_cut()
                watchdog.disarm()
                self._generation_ended(makes_audio=makes_audio)
                if self._calls:
                    calls = self._start_tools(self._calls)
                channel.close()
            finally:
                watchdog.close()
                self._tools.leave()
        if makes_audio and (utterance := self._audio.utterance) is not None:
            await utterance.done.wait()
        return calls

    def _has_answer(self) -> bool:
        """Return whether a part of the present step has come, or its server has begun it."""
        return self._asked_at is None or self._text_stage == SERVER_STAGE

    def _take_attempt(self, request: GenerateRequest) -> PreemptiveReply | None:
        attempt = self._attempt
        if attempt is None or not attempt.fits(request):
            self.drop_attempt()
            return None
        self.record.begun_ahead()
        self._incidents.take(attempt)
        self.context.session.observer.attempt_taken(attempt.id, self.handle.id)
        return attempt

    def _model_answered(self, *, is_first_sound: bool = False) -> None:
        """Note the model's first word or call, and its first sound, which may come later. Further calls change
        nothing."""
        asked_at, self._asked_at = self._asked_at, None
        if asked_at is None and not is_first_sound:
            return
        now = self.context.clock.now()
        self.record.mark(*self._text_stage, now)
        if asked_at is not None and self.record.llm_first_token is None and self._text_stage != FLOW_STAGE:
            ahead = self._attempt.first_token if self._attempt is not None and self.record.preemptive else None
            self.record.first_token(now - asked_at if ahead is None else ahead)

    def _take(self, event: LLMEvent | AudioChunk, channel: TextChannel) -> None:
        if isinstance(event, TextDelta):
            self._model_answered()
            if self._audio.utterance is None and not event.text.strip():
                return
            utterance = self._audio.answer()
            utterance.items.note(event.item_id, utterance.total, len(utterance.heard.text))
            utterance.heard.add_text(event.text)
            self.record.agent_text[-1] += event.text
            channel.push(event.text)
        elif isinstance(event, ToolCall):
            self._model_answered()
            self._calls.append(event)
        elif isinstance(event, AudioChunk):
            self._audio.answer().push(event)
        elif isinstance(event, Usage):
            self._usage.add(event)

    def _generation_ended(self, *, makes_audio: bool) -> None:
        is_last = not (self._tools.leave(self._calls) or self._calls) and (self.flow is None or self.flow.is_over)
        self._audio.end_step(is_last=is_last, is_spoken=makes_audio)
        if not self.request.wait_for_playback and is_last:
            self.context.session.inbox.call(self.speech.resolve)  # its callbacks must not have this task

    async def _speak_channel(self, channel: TextChannel, attempt: PreemptiveReply | None) -> None:
        if not await channel.has_text() or self._audio.utterance is None:  # without text, or cut as the text came
            return
        utterance = self._audio.utterance
        with self.failure.blaming("tts"):
            await self.voice(channel, utterance, attempt)
        utterance.finish()
        await utterance.done.wait()

    async def voice(
        self, text: str | TextChannel, utterance: Utterance, attempt: PreemptiveReply | None = None
    ) -> None:
        await synthesise(
            text,
            utterance,
            context=self.context,
            record=self.record,
            audio=self._audio,
            limit=self.limit,
            attempt=attempt,
            failure=self.failure,
        )

    # --- tools

    def _start_tools(self, calls: list[ToolCall]) -> StepCalls:
        return self._tools.start(calls, is_played=self._audio.unplayed is None)

    async def _await_tools(self, step: StepCalls) -> bool:
        """Wait for results, and for the agent that one of them hands off to; return whether the model goes on."""
        follows = await self._tools.wait(step, self._audio.floor)
        if follows == "interrupted":
            self._stopped = "interrupted" if self.record.audio.played else "cancelled"
        return follows == "model"

"""SessionRuntime: the one loop that feeds the turn machine and carries its effects out, in order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel

from vivavoce.agents import events as ev
from vivavoce.agents.agent import EmptyReply
from vivavoce.agents.audio.background_audio import BackgroundAudio, BackgroundAudioSource
from vivavoce.agents.audio.frame_hooks import FrameHooks
from vivavoce.agents.audio.playout import Playout
from vivavoce.agents.audio.recording.session_recording import RecordingControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.inbox import Barrier, Entry
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechHandle
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.session.effect_notes import note_agent_state, note_turn_limit, note_user_state
from vivavoce.agents.session.handoff import Handoffs
from vivavoce.agents.session.lifecycle.last_words import LastWords
from vivavoce.agents.session.live_replies import LiveReplies
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.pipelines.switch import PipelineSwitch
from vivavoce.agents.session.step_guard import StepGuard
from vivavoce.agents.session.turn_errors import report_turn_error
from vivavoce.agents.session.turn_records import TurnRecords
from vivavoce.agents.session.wake_up_call import WakeUpCall
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.flow import ConversationFlow, FlowRunner
from vivavoce.agents.speech.preemptive_replies import PreemptiveReplies
from vivavoce.agents.speech.reply import Reply
from vivavoce.agents.speech.request import AMENDED, SpeechRequest
from vivavoce.agents.speech.request_window import RequestWindow
from vivavoce.agents.speech.transcripts import TranscriptFeed
from vivavoce.agents.speech.warm_task import WarmTask
from vivavoce.agents.states import AgentState, CloseReason
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.io import Transport

logger = logging.getLogger(__name__)


class SessionRuntime:
    """Runs a conversation from its first input to its last. All of it happens on the session's event loop."""

    def __init__(
        self,
        context: SessionContext,
        machine: TurnMachine,
        *,
        options: SessionOptions,
        history: HistoryControl,
        tools: ToolCalls,
        wake_up_call: WakeUpCall,
        handoffs: Handoffs,
        recording: RecordingControl,
        conversation_flow: ConversationFlow | None,
        background_audio: BackgroundAudioSource | Sequence[BackgroundAudioSource] | None,
    ) -> None:
        self.context = context
        self.handoffs = handoffs
        self.pipelines: PipelineSwitch
        """Opens and changes pipelines; set by the session."""
        self.flows = FlowRunner(context, conversation_flow, limit=options.speech.hook_timeout)
        self.recording = recording
        self.history = history
        self.tools = tools
        self.wake_up_call = wake_up_call
        self.frame_hooks = FrameHooks(context)
        self._transcripts = TranscriptFeed()
        self.playout = Playout(
            context.clock, on_written=self.frame_hooks.spoken, on_progress=self._transcripts.agent_progress
        )
        self.background = BackgroundAudio(context, self.playout, background_audio)
        self._warm_task = WarmTask(context)
        self._machine = machine
        self._inbox = context.inbox
        self._host = ReplyContext(
            context,
            history=history,
            tools=tools,
            flows=self.flows,
            playout=self.playout,
            window=RequestWindow(options.context_window, context.report_error),
            limits=options.speech,
            fade=options.interruption.fade,
        )
        self._attempts = PreemptiveReplies(self._host, with_voice=options.preemptive_tts)
        self.last_words = LastWords(context.hooks, apology=options.apology, limit=options.speech.hook_timeout)
        self._records = TurnRecords(context, options)
        self._replies = LiveReplies(machine.heard_before)
        self._held = ""
        self._guard = StepGuard(context)

    # --- set up by the lifecycle

    def open(self, transport: Transport) -> None:
        """Link the session to its transport; the pipeline is open by now."""
        self.flows.open()
        self._transcripts.open(transport)
        self.playout.open(self.recording.wrap(transport.sink))
        self.background.open()
        self._warm_task.open()

    async def run(self) -> None:
        """Take inputs and deadlines until cancelled."""
        while True:
            while self._inbox:
                self._step(self._inbox.take())
            if self._machine.is_change_due and not self._guard.has_given_up:
                self._step(i.PipelineChangeDue())
                continue
            deadline = None if self._guard.has_given_up else self._machine.next_deadline()
            if deadline is not None and deadline <= self.context.clock.now():
                await anyio.lowlevel.checkpoint()  # what arrives at this very moment goes first
                if not self._inbox:
                    self._step(i.Tick())
                continue
            self.context.log.flush()
            await self._inbox.wait(deadline)

    def step(self, event: i.TurnInput) -> None:
        """Take one input here and now, before what is in the inbox; for the lifecycle, in start and close."""
        self._step(event)
        self._inbox.wake()  # the loop may be waiting for a deadline that this has changed

    def _step(self, event: Entry) -> None:
        """Let the machine take one input and carry out what it wants; what raises: `StepGuard`."""
        try:
            if isinstance(event, Barrier):
                event.reach()
            else:
                self._take(event)
        except Exception as error:  # noqa: BLE001 - one input must not end the conversation
            self._guard.failed(error, event)
            if isinstance(event, i.SpeechEnded):
                self._forget_speech(fx.ForgetSpeech(event.speech_id, event.outcome))
        self._guard.step_ended()

    def _take(self, event: i.TurnInput) -> None:
        if isinstance(event, i.PlayoutStarted) and self.playout.has_taken_back(event.speech_id, event.at):
            return  # it was held at this very moment
        if isinstance(event, _SILENCES):
            self.context.live.connection.audio_stopped()
        open_before = self._machine.open_turn_id
        effects = self._machine.handle(event, now=self.context.clock.now())
        self._records.step(event, effects, self._machine.open_turn_id)
        if self.context.log.observer.is_on:
            self.context.log.observer.step(event, effects, self._machine.open_turn_id)
        if isinstance(event, _WORDS):
            turn_id = _turn_of(effects, fx.AmendUserTurn) or open_before or self._machine.open_turn_id
            turn_id = turn_id or _turn_of(effects, fx.CommitUserTurn)
            self._on_user_words(event.text, turn_id, is_final=isinstance(event, UserFinal))
        for effect in effects:
            try:
                _APPLY[type(effect)](self, effect)
            except Exception as error:  # noqa: BLE001 - one effect must not end the conversation
                self._guard.failed(error, effect)
                self._fail_speech(effect, error)
        self.context.hooks.agent_is(busy=bool(self._replies))

    def _fail_speech(self, effect: fx.Effect, error: Exception) -> None:
        """End the speech that an effect which raised was for, or the turn machine would wait for it."""
        if isinstance(effect, _OF_SPEECHES):
            reply = self._replies.get(effect.speech_id)
            if reply is None:
                self._inbox.post(i.SpeechEnded(effect.speech_id, "failed"))
            elif reply.is_running:
                reply.cancel("failed")
            else:
                reply.give_up(error)

    def request_speech(self, speech: SpeechControl, request: SpeechRequest, asked: i.SpeechRequested) -> None:
        """Register a `say` or `reply` and ask for the floor."""
        reply = self._register(speech, request)
        if request.by_hook:
            reply.record.answered_turn = self.handoffs.turn
        self._inbox.post(asked)
        self._replies.hook_speaks(asked.hook_of)

    def _register(self, speech: SpeechControl, request: SpeechRequest) -> Reply:
        record = self._records.begin(speech.handle)
        self._replies[speech.id] = reply = Reply(
            self._host, speech, request, record, words_before=self._replies.texts_before
        )
        self.context.log.observer.asked(speech.id, speech.kind)
        self.context.log.note(ev.SpeechCreated, speech_id=speech.id, kind=speech.kind)
        return reply

    def _answer_late(self, effect: fx.AnswerHistory) -> None:
        speech = SpeechControl(effect.speech_id, "reply", interruptible=True, post=self._inbox.post)
        self._register(speech, SpeechRequest()).record.answers(effect.turn_id)

    @property
    def replies(self) -> LiveReplies:
        """The speeches that are not over."""
        return self._replies

    @property
    def live_handles(self) -> list[SpeechHandle]:
        """Handles of all speeches that are not over."""
        return [reply.handle for reply in self._replies.values()]

    @property
    def current_handle(self) -> SpeechHandle | None:
        """The handle of the speech that has the floor."""
        reply = self._replies.get(self._machine.current_speech_id)
        return reply.handle if reply else None

    # --- inputs

    def _on_user_words(self, text: str, turn_id: str, *, is_final: bool) -> None:
        text = text if text.strip() else ""  # what is blank says nothing
        if not text and not is_final:
            return
        if text:
            self.context.log.note(ev.UserTranscript, turn_id=turn_id, text=text, is_final=is_final)
        self._transcripts.user(text, is_final=is_final)

    # --- effects

    def _set_agent_state(self, effect: fx.SetAgentState) -> None:
        note_agent_state(self.context.log, effect)
        self.background.set_agent_state(effect.state)
        if (transport := self.context.live.transport) is not None:  # a start may fail before it has one
            transport.send_agent_state(effect.state)

    def _commit_user_turn(self, effect: fx.CommitUserTurn) -> None:
        if effect.settles_audio:
            self.context.live.connection.commit_audio()
        self.context.live.connection.conversation.bind_turn(effect.turn_id, effect.remote_reply_id)
        item = self.history.user_item(effect.amends or effect.turn_id) if effect.merged or effect.amends else None
        if item is not None:
            item = self.history.replace_text(item, effect.text, turn_id=effect.turn_id)
        else:
            item = self.history.add_message("user", effect.text, turn_id=effect.turn_id, in_model=effect.is_heard)
        speech = SpeechControl(effect.speech_id, "turn", interruptible=True, post=self._inbox.post)
        record = self._records.commit(effect)
        instructions = AMENDED if effect.amends else ""
        request = SpeechRequest(user_item=item, remote_reply_id=effect.remote_reply_id, instructions=instructions)
        attempt = self._attempts.take(effect.attempt_id) if effect.attempt_id else None
        self._replies[speech.id] = Reply(
            self._host, speech, request, record, words_before=self._replies.texts_before, attempt=attempt
        )
        self.handoffs.turn_committed()
        self.context.log.note(ev.SpeechCreated, turn_id=effect.turn_id, speech_id=speech.id, kind="turn")

    def _amend_user_turn(self, effect: fx.AmendUserTurn) -> None:
        item = self.history.user_item(effect.turn_id)
        if item is not None and item.content != effect.text:
            self.history.replace_text(item, effect.text)
        if (reply := self._replies.get(effect.speech_id)) is not None:
            reply.record.user_text = effect.text

    def _keep_backchannel(self, effect: fx.AddBackchannel) -> None:
        self.context.live.connection.drop_audio()
        self.history.add_message("user", effect.text, turn_id=effect.turn_id, backchannel=True)

    def _predict_end_of_turn(self, effect: fx.PredictEndOfTurn) -> None:
        spoken = self.history.messages("assistant")
        self.context.live.connection.predict_end_of_turn(effect.text, spoken[-1].content if spoken else "")

    def _drop_user_turn(self, effect: fx.DropUserTurn) -> None:
        self.context.live.connection.drop_audio()
        if effect.reason == "transcript_missing":
            self.context.log.note(ev.TranscriptMissing, turn_id=effect.turn_id)

    def _cancel_speech(self, effect: fx.CancelSpeech) -> None:
        reply = self._replies.get(effect.speech_id)
        if reply is not None and reply.is_running and reply.outcome is None:
            reply.cancel(effect.outcome)
            self._records.cut(reply.record, self.playout, effect)
        # Only now, or a moment of what was held would be heard.
        if self._held == effect.speech_id:
            self._release_hold()
        if effect.outcome == "discarded":
            logger.info("Speech %s was discarded: it was not to wait, or is out of date", effect.speech_id)

    def _pause_speech(self, effect: fx.PauseSpeech) -> None:
        self._held = effect.speech_id
        self.playout.pause(self._host.fade)
        reply = self._replies.get(effect.speech_id)
        if reply is not None:
            self._records.held(reply.record, self.playout, effect.cause)

    def _resume_speech(self, effect: fx.ResumeSpeech) -> None:
        reply = self._replies.get(effect.speech_id)
        if reply is not None:
            reply.record.mark("queue", "runtime", self.context.clock.now())
            self._records.resumed(reply.record, self.playout)
        self._release_hold()
        if effect.is_false_interruption:
            self.context.log.note(ev.FalseInterruption, speech_id=effect.speech_id)

    def _release_hold(self) -> None:
        self._held = ""
        self.playout.resume()

    def _wake_user(self, effect: fx.WakeUser) -> None:
        self.context.log.note(ev.WakeUpFired, level=effect.level)
        self.wake_up_call.make(effect.level)

    def _close_session(self, effect: fx.CloseSession) -> None:
        if effect.reason == "error":
            self.last_words.gave_up(effect.component)
        if effect.reason == "pipeline_lost":
            self.context.closing.request(CloseReason.ERROR, self.pipelines.failure)
        else:
            self.context.closing.request(CloseReason(effect.reason))

    def _forget_speech(self, effect: fx.ForgetSpeech) -> None:
        if self._held == effect.speech_id:
            self._release_hold()
        reply = self._replies.get(effect.speech_id)
        if reply is None:
            return
        outcome = effect.outcome
        reply.speech.set_outcome(outcome, reply.failure.error)
        del self._replies[effect.speech_id]
        reply.let_go()
        if outcome == "failed":
            self.last_words.speech_failed(reply.failure.error)
        if self.context.live.is_connected:
            self._warm_task.prepare()
        if effect.is_withdrawn:
            self._records.withdraw(reply.record)
            return
        record = self._records.close(reply.record, outcome)
        self._transcripts.turn(record)
        if record.is_empty and self._machine.agent_state is not AgentState.CLOSING:
            tools = tuple(tool.name for tool in record.tools)
            self.last_words.reply_was_empty(
                self.context.live.agent, EmptyReply(record.turn_id, reply.record.user_text, tools)
            )

    # --- waiting and the end

    def interrupt_all(self, request: i.InterruptRequested) -> Barrier:
        """Enqueue an interruption; the result can be awaited and means that the audio has stopped."""
        self._inbox.post(request)
        return self._inbox.barrier(self._wait_audio_stopped)

    async def _wait_audio_stopped(self) -> None:
        """Wait until the sink has played what it holds, a fade included, if nothing else is being played."""
        if self.playout.current is None:
            await self.playout.drained()

    async def wait_silent(self) -> None:
        """Wait until every speech is over and the sink is empty; the caller bounds it."""
        for handle in self.live_handles:
            await handle
        await self.playout.drained()

    def end(self) -> None:
        """Drop what is still in the playout and in the inbox, and resolve every handle that is left."""
        self._inbox.close()
        self.playout.close()
        self.end_speeches()

    def end_speeches(self) -> None:
        """Give what is left behind, such as a speech whose provider ignores its cancellation, its outcome."""
        for reply in list(self._replies.values()):
            self._forget_speech(fx.ForgetSpeech(reply.handle.id, reply.outcome or "cancelled"))

    def discard(self, handle: SpeechHandle) -> None:
        """Note a speech that came to nothing before it asked for the floor."""
        self._transcripts.turn(self._records.discard(handle))


def _turn_of(effects: Sequence[fx.Effect], kind: type[fx.CommitUserTurn | fx.AmendUserTurn]) -> str:
    """Return the turn of the first effect of a kind; empty if there is none."""
    return next((effect.turn_id for effect in effects if isinstance(effect, kind)), "")


# Tuples, where a step of the machine passes: `A | B` would make a new type each time.
_WORDS = (UserFinal, UserInterim)
_SILENCES = (i.UserAudioStopped, i.ParticipantLeft)
_OF_SPEECHES = (fx.CommitUserTurn, fx.AnswerHistory, fx.GrantFloor, fx.PrepareSpeech, fx.CancelSpeech)

_APPLY: dict[type, Callable[[SessionRuntime, Any], None]] = {
    fx.SetAgentState: SessionRuntime._set_agent_state,
    fx.SetUserState: lambda runtime, effect: note_user_state(runtime.context.log, effect),
    fx.CommitUserTurn: SessionRuntime._commit_user_turn,
    fx.StartAttempt: lambda runtime, effect: runtime._attempts.start(effect),
    fx.DropAttempt: lambda runtime, effect: runtime._attempts.drop(effect),
    fx.AmendUserTurn: SessionRuntime._amend_user_turn,
    fx.AddBackchannel: SessionRuntime._keep_backchannel,
    fx.DropUserTurn: SessionRuntime._drop_user_turn,
    fx.UserTurnLimitReached: lambda runtime, effect: note_turn_limit(runtime.context.log, effect),
    fx.PolicyFailed: lambda runtime, effect: report_turn_error(effect, runtime.context.report_error),
    fx.DeadlineDropped: lambda runtime, effect: report_turn_error(effect, runtime.context.report_error),
    fx.GrantFloor: lambda runtime, effect: runtime._replies.grant(effect, runtime._warm_task),
    fx.PrepareSpeech: lambda runtime, effect: runtime._replies.prepare(effect, runtime._warm_task),
    fx.TakeFloorBack: lambda runtime, effect: runtime._replies.take_floor_back(effect),
    fx.InterruptCalls: lambda runtime, effect: runtime._replies.interrupt_calls(effect),
    fx.CancelSpeech: SessionRuntime._cancel_speech,
    fx.ForgetSpeech: SessionRuntime._forget_speech,
    fx.AnswerHistory: SessionRuntime._answer_late,
    fx.PauseSpeech: SessionRuntime._pause_speech,
    fx.ResumeSpeech: SessionRuntime._resume_speech,
    fx.BeginHandoff: lambda runtime, effect: runtime.handoffs.begin(effect.handoff_id),
    fx.DropHandoff: lambda runtime, effect: runtime.handoffs.drop(effect.handoff_id),
    fx.OpenPipeline: lambda runtime, effect: runtime.pipelines.begin(effect),
    fx.ReportLoss: lambda runtime, effect: runtime.pipelines.report_loss(effect),
    fx.TakePipeline: lambda runtime, effect: runtime.pipelines.take(effect),
    fx.DropPipeline: lambda runtime, effect: runtime.pipelines.drop(effect),
    fx.PredictEndOfTurn: SessionRuntime._predict_end_of_turn,
    fx.SettleAudio: lambda runtime, effect: runtime.context.live.connection.commit_audio(),
    fx.HeardOut: lambda runtime, effect: runtime.context.closing.heard_out.set(),
    fx.ClearAudio: lambda runtime, effect: runtime.context.live.connection.clear_audio(),
    fx.RefuseRemoteReply: lambda runtime, effect: runtime.context.live.connection.refuse(effect.remote_reply_id),
    fx.WakeUser: SessionRuntime._wake_user,
    fx.HangUp: lambda runtime, effect: runtime.wake_up_call.hang_up(),
    fx.CloseSession: SessionRuntime._close_session,
}

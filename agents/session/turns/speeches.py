"""Speeches: the registry of the speeches that are not over, from the request to the effect `ForgetSpeech`."""

from __future__ import annotations

import logging
from collections.abc import Callable

from vivavoce.agents import events as ev
from vivavoce.agents.audio.utterance import Utterance
from vivavoce.agents.core.speech_handle import SpeechControl, SpeechHandle
from vivavoce.agents.extension.text_parts import TextParts
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.session.handoffs.handoff import Handoffs
from vivavoce.agents.speech.context import ReplyContext
from vivavoce.agents.speech.flow_parts import leave_floor, want_floor
from vivavoce.agents.speech.preemptive_replies import PreemptiveReplies
from vivavoce.agents.speech.reply import Reply
from vivavoce.agents.speech.request import AMENDED, SpeechRequest
from vivavoce.agents.speech.turn_records import TurnRecords
from vivavoce.agents.speech.warm_task import WarmTask
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.chat_context import ChatMessage

logger = logging.getLogger(__name__)


class Speeches:
    """Carries out the decisions of the turn machine on speeches. An effect on a speech that is over changes nothing.

    Args:
        voice_ahead: Whether answers that are begun before the turn is over are spoken ahead too, unheard.
    """

    def __init__(
        self,
        context: ReplyContext,
        machine: TurnMachine,
        records: TurnRecords,
        handoffs: Handoffs,
        *,
        voice_ahead: bool,
    ) -> None:
        self._context = context
        self.attempts = PreemptiveReplies(context, with_voice=voice_ahead and not context.guarding.judges_agent)
        """The answers that are begun before the turn is over."""
        self.session = context.session
        """The context of the session."""
        self._playout = context.playout
        self._machine = machine
        self._records = records
        self._handoffs = handoffs
        self._warm_task = WarmTask(self.session)
        self._replies: dict[str, Reply] = {}
        self._held = ""
        """Id of the speech whose audio is paused."""

    def open(self) -> None:
        """Keep a task ready for the first speech."""
        self._warm_task.open()

    # --- requests

    def make(self, kind: i.SpeechKind, *, interruptible: bool, speech_id: str = "") -> SpeechControl:
        """Return a speech with its handle, which is not registered yet."""
        post = self.session.inbox.post
        return SpeechControl(speech_id or new_id("speech"), kind, interruptible=interruptible, post=post)

    def request(self, speech: SpeechControl, request: SpeechRequest, asked: i.SpeechRequested) -> None:
        """Register a `say` or `reply` and ask for the floor."""
        reply = self._register(speech, request)
        if request.by_hook:
            reply.record.hands_off_from(self._handoffs.turn)
        self.session.inbox.post(asked)
        if (answer := self._replies.get(asked.hook_of)) is not None:
            answer.hook_speaks()

    def rest(self, speech_id: str) -> None:
        """Have the answer of that id, whose hook awaits a task, leave the floor."""
        if (flow := self._flow_of(speech_id)) is not None:
            flow.rest()
        else:
            leave_floor(self.session.inbox, speech_id)

    def go_on(self, speech_id: str) -> None:
        """Let it go on behind the task."""
        if (flow := self._flow_of(speech_id)) is not None:
            flow.go_on()
        else:
            want_floor(self.session.inbox, speech_id)

    def _flow_of(self, speech_id: str) -> TextParts | None:
        reply = self._replies.get(speech_id)
        return None if reply is None else reply.flow

    def record_of(self, speech_id: str) -> TurnRecordBuilder | None:
        """Return the record of a speech that is not over."""
        reply = self._replies.get(speech_id)
        return None if reply is None else reply.record

    def is_by_hook(self, speech_id: str) -> bool:
        """Return whether a hook of an agent that comes or goes asked for that speech."""
        return (reply := self._replies.get(speech_id)) is not None and reply.request.by_hook

    def discard(self, handle: SpeechHandle) -> TurnRecord:
        """Return the record of a speech that was discarded before it asked for the floor."""
        return self._records.discard(handle)

    def answer_history(self, effect: fx.AnswerHistory) -> None:
        """Register an answer to results that are in the history, or to the turn that an earlier session left open."""
        speech = self.make("reply", interruptible=True, speech_id=effect.speech_id)
        is_resumed = effect.turn_id == self._context.checkpoints.resumed.turn_id
        item = self._context.history.user_item(effect.turn_id) if is_resumed else None
        self._register(speech, SpeechRequest(user_item=item)).record.answers(effect.turn_id)

    def answer_turn(self, effect: fx.CommitUserTurn, item: ChatMessage) -> None:
        """Register the answer to a turn of the user, whose message is `item`."""
        speech = self.make("turn", interruptible=True, speech_id=effect.speech_id)
        record = self._records.commit(effect)
        instructions = AMENDED if effect.amends else ""
        request = SpeechRequest(user_item=item, remote_reply_id=effect.remote_reply_id, instructions=instructions)
        attempt = self.attempts.take(effect.attempt_id) if effect.attempt_id else None
        self._add(Reply(self._context, speech, request, record, words_before=self._texts_before, attempt=attempt))

    def _register(self, speech: SpeechControl, request: SpeechRequest) -> Reply:
        record = self._records.begin(speech.handle)
        reply = self._add(Reply(self._context, speech, request, record, words_before=self._texts_before))
        self.session.observer.asked(speech.id, speech.kind)
        self.session.log.note(ev.SpeechCreated, speech_id=speech.id, kind=speech.kind)
        return reply

    def _add(self, reply: Reply) -> Reply:
        self._replies[reply.handle.id] = reply
        return reply

    def _texts_before(self, speech_id: str) -> list[str]:
        """Return the texts, as far as they are known and kept, that are heard before that waiting speech."""
        before = map(self._replies.get, self._machine.heard_before(speech_id))
        requests = [reply.request for reply in before if reply is not None]
        return [r.text for r in requests if isinstance(r.text, str) and r.text.strip() and r.add_to_history]

    # --- reading

    def __bool__(self) -> bool:
        return bool(self._replies)

    @property
    def handles(self) -> list[SpeechHandle]:
        return [reply.handle for reply in self._replies.values()]

    @property
    def current(self) -> SpeechHandle | None:
        """The handle of the speech that has the floor."""
        reply = self._replies.get(self._machine.current_speech_id)
        return None if reply is None else reply.handle

    def unplayed(self, speech_id: str) -> Utterance | None:
        """Return the audio of a speech's present step that plays, or waits for the floor."""
        reply = self._replies.get(speech_id)
        return None if reply is None else reply.unplayed

    # --- effects

    def grant(self, effect: fx.GrantFloor) -> None:
        self._let_work(effect.speech_id, Reply.grant)

    def prepare(self, effect: fx.PrepareSpeech) -> None:
        """Let the speech generate; it waits for the floor."""
        self._let_work(effect.speech_id, Reply.prepare)

    def _at_work(self, speech_id: str) -> Reply | None:
        """Return the reply unless it has ended, which the turn machine receives next."""
        reply = self._replies.get(speech_id)
        return None if reply is None or reply.outcome is not None else reply

    def _let_work(self, speech_id: str, step: Callable[[Reply], None]) -> None:
        if (reply := self._at_work(speech_id)) is not None:
            is_first = not reply.is_running
            step(reply)
            if is_first:
                self._warm_task.start(reply.run, f"speech {reply.handle.id}")

    def take_floor_back(self, effect: fx.TakeFloorBack) -> None:
        """Take the floor from the speech."""
        if (reply := self._replies.get(effect.speech_id)) is not None:
            reply.take_floor_back()

    def interrupt_calls(self, effect: fx.InterruptCalls) -> None:
        """Cancel the speech's tool calls, as far as their tools want it."""
        if (reply := self._replies.get(effect.speech_id)) is not None:
            reply.interrupt_calls()

    def cancel(self, effect: fx.CancelSpeech) -> None:
        """Silence the speech and let it end."""
        if effect.is_withdrawn:
            self._context.extensions.undo(effect.speech_id)
        if (reply := self._at_work(effect.speech_id)) is not None and reply.is_running:
            reply.cancel(effect.outcome)
            self._records.cut(reply.record, self._playout, effect, position=reply.played)
        # Only now: before, a moment of the paused audio would be heard.
        if self._held == effect.speech_id:
            self._release_hold()
        if effect.outcome == "discarded":
            logger.info("Speech %s was discarded: it was not to wait, or is out of date", effect.speech_id)

    def pause(self, effect: fx.PauseSpeech) -> None:
        self._held = effect.speech_id
        self._playout.pause(self._context.fade)
        if (reply := self._replies.get(effect.speech_id)) is not None:
            self._records.held(reply.record, self._playout, effect.cause)

    def resume(self, effect: fx.ResumeSpeech) -> None:
        """Let the speech's audio go on."""
        if (reply := self._replies.get(effect.speech_id)) is not None:
            reply.record.mark("queue", "runtime", self.session.clock.now())
            self._records.resumed(reply.record, self._playout)
        self._release_hold()
        if effect.is_false_interruption:
            self.session.log.note(ev.FalseInterruption, speech_id=effect.speech_id)

    def _release_hold(self) -> None:
        self._held = ""
        self._playout.resume()

    def forget(self, effect: fx.ForgetSpeech) -> tuple[Reply, TurnRecord | None] | None:
        """Resolve the handle of a speech that is over, and forget the speech.

        Returns:
            The reply, and the record of its turn if the turn is over too; None if there is no such speech.
        """
        if self._held == effect.speech_id:
            self._release_hold()
        reply = self._replies.get(effect.speech_id)
        if reply is None:
            return None
        reply.speech.set_outcome(effect.outcome, reply.failure.error)
        del self._replies[effect.speech_id]
        reply.let_go()
        if self.session.live.is_connected and not self.session.closing.is_over:
            self._warm_task.prepare()
        if effect.is_withdrawn:
            self._records.withdraw(reply.record)
            return reply, None
        return reply, self._records.close(reply.record, effect.outcome)

    def fail(self, speech_id: str, error: Exception) -> None:
        """End a speech whose effect raised `error`; the turn machine would wait for it."""
        reply = self._replies.get(speech_id)
        if reply is None:
            self.session.inbox.post(i.SpeechEnded(speech_id, "failed"))
        elif reply.is_running:
            reply.cancel("failed")
        else:
            reply.give_up(error)

    # --- waiting and the end

    async def audio_stopped(self) -> None:
        """Wait until the sink has played all that it holds, a fade included, if no other speech plays."""
        if self._playout.current is None:
            await self._playout.drained()

    @property
    def are_over(self) -> bool:
        """Whether no speech is left and the sink is empty."""
        return not self.handles and self._playout.is_drained

    async def silence(self) -> None:
        """Wait until every speech is over and the sink is empty; the caller bounds it."""
        for handle in self.handles:
            await handle
        await self._playout.drained()

    def left_behind(self) -> list[fx.ForgetSpeech]:
        """Return effects that forget the speeches that are left, as one whose provider ignores its cancellation."""
        return [fx.ForgetSpeech(reply.handle.id, reply.outcome or "cancelled") for reply in self._replies.values()]

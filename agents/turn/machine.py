"""TurnMachine: takes the inputs of a conversation one by one and hands each to the part that decides on it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.barge_in.interruption import Interruption
from vivavoce.agents.turn.conversation_state import ConversationState, SessionPhase
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import CloseSession, Effect, RefuseRemoteReply
from vivavoce.agents.turn.exchange.commit import TurnCommit
from vivavoce.agents.turn.exchange.hearing_out import HearingOut
from vivavoce.agents.turn.exchange.user_turns import UserTurns
from vivavoce.agents.turn.floor.caller_floor import CallerFloor
from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.late_answers import LateAnswers
from vivavoce.agents.turn.floor.moments import Moments
from vivavoce.agents.turn.floor.pipeline_changes import PipelineChanges
from vivavoce.agents.turn.floor.preemption import Preemption
from vivavoce.agents.turn.floor.queue import SpeechQueue
from vivavoce.agents.turn.floor.stops import Stops
from vivavoce.agents.turn.options import PipelineTraits, TurnOptions
from vivavoce.agents.turn.options_in_use import OptionsInUse
from vivavoce.agents.turn.settling import Settling
from vivavoce.agents.turn.user.endpointing import Endpointing
from vivavoce.agents.turn.user.user_side import UserSide
from vivavoce.agents.turn.wake_up import WakeUps
from vivavoce.pipelines.core.words import unless_blank

_REPORTED_LATE = (i.UserSpeechStarted, i.UserSpeechEnded, i.PlayoutStarted)
"""Inputs that change states at a time of their own, in the past."""


class TurnMachine:
    """Decides the conversation. Feed every input in order, carry the effects out in order, and send `Tick` at
    `next_deadline()`.

    No input raises, in any order: one that comes too late (of a speech that is over, after closing) changes nothing.
    Each step ends: a deadline that is due again and again is dropped and reported (`settling`).
    """

    def __init__(self, options: TurnOptions) -> None:
        self._out: list[Effect] = []
        self._options = in_use = OptionsInUse(options)
        self._floor = Floor(self._out)
        self._user = UserSide()
        moments = Moments(self._floor, self._user)
        self._caller = caller = CallerFloor(in_use, self._floor, self._user)
        self._stops = stops = Stops(self._floor, self._user, self._out)
        self._guard = guard = InterruptionGuard(self._floor, self._user, caller, options.interruption.echo_warm_up)
        self._interruption = Interruption(in_use, self._floor, self._user, guard, caller, stops, self._out)
        self._endpointing = endpointing = Endpointing(in_use, self._user)
        self._attempts = Preemption(in_use, self._floor, self._user, endpointing, self._out)
        self._preemption = self._attempts if in_use.has_attempts else None
        self._turn_commit = TurnCommit(
            in_use, self._floor, self._user, self._interruption, guard, endpointing, self._preemption, self._out
        )
        self._user_turns = UserTurns(
            in_use, self._floor, self._user, self._interruption, self._turn_commit, guard, endpointing, self._out
        )
        self._hearing_out = HearingOut(in_use, self._user, self._turn_commit, self._out)
        self._queue = SpeechQueue(self._floor, caller, stops, self._out, max_errors=options.max_errors)
        self._late_answers = LateAnswers(self._floor, moments, self._out)
        self._wake_ups = WakeUps(options, moments, self._user, self._out)
        self._pipelines = PipelineChanges(
            in_use,
            self._floor,
            self._user,
            take=self._take_traits,
            owed_until=lambda: self._turn_commit.owed_until,
            lose_turn=self._user_turns.lose_turn,
            answer_lost_turn=self._answer_lost_turn,
            out=self._out,
        )
        self._state = ConversationState(self._floor, self._user, self._out)
        self._settling = Settling(self._out)
        self._phase: SessionPhase = "new"
        self._gone_until: float | None = None
        self._next_at: float | None = None

    @property
    def agent_state(self) -> AgentState:
        return self._state.agent

    @property
    def user_state(self) -> UserState:
        return self._state.user

    @property
    def current_speech_id(self) -> str:
        """The id of the speech that has the floor; "" for none."""
        active = self._floor.active
        return active.speech_id if active else ""

    def heard_before(self, speech_id: str) -> list[str]:
        """Return the speeches that are heard before a waiting speech, first the one that has the floor."""
        ahead = [] if self._floor.active is None else [self._floor.active.speech_id]
        for speech in self._floor.waiting:
            if speech.speech_id == speech_id:
                break
            ahead.append(speech.speech_id)
        return [other for other in ahead if other != speech_id]

    @property
    def open_turn_id(self) -> str:
        """The id of the user's open turn; "" for none."""
        return self._user.turn.turn_id if self._user.turn else ""

    @property
    def turns(self) -> int:
        """The number of user turns so far, turns before a resumed session's start included."""
        return self._user.turns

    @property
    def is_change_due(self) -> bool:
        """Whether the machine needs `PipelineChangeDue` once all inputs are taken."""
        return self._pipelines.is_due

    def next_deadline(self) -> float | None:
        """Return when the machine needs a `Tick` if no other input comes, or None."""
        return self._next_at

    def handle(self, event: i.TurnInput, *, now: float) -> list[Effect]:
        """Take one input and return the effects to carry out, in order.

        Args:
            now: Session clock, seconds; never less than at the call before.
        """
        self._floor.begin_step(now)
        self._settling.begin(is_input=not isinstance(event, i.Tick))
        self._stops.begin_step(event)
        self._dispatch(event, now)
        if isinstance(event, _REPORTED_LATE):
            self._state.update(self._phase, min(event.at, now), now)
        due = self._settle(now)
        self._state.update(self._phase, min(event.at, now) if isinstance(event, i.PlayoutFinished) else now, now)
        due = self._break_silence(now, due)
        self._next_at = None if due is None else due.at
        effects = self._out.copy()
        self._out.clear()
        return effects

    def _settle(self, now: float) -> Deadline | None:
        """Carry out all acts that are due, those for the user's words before the next speech; return the next
        deadline."""
        while True:
            deadline = self._settling.next(self._deadlines())
            if deadline is not None and deadline.at <= now:
                self._settling.act(deadline, now)
            elif self._pipelines.ready is not None and self._pipelines.holds_floor(now):
                if self._preemption is not None:
                    self._preemption.drop_stale()
                return self._settling.next(self._deadlines())
            elif not (self._begin_next(now) and self._settling.may_grant(now)):
                return deadline

    def _begin_next(self, now: float) -> bool:
        """Begin a speech, a handoff or an attempt that waits and may begin; return whether one began."""
        self._late_answers.ask()
        if self._queue.begin_handoff():
            return True
        granted = self._queue.grant_next()
        if granted is not None:
            self._interruption.floor_given(granted, now)
            return True
        if self._queue.prepare_answer():
            return True
        return self._preemption is not None and self._preemption.update()

    def _break_silence(self, now: float, due: Deadline | None) -> Deadline | None:
        """Act on the silence, once the states show that both sides are silent; return the next deadline."""
        while (deadline := self._settling.next(self._silence_deadlines())) is not None and deadline.at <= now:
            self._settling.act(deadline, now)
            self._state.update(self._phase, now, now)
        return due if deadline is None or (due is not None and due.at <= deadline.at) else deadline

    def _silence_deadlines(self) -> Iterable[Deadline]:
        return self._wake_ups.deadlines() if self._phase == "started" and self._wake_ups.is_quiet else ()

    def _deadlines(self) -> Iterator[Deadline]:
        if self._hearing_out.until is not None:
            yield Deadline(self._hearing_out.until, self._end_hearing)
            return
        yield from self._guard.deadlines()
        yield from self._caller.deadlines()
        yield from self._interruption.deadlines()
        yield from self._user_turns.deadlines()
        if self._preemption is not None and self._user.turn is not None:
            yield from self._preemption.deadlines()
        if self._gone_until is not None:
            yield Deadline(self._gone_until, self._on_gone)
        if self._pipelines.ready is not None:
            yield from self._pipelines.deadlines()

    # --- dispatch

    def _dispatch(self, event: i.TurnInput, now: float) -> None:
        match event:
            case i.SessionStarting() | i.SessionStarted() | i.SessionClosing() | i.SessionClosed():
                self._on_lifecycle(event, now)
            case i.SpeechRequested() if self._phase in ("new", "closed") or self._is_unheard_farewell:
                self._queue.refuse(event)
            case i.SpeechRequested():
                self._queue.requested(event, now)
            case i.SpeechProtected():
                self._queue.protect(event)
            case i.InterruptRequested():
                self._queue.interrupt(event)
            case i.SpeechWithheld():
                is_withheld = event.is_withheld and self._is_open
                self._floor.withhold(is_withheld)
                self._wake_ups.speech_withheld(is_withheld, now)
            case i.PlayoutStarted():
                sounding = self._queue.playout_started(event)
                if sounding is not None:
                    self._guard.agent_sounds(sounding, event.at)
            case i.PlayoutFinished():
                going_on = self._queue.playout_finished(event)
                if going_on is not None:
                    self._interruption.step_follows(going_on, now)
            case i.ToolsStarted():
                self._queue.tools_started(event)
            case i.ToolsAwaited() | i.FloorYielded():
                self._queue.gives_way(event)
            case i.ToolsFinished():
                self._queue.tools_finished(event)
            case i.ToolCallSettled():
                self._floor.lapse(event.call_id)
            case i.AnswerOwed():
                if self._is_open:
                    self._late_answers.owed(event)
            case i.ResultsCarried():
                self._late_answers.carried(event.results_id)
            case i.SpeechEnded():
                self._queue.ended(event, is_open=self._is_open)
            case i.HandoffRequested():
                self._queue.handoff_requested(event, is_open=self._is_open)
            case i.HandoffReady():
                self._floor.handoff_ready(event.handoff_id)
            case i.HandoffEnded():
                self._queue.handoff_ended(event)
            case i.TurnOptionsChanged():
                if self._is_open or self._phase == "new":
                    self._take_agent(event)
            case i.PipelineChangeRequested():
                self._pipelines.requested(event)
            case i.PipelineReady():
                self._pipelines.opened(event, now)
            case i.PipelineChangeFailed():
                self._pipelines.failed(event.change_id)
            case i.PipelineLost():
                self._pipelines.lost(event, now)
            case i.FallbackAtStart():
                self._pipelines.fell_back(event, now)
            case i.PipelineChangeDue():
                self._pipelines.begin(now)
            case i.PipelineChangesClosed():
                self._pipelines.close()
            case i.ToolsRunning():
                self._wake_ups.tools_running(event, now)
            case i.CallerHeld():
                self._wake_ups.caller_held(event, now)
            case i.WakeUpChanged() | i.WakeUpPaused() | i.WakeUpResumed() | i.WakeUpReset():
                self._wake_ups.changed(event, now)
            case _ if self._is_open:
                self._dispatch_user(event, now)
            case i.UserInterim() | i.UserFinal() if self._hearing_out.until is not None:
                if self._hearing_out.take(event, unless_blank(event.text), now):
                    self._end_hearing(now)
            case i.RemoteReplyStarted():
                self._out.append(RefuseRemoteReply(event.remote_reply_id))

    def _dispatch_user(self, event: i.TurnInput, now: float) -> None:
        match event:
            case i.UserSpeechStarted():
                self._user_turns.speech_started(min(event.at, now), now)
            case i.UserSpeechEnded():
                self._user_turns.speech_ended(min(event.at, now), now)
            case i.UserVoicePaused():
                self._user.voice_paused(min(event.at, now))
            case i.UserVoiceResumed():
                self._user.voice_resumed()
            case i.UserAudioStopped():
                self._user_turns.speech_ended(now, now)
            case i.UserInterim():
                self._user_turns.interim(unless_blank(event.text), now, event.item_id)
            case i.UserFinal():
                text, is_past, held = unless_blank(event.text), event.is_past, event.held
                self._user_turns.final(text, now, event.item_id, is_past=is_past, held=held)
            case i.RecogniserLost():
                self._user.recogniser_lost()
            case i.RecogniserBack():
                self._user.recogniser_back(now)
            case i.RecogniserReplaced():
                self._turn_commit.take_recogniser(now)
                self._user.recogniser_changed()
            case i.UserTurnPredicted():
                self._user_turns.predicted(event.complete, now)
            case i.UserTurnEndedEagerly():
                self._user_turns.ended_eagerly(now)
            case i.UserTurnResumed():
                self._user_turns.resumed()
            case i.UserTurnEnded():
                self._user_turns.turn_ended(now, event.item_id)
            case i.UserAudioCommitted():
                self._turn_commit.audio_named(event.item_id)
            case i.TurnCommitRequested():
                self._user_turns.commit_requested(now)
            case i.TurnClearRequested():
                self._user_turns.clear_requested(now)
            case i.TextReceived():
                self._user_turns.typed(event.text, now)
            case i.KeyPressed():
                self._user.act(now)
            case i.RemoteReplyStarted():
                self._user_turns.remote_reply(event.remote_reply_id, now, event.item_id)
            case i.RemoteReplyCancelled():
                self._user_turns.remote_reply_cancelled()
            case i.ParticipantLeft():
                self._on_left(event, now)
            case i.ParticipantLinked():
                self._gone_until = None
                self._interruption.caller_came(now)
                self._wake_ups.caller_came(now)

    def _take_traits(self, traits: PipelineTraits, now: float, keeps_ears: bool) -> None:
        self._options.take_pipeline(traits)
        self._attempts.limit(traits.max_attempts)
        self._preemption = self._attempts if self._options.has_attempts else None
        self._turn_commit.take_pipeline(self._preemption)
        if not keeps_ears:
            self._user.others_listen(now)
            self._turn_commit.others_listen(now)

    def _take_agent(self, event: i.TurnOptionsChanged) -> None:
        self._options.take_agent(event.endpointing, event.interruption)
        self._guard.take_warm_up(event.interruption.echo_warm_up)
        self._interruption.take_agent()
        self._user_turns.take_agent()

    def _answer_lost_turn(self) -> None:
        turn_id, text = self._turn_commit.last_turn
        if text and turn_id == self._queue.unanswered and self._user.turn is None:
            self._late_answers.answer(turn_id)

    # --- from start to close

    @property
    def _is_open(self) -> bool:
        return self._phase in ("starting", "started")

    @property
    def _is_unheard_farewell(self) -> bool:
        return self._phase == "closing" and (self._stops.is_caller_gone or self._hearing_out.until is not None)

    def _on_left(self, event: i.ParticipantLeft, now: float) -> None:
        if event.grace is None:  # the conversation does not end by that, so that nothing may wait for it
            self._gone_until = None
            self._interruption.caller_came(now)
        else:
            self._gone_until = now + event.grace
            self._stops.caller_left(now)
        self._wake_ups.caller_left()
        self._user_turns.speech_ended(now, now)  # no VAD will report it

    def _on_lifecycle(self, event: i.TurnInput, now: float) -> None:
        match event:
            case i.SessionStarting() if self._phase == "new":
                self._phase = "starting"
                self._user.count_from(event.turns_before, event.run)
                self._user_turns.begin(now)
                self._state.begin(now)
            case i.SessionStarted() if self._phase == "starting":
                self._phase = "started"
                self._wake_ups.begin(now)
            case i.SessionClosing() if self._phase != "closed":
                self._close(now, hears_out=event.hears_out)
            case i.SessionClosed() if self._phase != "closed":
                self._close(now)
                self._state.update(self._phase, now, now)
                self._phase = "closed"

    def _close(self, now: float, *, hears_out: bool = False) -> None:
        self._phase = "closing"
        self._gone_until = None
        self._guard.end()
        self._late_answers.clear()
        if hears_out:
            self._hearing_out.begin(now)
        if hears_out and self._hearing_out.until is not None:
            self._attempts.limit(0)
            self._preemption = None
        else:
            self._end_hearing(now)
        self._queue.cancel_all()
        self._pipelines.close()

    def _end_hearing(self, now: float) -> None:
        self._user_turns.close(now)
        self._queue.cancel_all()
        self._hearing_out.end()

    def _on_gone(self, now: float) -> None:
        self._gone_until = None
        self._out.append(CloseSession("participant_left"))

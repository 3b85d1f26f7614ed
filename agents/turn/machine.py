"""TurnMachine: one table of who does what when user and agent speak, fall silent and speak over each other."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.states import AGENT_TRANSITIONS, AgentState, UserState
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.effects import (
    AddBackchannel,
    CancelSpeech,
    ClearAudio,
    CloseSession,
    CommitUserTurn,
    DropUserTurn,
    Effect,
    GrantFloor,
    PauseSpeech,
    PredictEndOfTurn,
    RefuseRemoteReply,
    ResumeSpeech,
    SetAgentState,
    SetUserState,
)
from vivavoce.agents.turn.floor import Floor, Speech
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.user_turn import UserTurn, is_backchannel


class TurnMachine:
    """Decides the conversation. Feed every input in order, carry the effects out in order, and send `Tick` at
    `next_deadline()`.

    No input raises, in any order: what comes too late (of a speech that is over, after closing) changes nothing.
    """

    def __init__(self, options: TurnOptions) -> None:
        self._options = options
        self._endpointing = options.endpointing
        self._interruption = options.interruption
        self._floor = Floor()
        self._turn: UserTurn | None = None
        self._is_user_speaking = False
        self._paused_at = 0.0
        self._phase = "new"
        self._timers: dict[str, float] = {}
        self._agent_state = AgentState.IDLE
        self._user_state = UserState.IDLE
        self._turns = 0
        self._answers = 0
        self._failures = 0
        self._out: list[Effect] = []

    @property
    def agent_state(self) -> AgentState:
        """What the agent is doing."""
        return self._agent_state

    @property
    def user_state(self) -> UserState:
        """What the user is doing."""
        return self._user_state

    @property
    def current_speech_id(self) -> str:
        """The speech that has the floor; empty when nobody has it."""
        active = self._floor.active
        return active.speech_id if active else ""

    @property
    def open_turn_id(self) -> str:
        """The user's open turn; empty when there is none."""
        return self._turn.turn_id if self._turn else ""

    def next_deadline(self) -> float | None:
        """Return when the machine wants a `Tick`, if nothing else comes."""
        return min(self._timers.values()) if self._timers else None

    def handle(self, event: i.TurnInput, *, now: float) -> list[Effect]:
        """Take one input and return what is to be done.

        Args:
            now: Session clock, seconds; never less than at the call before.
        """
        self._out = []
        self._dispatch(event, now)
        self._run_due(now)
        self._update_states(getattr(event, "at", now))
        return self._out

    # --- dispatch

    def _dispatch(self, event: i.TurnInput, now: float) -> None:
        match event:
            case i.Tick():
                pass
            case i.PlayoutStarted():
                self._on_playout_started(event, now)
            case i.PlayoutFinished():
                self._on_playout_finished(event, now)
            case i.ToolsStarted():
                self._on_tools_started(event)
            case i.ToolsAwaited():
                self._on_tools_awaited(event, now)
            case i.ToolsFinished():
                self._on_tools_finished(event, now)
            case i.SpeechEnded():
                self._on_speech_ended(event, now)
            case i.SpeechRequested():
                self._on_speech_requested(event, now)
            case i.InterruptRequested():
                self._on_interrupt_requested(event, now)
            case i.SessionStarting() | i.SessionStarted() | i.SessionClosing() | i.SessionClosed():
                self._on_lifecycle(event)
            case _ if self._phase in ("closing", "closed"):
                if isinstance(event, i.RemoteReplyStarted):
                    self._out.append(RefuseRemoteReply(event.remote_reply_id))
            case _:
                self._dispatch_user(event, now)

    def _dispatch_user(self, event: i.TurnInput, now: float) -> None:
        match event:
            case i.UserSpeechStarted():
                self._on_user_speech_started(event.at)
            case i.UserSpeechEnded():
                self._on_user_speech_ended(event.at, now)
            case i.UserInterim():
                self._on_interim(event.text, now)
            case i.UserFinal():
                self._on_final(event.text, now)
            case i.UserTurnPredicted():
                self._on_predicted(event.complete, now)
            case i.UserTurnEnded() | i.TurnCommitRequested():
                self._commit(now)
            case i.TurnClearRequested():
                self._out.append(ClearAudio())
                self._drop_turn("cleared")
            case i.TextReceived():
                self._on_text(event.text, now)
            case i.RemoteReplyStarted():
                self._on_remote_reply(event.remote_reply_id, now)
            case i.ParticipantLeft():
                if event.grace is not None:
                    self._timers["grace"] = now + event.grace
            case i.ParticipantLinked():
                self._timers.pop("grace", None)

    def _on_lifecycle(self, event: i.TurnInput) -> None:
        match event:
            case i.SessionStarting() if self._phase == "new":
                self._phase = "starting"
            case i.SessionStarted() if self._phase == "starting":
                self._phase = "started"
            case i.SessionClosing() if self._phase != "closed":
                self._phase = "closing"
                self._timers.clear()
                self._is_user_speaking = False
                self._drop_turn("cleared")
                for speech in self._floor.live:
                    self._cancel(speech)
            case i.SessionClosed():
                self._phase = "closed"
                self._timers.clear()

    # --- timers

    def _run_due(self, now: float) -> None:
        while self._timers:
            name = min(self._timers, key=self._timers.__getitem__)
            if self._timers[name] > now:
                return
            del self._timers[name]
            if name == "endpoint":
                self._commit(now)
            elif name == "candidate":
                self._on_candidate(now)
            elif name == "resume":
                self._resume(is_false_interruption=True)
            elif name == "stable":
                self._take_floor_by_words(now, is_final=False)
            elif name == "grace":
                self._out.append(CloseSession("participant_left"))

    def _arm_endpoint(self, now: float) -> None:
        turn = self._turn
        if turn is None or self._is_user_speaking:
            self._timers.pop("endpoint", None)
            return
        timeout = self._options.detector_timeout if self._options.uses_turn_detector else None
        self._timers["endpoint"] = turn.ends_at(self._endpointing, detector_timeout=timeout, now=now)

    # --- the user speaks

    def _open_turn(self) -> UserTurn:
        if self._turn is None:
            self._turns += 1
            self._turn = UserTurn(f"turn_{self._turns}")
        return self._turn

    def _on_user_speech_started(self, at: float) -> None:
        self._is_user_speaking = True
        self._open_turn().begin_speech(at)
        self._timers.pop("endpoint", None)
        self._timers.pop("resume", None)
        active = self._floor.active
        if active is None or not self._may_interrupt(active):
            return
        if active.is_playing:
            self._timers["candidate"] = at + self._interruption.min_duration
        else:
            self._pause(active, at)

    def _on_user_speech_ended(self, at: float, now: float) -> None:
        turn = self._turn
        if turn is None or not self._is_user_speaking:
            return
        self._is_user_speaking = False
        self._timers.pop("candidate", None)
        turn.end_speech(at, now)
        active = self._floor.active
        if active is not None and active.is_paused:
            self._plan_resume(active, turn, at)
        if self._options.uses_turn_detector and turn.segments and not turn.owes_final:
            self._out.append(PredictEndOfTurn(turn.text))
        self._arm_endpoint(now)

    def _plan_resume(self, active: Speech, turn: UserTurn, ended_at: float) -> None:
        assert turn.speech_started_at is not None
        limit = self._interruption.min_duration if active.is_playing else self._interruption.thinking_min_duration
        was_short = ended_at - turn.speech_started_at < limit
        if was_short and self._paused_at >= turn.speech_started_at:
            self._resume(is_false_interruption=active.is_playing)
        else:
            self._timers["resume"] = ended_at + self._interruption.false_timeout

    def _on_interim(self, text: str, now: float) -> None:
        if not text and self._turn is None:
            return
        turn = self._open_turn()
        turn.add_interim(text, now)
        if text:
            self._timers["stable"] = turn.interim_since + self._interruption.stable_interim
        else:
            self._timers.pop("stable", None)
        if not self._is_user_speaking:
            self._arm_endpoint(now)

    def _on_final(self, text: str, now: float) -> None:
        self._timers.pop("stable", None)
        if not text and self._turn is None:
            return
        turn = self._open_turn()
        turn.add_final(text, now)
        if text:
            self._take_floor_by_words(now, is_final=True)
        elif not self._is_user_speaking and not turn.segments:
            self._drop_turn("noise")
            self._resume(is_false_interruption=True)
            return
        if not self._is_user_speaking:
            if self._options.uses_turn_detector:
                self._out.append(PredictEndOfTurn(turn.text))
            self._arm_endpoint(now)

    def _on_predicted(self, complete: bool, now: float) -> None:
        turn = self._turn
        if turn is None or self._is_user_speaking:
            return
        turn.is_complete = complete
        turn.predicted_at = now
        self._arm_endpoint(now)

    def _on_text(self, text: str, now: float) -> None:
        if not text.strip():
            return
        turn = self._open_turn()
        turn.segments.append(text.strip())
        turn.final_at = now
        self._commit(now, is_typed=True)

    # --- the floor changes hands

    def _may_interrupt(self, speech: Speech) -> bool:
        return self._interruption.enabled and speech.interruptible

    def _on_candidate(self, now: float) -> None:
        """The user has been speaking over the agent for long enough to matter."""
        active = self._floor.active
        if active is None or not active.is_playing or active.is_paused or not self._may_interrupt(active):
            return
        if self._interruption.mode == "immediate":
            self._interrupt()
            return
        turn = self._turn
        if turn is not None and turn.segments and self._takes_floor(turn.new_text):
            self._interrupt()
        else:
            self._pause(active, now)

    def _takes_floor(self, text: str) -> bool:
        if len(text.split()) < self._interruption.min_words:
            return False
        return not is_backchannel(text, self._interruption.backchannels)

    def _take_floor_by_words(self, now: float, *, is_final: bool) -> None:
        turn, active = self._turn, self._floor.active
        if turn is None or active is None or not self._may_interrupt(active):
            return
        if not self._takes_floor(turn.new_text):
            if is_final and active.is_paused and not self._is_user_speaking:
                self._resume(is_false_interruption=active.is_playing)
            return
        if not active.is_playing:
            self._withdraw(active, turn)
        elif turn.speech_started_at is None or self._burst(turn, now) >= self._interruption.min_duration:
            self._interrupt()

    def _burst(self, turn: UserTurn, now: float) -> float:
        assert turn.speech_started_at is not None
        return (now if turn.speech_ended_at is None else turn.speech_ended_at) - turn.speech_started_at

    def _withdraw(self, speech: Speech, turn: UserTurn) -> None:
        """Drop an answer that nobody has heard; the words before and after it become one turn where they still can."""
        if speech.kind == "turn" and not speech.was_audible and not speech.has_used_tools:
            turn.turn_id = speech.turn_id
            turn.earlier_text = speech.text
            self._cancel(speech, is_withdrawn=True)
            self._drop_waiting()
        else:
            self._interrupt()

    def _interrupt(self) -> None:
        active = self._floor.active
        if active is not None:
            self._cancel(active)
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        """Drop what waits, up to the first protected speech."""
        for speech in self._floor.waiting:
            if not speech.interruptible:
                return
            self._cancel(speech)

    def _cancel(self, speech: Speech, *, is_withdrawn: bool = False) -> None:
        outcome: Literal["interrupted", "cancelled"] = "interrupted" if speech.was_audible else "cancelled"
        speech.phase = "ending"
        speech.is_playing = False
        speech.is_paused = False
        self._timers.pop("resume", None)
        self._timers.pop("candidate", None)
        self._out.append(CancelSpeech(speech.speech_id, outcome, is_withdrawn))

    def _pause(self, speech: Speech, at: float) -> None:
        if not speech.is_paused:
            speech.is_paused = True
            self._paused_at = at
            self._out.append(PauseSpeech(speech.speech_id))

    def _resume(self, *, is_false_interruption: bool) -> None:
        self._timers.pop("resume", None)
        active = self._floor.active
        if active is not None and active.is_paused:
            active.is_paused = False
            self._out.append(ResumeSpeech(active.speech_id, is_false_interruption and active.is_playing))

    def _commit(self, now: float, *, is_typed: bool = False, remote_reply_id: str = "") -> None:
        """End the user's turn: answer it, keep it for later, or drop it."""
        turn = self._turn
        if turn is None:
            return
        if not turn.has_words and not remote_reply_id:
            self._drop_turn("transcript_missing" if turn.speech_ended_at is not None else "noise")
            return
        active = self._floor.active
        if active is not None:
            if not self._may_interrupt(active):
                self._timers.pop("endpoint", None)
                return  # kept until the protected speech is over: _grant_next() comes back to it
            if not is_typed and not turn.is_merged and is_backchannel(turn.new_text, self._interruption.backchannels):
                self._out.append(AddBackchannel(turn.turn_id, turn.new_text))
                self._close_turn()
                self._resume(is_false_interruption=False)
                return
            if active.is_playing:
                self._interrupt()
            else:
                self._withdraw(active, turn)
        self._answers += 1
        answer_id = f"answer_{self._answers}"
        self._floor.add(answer_id, "turn", turn_id=turn.turn_id, text=turn.text)
        self._out.append(
            CommitUserTurn(
                turn_id=turn.turn_id,
                speech_id=answer_id,
                text=turn.text,
                timing=turn.timing(now),
                merged=turn.is_merged,
                remote_reply_id=remote_reply_id,
            )
        )
        self._close_turn()
        self._grant_next(now)

    def _close_turn(self) -> None:
        self._turn = None
        for name in ("endpoint", "stable", "candidate"):
            self._timers.pop(name, None)

    def _drop_turn(self, reason: Literal["noise", "transcript_missing", "cleared"]) -> None:
        turn = self._turn
        if turn is None:
            return
        self._close_turn()
        self._out.append(DropUserTurn(turn.turn_id, reason))

    def _on_remote_reply(self, remote_reply_id: str, now: float) -> None:
        active = self._floor.active
        if active is not None and not self._may_interrupt(active):
            self._out.append(RefuseRemoteReply(remote_reply_id))
            return
        self._open_turn()
        self._is_user_speaking = False
        self._commit(now, is_typed=True, remote_reply_id=remote_reply_id)

    # --- speeches

    def _grant_next(self, now: float) -> None:
        if self._floor.active is not None:
            return
        waiting = self._floor.waiting
        if waiting:
            speech = waiting[0]
            speech.phase = "active"
            self._out.append(GrantFloor(speech.speech_id))
            if self._is_user_speaking and speech.kind != "say" and self._may_interrupt(speech):
                self._pause(speech, now)
        elif self._turn is not None and self._phase in ("starting", "started"):
            self._arm_endpoint(now)

    def _on_speech_requested(self, event: i.SpeechRequested, now: float) -> None:
        if self._phase == "closed":
            self._out.append(CancelSpeech(event.speech_id, "discarded"))
            return
        if event.when_busy == "discard":
            busy = self._floor.busy_with("reply") if event.kind == "reply" else bool(self._floor.live)
            if busy:
                self._out.append(CancelSpeech(event.speech_id, "discarded"))
                return
        if event.when_busy == "interrupt":
            active = self._floor.active
            if active is None or active.interruptible:
                self._interrupt()
        self._floor.add(event.speech_id, event.kind, interruptible=event.interruptible, priority=event.priority)
        self._grant_next(now)

    def _on_interrupt_requested(self, event: i.InterruptRequested, now: float) -> None:
        if event.speech_id:
            speech = self._floor.get(event.speech_id)
            if speech is not None and speech.phase != "ending" and (speech.interruptible or event.force):
                self._cancel(speech)
        else:
            active = self._floor.active
            if active is not None and not (active.interruptible or event.force):
                return
            if active is not None:
                self._cancel(active)
            for speech in self._floor.in_tools:
                if speech.interruptible or event.force:
                    self._cancel(speech)
            self._drop_waiting()
        self._grant_next(now)

    def _on_playout_started(self, event: i.PlayoutStarted, now: float) -> None:
        speech = self._floor.get(event.speech_id)
        if speech is None or speech.phase != "active":
            return
        speech.is_playing = True
        speech.was_audible = True
        if self._is_user_speaking and self._may_interrupt(speech):
            self._timers["candidate"] = now + self._interruption.min_duration

    def _on_playout_finished(self, event: i.PlayoutFinished, now: float) -> None:
        speech = self._floor.get(event.speech_id)
        if speech is None or speech.phase != "active":
            return
        speech.is_playing = False
        speech.is_paused = False
        self._timers.pop("candidate", None)
        self._timers.pop("resume", None)
        if event.is_last:
            speech.phase = "ending"
            self._grant_next(now)

    def _on_tools_started(self, event: i.ToolsStarted) -> None:
        speech = self._floor.get(event.speech_id)
        if speech is not None:
            speech.has_used_tools = True

    def _on_tools_awaited(self, event: i.ToolsAwaited, now: float) -> None:
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "active":
            speech.phase = "tools"
            speech.is_playing = speech.is_paused = False
            self._grant_next(now)

    def _on_tools_finished(self, event: i.ToolsFinished, now: float) -> None:
        speech = self._floor.get(event.speech_id)
        if speech is not None and speech.phase == "tools":
            speech.phase = "queued"
            self._grant_next(now)

    def _on_speech_ended(self, event: i.SpeechEnded, now: float) -> None:
        speech = self._floor.remove(event.speech_id)
        if speech is None:
            return
        if event.outcome == "failed":
            self._failures += 1
            if self._failures >= self._options.max_errors and self._phase in ("starting", "started"):
                self._out.append(CloseSession("error"))
        elif event.outcome == "completed":
            self._failures = 0
        self._grant_next(now)

    # --- states

    def _update_states(self, at: float) -> None:
        agent = self._derive_agent_state()
        if agent is not self._agent_state and agent in AGENT_TRANSITIONS[self._agent_state]:
            self._out.append(SetAgentState(self._agent_state, agent, at))
            self._agent_state = agent
        user = self._derive_user_state()
        if user is not self._user_state:
            self._out.append(SetUserState(self._user_state, user, at))
            self._user_state = user

    def _derive_agent_state(self) -> AgentState:
        if self._phase in ("closing", "closed"):
            return AgentState.CLOSED if self._phase == "closed" else AgentState.CLOSING
        active = self._floor.active
        if active is not None and active.is_playing:
            return AgentState.SPEAKING
        if (active is not None and active.kind != "say") or self._floor.in_tools:
            return AgentState.THINKING
        if self._turn is not None:
            return AgentState.LISTENING
        return AgentState.STARTING if self._phase == "starting" else AgentState.IDLE

    def _derive_user_state(self) -> UserState:
        turn = self._turn
        without_vad = turn is not None and turn.speech_started_at is None and bool(turn.interim)
        if self._is_user_speaking or without_vad:
            return UserState.SPEAKING
        active = self._floor.active
        if active is not None and active.is_playing:
            return UserState.LISTENING
        return UserState.IDLE

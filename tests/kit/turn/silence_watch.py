"""The guarantees of a turn machine in a silence, as a model beside it."""

from __future__ import annotations

from dataclasses import replace

from kit.turn.watches import FloorWatch
from vivavoce.agents.states import UserState
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions


class SilenceWatch:
    """Wake-ups come in the order of their levels, never early, late only for noise, and only to a silent caller.

    Args:
        floor: Sees each input and effect first.
    """

    def __init__(self, options: TurnOptions, floor: FloorWatch) -> None:
        self._options = options
        self._floor = floor
        self._speeches: set[str] = set()
        self._handoff = self._requested = ""
        self._phase = "new"
        self._is_present = self._is_paused = self._is_away = False
        self._suspended: set[type] = set()  # why a silence is not the caller's
        self._level, self._quiet_since, self._waiting_since = 0, 0.0, 0.0

    def sees_input(self, event: i.TurnInput, now: float) -> None:
        """Follow inputs that end or begin silence."""
        self._requested = event.speech_id if isinstance(event, i.SpeechRequested) else ""
        match event:
            case i.SessionStarting() if self._phase == "new":
                self._phase = "starting"
            case i.SessionStarted() if self._phase == "starting":
                self._phase, self._quiet_since = "started", now
            case i.SessionClosing() | i.SessionClosed():
                self._phase = "closing"
            case i.SpeechRequested(speech_id=speech):
                self._speeches.add(speech)
            case i.HandoffEnded(handoff_id=handoff) if handoff == self._handoff != "":
                self._handoff, self._quiet_since = "", now
            case i.ToolsRunning(is_any=is_on) | i.CallerHeld(is_held=is_on) | i.SpeechWithheld(is_withheld=is_on):
                self._quiet_since = now if type(event) in self._suspended and not is_on else self._quiet_since
                is_on = is_on and (self._phase != "new" or not isinstance(event, i.SpeechWithheld))
                (self._suspended.add if is_on else self._suspended.discard)(type(event))
            case i.ParticipantLeft() if self._phase != "closing":
                self._is_present = False
                if self._options.wake_up and self._options.wake_up.then == "hangup" and self._level > self._repeat:
                    self._level = 0  # the next participant is another caller
            case i.ParticipantLinked() if not self._is_present and self._phase != "closing":
                self._is_present, self._quiet_since = True, now
            case i.UserInterim() | i.UserFinal() | i.TextReceived() if event.text.strip() and self._phase != "closing":
                self._act(now)
            case i.KeyPressed() if self._phase != "closing":
                self._act(now)
            case i.WakeUpChanged():
                self._options = replace(self._options, wake_up=event.wake_up)
                self._level, self._waiting_since = 0, now
            case i.WakeUpPaused():
                self._is_paused = True
            case i.WakeUpResumed() if self._is_paused:
                self._is_paused, self._waiting_since = False, now
            case i.WakeUpReset():
                self._level, self._waiting_since = 0, now

    def _act(self, now: float) -> None:
        self._level, self._is_away, self._quiet_since = 0, False, now

    def sees_effect(self, effect: fx.Effect, now: float) -> None:
        """Check the effects of silence."""
        match effect:
            case fx.CommitUserTurn():
                self._act(now)
                self._speeches.add(effect.speech_id)
            case fx.AnswerHistory():
                self._speeches.add(effect.speech_id)
            case fx.ForgetSpeech(speech_id=speech):
                self._speeches.remove(speech)
                if speech != self._requested or effect.outcome != "discarded":  # else it has never waited
                    self._quiet_since = now
            case fx.BeginHandoff(handoff_id=handoff):
                self._handoff = handoff
            case fx.WakeUser() | fx.CloseSession(reason="user_away") | fx.HangUp():
                due = self._wake_up_at()
                assert due is not None
                assert due <= now
                assert self._may_be_due, "somebody was busy"
                self._level, self._waiting_since = self._level + 1, now
                level = effect.level if isinstance(effect, fx.WakeUser) else self._repeat + 1
                assert level == self._level
            case fx.SetUserState(state=UserState.AWAY):
                assert self._is_away or self._away_at() <= now
                self._is_away = True

    def check(self, machine: TurnMachine, *, is_user_speaking: bool) -> None:
        """In pure silence its effects are not delayed; away is away until something is said."""
        assert not (self._is_away and machine.user_state is UserState.IDLE)
        if not self._may_be_due or is_user_speaking or machine.open_turn_id:
            return
        wake_up_at = self._wake_up_at()
        due = [] if wake_up_at is None else [wake_up_at]
        if not self._is_away and self._options.away_after is not None:
            due.append(self._away_at())
        deadline = machine.next_deadline()
        assert not due or (deadline is not None and deadline <= min(due)), "what a silence leads to is put off"

    @property
    def _may_be_due(self) -> bool:
        has_handoff = bool(self._handoff or self._floor.handoffs)  # one may wait for its components
        is_free = not (self._speeches - self._floor.behind.keys() or has_handoff or self._suspended)
        return self._phase == "started" and self._is_present and is_free

    @property
    def _repeat(self) -> int:
        return self._options.wake_up.repeat if self._options.wake_up else 0

    def _away_at(self) -> float:
        assert self._options.away_after is not None
        return round(self._quiet_since + self._options.away_after, 9)

    def _wake_up_at(self) -> float | None:
        wake_up = self._options.wake_up
        if wake_up is None or self._is_paused or self._level >= wake_up.repeat + (wake_up.then is not None):
            return None
        wait = wake_up.after * wake_up.backoff**self._level
        return round(max(self._quiet_since, self._waiting_since) + wait, 9)

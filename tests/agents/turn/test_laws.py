"""Laws that the turn machine keeps for every order of inputs and every delay, with every option.

A quick run draws some calls. `VIVAVOCE_LAWS=20000 pytest tests/agents/turn/test_laws.py` draws that many (10 minutes).
"""

from __future__ import annotations

import os
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kit.turn.draws import DECISIONS, DELAYS, ENDPOINTING, INTERRUPTION, OPTIONS, TELLING, TOOLS_AND_HANDOFFS, obedient
from kit.turn.pipeline_watches import LateAnswerWatch, PipelineWatch
from kit.turn.silence_watch import SilenceWatch
from kit.turn.watches import AttemptWatch, CallerWatch, FloorWatch, StateWatch, WordWatch
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, TurnOptions
from vivavoce.agents.turn.trace.record import (
    TURN,
    RecordedMachine,
    TraceStep,
    end_line,
    header_line,
    step_line,
)
from vivavoce.agents.turn.trace.replay import read_trace, replay
from vivavoce.agents.turn.user.burst import LONGEST_VOICE

TICKS_AT_MOST = 200
"""More deadlines than this in one stretch of time mean that the machine turns in circles."""
QUIET = 20.0
"""Seconds after which nothing may be undecided: more than all limits of an utterance together."""
ALL_WAKE_UPS = 10 * (1 + 1.5 + 1.5**2 + 1.5**3)
"""Seconds after which the longest silence has led to everything that it may lead to."""


class TurnLaws(RuleBasedStateMachine):
    """Feeds a machine anything in any order, under five watches, and replays all of it in the end."""

    @initialize(
        options=OPTIONS,
        is_started=st.booleans(),
        is_present=st.booleans(),
        rests=st.booleans(),
        has_vad=st.sampled_from([True, True, False]),
        falls_back=st.sampled_from([False, False, True]),
    )
    def begin(
        self, options: TurnOptions, is_started: bool, is_present: bool, rests: bool, has_vad: bool, falls_back: bool
    ) -> None:
        self.options = options
        self.has_vad = has_vad
        self.is_connected = True
        self.has_limits = self.may_hush = False
        self.is_replayable = True
        self._follow(options)
        self.rests = rests
        self.record: list[TraceStep] = []
        self.machine = RecordedMachine(options, self.record.append)
        self.shadow = TurnMachine(replace(options, interruption=obedient(options.interruption)))
        self.now = 0.0
        self.counter = 0
        self.floor, self.words, self.states = FloorWatch(), WordWatch(), StateWatch()
        self.attempts = AttemptWatch(0 if options.traits.remote_decides else options.traits.max_attempts)
        self.silence = SilenceWatch(options, self.floor)
        self.late_answers = LateAnswerWatch(self.floor)
        self.pipelines = PipelineWatch()
        self.over_caller: set[str] = set()
        self.caller = CallerWatch(options, self._may_speak_over)
        self.first_options = options
        self._feed(i.SessionStarting())
        if falls_back:
            self._feed(i.FallbackAtStart(pipeline="p1", traits=self.options.traits))
        if is_started:
            self._feed(i.SessionStarted())
        if is_present:
            self._feed(i.ParticipantLinked())

    def _follow(self, options: TurnOptions) -> None:
        """Follow these options; limits, and times at which no voice interrupts, may have an effect for longer."""
        self.options = options
        self.is_manual = options.endpointing.mode == "manual"
        self.has_limits |= bool(options.endpointing.max_turn_words or options.endpointing.max_turn_duration)
        self.may_hush |= not options.interruption.enabled or options.interruption.echo_warm_up > 0
        self.is_replayable &= isinstance(options.interruption.mode, str)  # a trace can only name others

    def _feed(self, event: i.TurnInput) -> list[fx.Effect]:
        self.floor.sees_input(event)
        self.states.sees_input(event)
        self.silence.sees_input(event, self.now)
        self.late_answers.sees_input(event)
        self.pipelines.sees_input(event)
        self.words.sees_input(event, self.now)
        effects = self.machine.handle(event, now=self.now)
        shadow_event = event
        if isinstance(event, i.TurnOptionsChanged):
            shadow_event = replace(event, interruption=obedient(event.interruption))
        assert self.shadow.handle(shadow_event, now=self.now) == effects
        if isinstance(event, i.RecogniserLost | i.RecogniserBack | i.PipelineChangeDue):
            self.is_connected = not isinstance(event, i.RecogniserLost)
        for effect in effects:
            assert not isinstance(effect, fx.DeadlineDropped), "a rule leads nowhere"
            self.floor.sees_effect(effect)
            self.words.sees_effect(effect, self.now)
            self.attempts.sees_effect(effect)
            self.states.sees_effect(effect, self.now)
            self.silence.sees_effect(effect, self.now)
            self.late_answers.sees_effect(effect)
            self.pipelines.sees_effect(effect)
            assert not isinstance(effect, fx.AnswerHistory) or not self.machine.open_turn_id
        self.attempts.sees_step(event)
        self.caller.sees(event, effects, self.machine.open_turn_id, self.now)
        if self.machine.is_change_due and not isinstance(event, i.PipelineChangeDue):
            taken = self._feed(i.PipelineChangeDue())
            assert any(isinstance(effect, fx.TakePipeline) for effect in taken)
            assert not self.machine.is_change_due
        return effects

    def _may_speak_over(self, speech: str) -> bool:
        is_owed = self.has_limits and speech.startswith("answer")
        is_owed = is_owed or self.words.may_be_kept(speech)
        return is_owed or speech in self.floor.protected or speech in self.over_caller

    def _number(self) -> int:
        self.counter += 1
        return self.counter

    def _pick(self, pick: int) -> str:
        known = self.floor.known
        return self.floor.holder if pick % 2 and self.floor.holder else known[-1 - pick // 2 % len(known)]

    # --- the calls

    @rule(seconds=DELAYS | st.just(LONGEST_VOICE + 1.0))
    def wait(self, seconds: float) -> None:
        end, ticks = self.now + seconds, 0
        while (deadline := self.machine.next_deadline()) is not None and deadline <= end:
            self.now = max(deadline, self.now)
            self._feed(i.Tick())
            ticks += 1
            assert ticks < TICKS_AT_MOST
        self.now = end

    @rule(begins=st.booleans(), ago=st.floats(-0.1, 0.5))
    def voice(self, begins: bool, ago: float) -> None:
        if not self.has_vad:
            return
        self._feed(i.UserSpeechStarted(self.now - ago) if begins else i.UserSpeechEnded(self.now - ago))

    @rule(pauses=st.booleans(), ago=st.floats(-0.1, 0.5))
    def _pause_voice(self, pauses: bool, ago: float) -> None:
        if self.has_vad:
            self._feed(i.UserVoicePaused(self.now - ago) if pauses else i.UserVoiceResumed(self.now - ago))

    @rule(kind=st.sampled_from(TELLING))
    def tell(self, kind: str) -> None:
        guess, number = f"i{self.counter}", self._number()
        if kind == "interim":
            if self.options.traits.emits_interims:
                self._feed(i.UserInterim(text=f"i{number}"))
            return
        if kind == "nothing":
            self._feed(i.UserFinal(text=""))
            return
        # Backchannels differ only in punctuation, which does not count.
        word = "b" + f"{number:b}".replace("0", ".").replace("1", "!") if kind == "backchannel" else f"w{number}"
        if self.states.phase == "open":
            self.words.told.append(word)
        if kind == "typed":
            self._feed(i.TextReceived(f" {word} "))
        else:
            text = f"{guess} {word}" if kind.endswith("of the interim") else word
            self._feed(i.UserFinal(text=text, is_past=kind.startswith("past")))

    @rule(duration=DELAYS, kind=st.sampled_from(TELLING), is_guessed=st.booleans(), is_over_speech=st.booleans())
    def utter(self, duration: float, kind: str, is_guessed: bool, is_over_speech: bool) -> None:
        """A whole burst of speech with words at its end, at will over speech that sounds."""
        if is_over_speech:
            self.request("say", True, 0, "queue", False)
            self._feed(i.PlayoutStarted(self.floor.holder or "ghost", self.now))
        self.voice(True, 0.05)
        if is_guessed:
            self.tell("interim")
        self.wait(duration)
        self.voice(False, 0.2)
        self.tell(kind)

    @rule(seconds=st.sampled_from([1.0, 4.0, 6.0]), kind=st.sampled_from(["past", "past of the interim"]))
    def _replace_recogniser(self, seconds: float, kind: str) -> None:
        """A recogniser that has shown words is replaced, and a past final comes, of it or of the next one."""
        self.utter(0.5, "interim", True, False)
        self._feed(i.RecogniserReplaced())
        self.wait(seconds)
        self.tell(kind)

    @rule(duration=DELAYS, kind=st.sampled_from(TELLING), ends=st.booleans())
    def _talk_over_preamble(self, duration: float, kind: str, ends: bool) -> None:
        """Words over the preamble of a speech whose tool continues."""
        if not self.floor.holder:
            self.utter(0.5, "final", False, False)
            self.wait(0.5)
        speech = self.floor.holder or "ghost"
        self._feed(i.PlayoutStarted(speech, self.now))
        self._feed(i.ToolsStarted(speech))
        self.utter(duration, kind, False, False)
        self._feed(i.PlayoutFinished(speech, self.now, False))
        self._feed(i.ToolsAwaited(speech))
        self.wait(duration)
        if ends:
            self._feed(i.ToolsFinished(speech))

    @rule(pause=DELAYS, noise=DELAYS, has_tools=st.sampled_from([False, False, True]))
    def _fall_silent(self, pause: float, noise: float, has_tools: bool) -> None:
        """Every speech ends and the caller makes mere noise, at will while a tool of a speech that was cut runs on."""
        self.voice(False, 0.0)
        self._feed(i.UserFinal(text=""))
        self._end_speeches()
        self._feed(i.ToolsRunning(has_tools))
        self.wait(pause)
        self.voice(True, 0.0)
        self.wait(noise)
        self.voice(False, 0.0)
        self._feed(i.UserFinal(text=""))

    @rule(event=DECISIONS)
    def decide(self, event: i.TurnInput) -> None:
        if isinstance(event, i.TurnClearRequested):
            self.words.take_back()
        self._feed(event)

    @rule()
    def begin_remote_reply(self) -> None:
        remote = f"remote_{self._number()}"
        effects = self._feed(i.RemoteReplyStarted(remote))
        refused = [e for e in effects if isinstance(e, fx.RefuseRemoteReply) and e.remote_reply_id == remote]
        taken = [e for e in effects if isinstance(e, fx.CommitUserTurn) and e.remote_reply_id == remote]
        assert len(refused) + len(taken) == 1

    @rule(
        kind=st.sampled_from(["say", "reply"]),
        interruptible=st.sampled_from([True, True, False]),
        priority=st.integers(-1, 1),
        when_busy=st.sampled_from(["queue", "discard", "interrupt", None]),
        by_hook=st.booleans(),
        origin=st.sampled_from(["", "", "turn hook", "wake-up", "tool"]),
        is_whole=st.booleans(),
    )
    def request(
        self,
        kind: i.SpeechKind,
        interruptible: bool,
        priority: int,
        when_busy: i.WhenBusy | None,
        by_hook: bool,
        origin: str = "",
        is_whole: bool = True,
    ) -> None:
        speech = f"speech_{self._number()}"
        self.floor.known.append(speech)
        if not interruptible:
            self.floor.protected.add(speech)
        if by_hook and origin != "turn hook":
            self.floor.hooks.add(speech)
        if when_busy == "interrupt":
            self.over_caller.add(speech)
        answers = [known for known in self.floor.known if known.startswith("answer")]
        hook_of = answers[-1] if origin == "turn hook" and answers else ""
        self._feed(
            i.SpeechRequested(
                speech_id=speech,
                kind=kind,
                interruptible=interruptible,
                priority=priority,
                when_busy=when_busy,
                by_hook=by_hook and origin != "turn hook",
                by_wake_up=origin == "wake-up",
                from_call="call" if origin == "tool" else "",
                hook_of=hook_of,
                is_whole=is_whole,
            )
        )
        if hook_of:
            self._feed(i.FloorYielded(hook_of))

    @rule(pick=st.integers(0, 99), begins=st.booleans(), is_last=st.booleans())
    def play(self, pick: int, begins: bool, is_last: bool) -> None:
        speech = self._pick(pick)
        self._feed(i.PlayoutStarted(speech, self.now) if begins else i.PlayoutFinished(speech, self.now, is_last))

    @rule(pick=st.integers(0, 99), kind=st.sampled_from(TOOLS_AND_HANDOFFS))
    def use_tools_and_hand_off(self, pick: int, kind: type) -> None:
        tasks = sorted(set(self.floor.behind.values()))
        if kind is i.ToolCallSettled:
            self._feed(i.ToolCallSettled("call"))
        elif kind is i.HandoffRequested:
            ended = tasks[pick % len(tasks)] if tasks and pick % 3 == 0 else ""
            name, opens = f"handoff_{self._number()}", pick % 5 == 0
            self._feed(i.HandoffRequested(name, begins_task=pick % 2 > 0, ends_task=ended, opens=opens))
        elif kind is i.HandoffReady:
            opening = sorted(self.floor.opening)
            self._feed(i.HandoffReady(opening[pick % len(opening)] if opening else "ghost"))
        elif kind is i.HandoffEnded:
            ended = tasks[pick % len(tasks)] if tasks and pick % 3 else ""
            self._feed(i.HandoffEnded(self.floor.handoff or "ghost", ended))
        else:
            self._feed(kind(self._pick(pick)))

    @rule(endpointing=ENDPOINTING, interruption=INTERRUPTION)
    def change_options(self, endpointing: EndpointingOptions, interruption: InterruptionOptions) -> None:
        """Another agent has the conversation, with options of its own."""
        if self.states.phase == "open":
            self._follow(replace(self.options, endpointing=endpointing, interruption=interruption))
            self.caller.takes(self.options)
        self.is_replayable &= isinstance(interruption.mode, str)  # a trace can only name a policy of the application
        self._feed(i.TurnOptionsChanged(endpointing=endpointing, interruption=interruption))

    @rule(
        pick=st.integers(0, 3),
        within=st.sampled_from([0.1, 1.0, 60.0]),
        step=st.sampled_from(["ask", "ask", "open", "open", "fail", "take back", "lose", "lose", "lose another"]),
        component=st.sampled_from(["llm", "llm", "stt"]),
        keeps_ears=st.booleans(),
    )
    def update_pipeline(self, pick: int, within: float, step: str, component: str, keeps_ears: bool) -> None:
        """Ask for another pipeline, open it, or lose one; all have the same traits, so that the other laws go on."""
        current, pipeline = self.pipelines.current, [i.FIRST_PIPELINE, "p1", "p2", "p3"][pick]
        if step == "ask":
            change = f"change_{self._number()}"
            self._feed(i.PipelineChangeRequested(change_id=change, pipeline=pipeline, within=within))
        elif step == "open":
            self._open_pipeline("ghost" if current is None else current.change_id, keeps_ears=keeps_ears)
        elif step == "fail":
            self._feed(i.PipelineChangeFailed("ghost" if current is None else current.change_id))
        elif step == "take back":
            self._feed(i.PipelineChangeFailed(self.pipelines.waiting[-1] if self.pipelines.waiting else "ghost"))
        elif step == "lose another":
            lost = "p4" if current is None else current.pipeline
            self._feed(i.PipelineLost(lost, component, loss_id=f"loss_{self._number()}"))
        elif not self.options.traits.hears_audio:  # otherwise the heard words are lost, by rule
            fallback = "" if pipeline == self.pipelines.in_use else pipeline
            self._feed(i.PipelineLost(self.pipelines.in_use, component, fallback, f"loss_{self._number()}"))

    def _open_pipeline(self, change: str, *, keeps_ears: bool = False) -> None:
        self._feed(i.PipelineReady(change_id=change, traits=self.options.traits, keeps_ears=keeps_ears))

    @rule(pick=st.integers(0, 99), is_carried=st.booleans())
    def owe_an_answer(self, pick: int, is_carried: bool) -> None:
        """Tools of a speech that was cut have ended, or a request carries their results."""
        known = self.late_answers.known
        if is_carried and known:
            self._feed(i.ResultsCarried(known[-1 - pick % len(known)]))
        else:
            self._feed(i.AnswerOwed(f"results_{self._number()}", self._pick(pick)))

    @rule(
        pick=st.integers(0, 99),
        outcome=st.sampled_from(["completed", "failed", "discarded"]),
        component=st.sampled_from(["llm", "tts"]),
    )
    def end(self, pick: int, outcome: i.EndedAs, component: str) -> None:
        self._feed(i.SpeechEnded(self._pick(pick), outcome, component))

    @rule(pick=st.integers(0, 99), is_whole=st.booleans(), force=st.booleans(), protects=st.integers(0, 4))
    def interrupt(self, pick: int, is_whole: bool, force: bool, protects: int) -> None:
        before = self.floor.holder
        if protects == 0:
            speech = self._pick(pick)
            self.floor.protected.add(speech)
            self._feed(i.SpeechProtected(speech))
        self._feed(i.InterruptRequested(force=force, speech_id="" if is_whole else self._pick(pick)))
        assert force or before not in self.floor.protected or self.floor.holder == before

    @rule()
    def press_a_key(self) -> None:
        self._feed(i.KeyPressed())

    @rule(really=st.integers(0, 20))
    def close(self, really: int) -> None:
        if really == 18:
            self._feed(i.PipelineChangesClosed())
        if really >= 19:
            self._feed(i.SessionClosing(hears_out=really == 20))

    # --- laws that hold at every step, and at the end

    @invariant()
    def laws_hold(self) -> None:
        holder = self.floor.holder
        is_hushed = self.may_hush or self.has_limits
        is_hushed = is_hushed or self.words.may_be_kept(holder) or self.caller.was_asked_since(holder)
        may_wait = holder in self.floor.protected or (holder != "" and is_hushed) or self.is_manual
        self.floor.check(self.machine)
        self.words.check()
        self.attempts.check(self.machine, holder=holder)
        self.states.check(self.machine, is_playing=self.floor.is_playing, may_wait=may_wait, now=self.now)
        self.silence.check(self.machine, is_user_speaking=self.states.is_user_speaking)
        self.late_answers.check(self.machine)
        self.pipelines.check()
        if self.machine.open_turn_id and self._words_tell_noise and not may_wait:
            assert self.machine.next_deadline() is not None, "sound keeps a turn open for ever"

    @property
    def _words_tell_noise(self) -> bool:
        options = self.options
        is_told = self.is_connected and options.interruption.max_pause is not None
        return is_told and not options.traits.remote_decides and not options.traits.hears_audio

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        if self.rests and self.states.phase == "open":
            self._come_to_rest()
        self._feed(i.SessionClosing())
        assert self.floor.unfinished in ([], ["ghost"]), "a speech was never ended"
        self._end_cut(set())
        self.floor.check_all_forgotten()
        assert self.attempts.alive is None, "an attempt outlived the conversation"
        assert (self.floor.handoff, self.floor.handoffs) == ("", []), "a handoff was neither done nor dropped"
        self.pipelines.check_closed()
        self.words.check_all_kept()
        self._feed(i.SessionClosed())
        self._check_that_nothing_follows()
        self._check_that_a_replay_is_the_same()

    def _check_that_a_replay_is_the_same(self) -> None:
        if not self.is_replayable:
            again = TurnMachine(self.first_options)
            assert all(tuple(again.handle(s.event, now=s.now)) == s.effects for s in self.record)
            return
        header = header_line(self.first_options, session_id="laws", version="", began_at=0.0)
        trace = read_trace([header, *map(step_line, self.record), end_line("closed")])
        assert TURN.decode(trace.options) == self.first_options
        for step, recorded in zip(trace.steps, self.record, strict=True):
            assert TURN.decode(step.event) == recorded.event
            assert TURN.decode(TURN.encode(recorded.effects)) == recorded.effects
        assert replay(trace) is None

    def _come_to_rest(self) -> None:
        """The user falls silent and every speech ends: nothing may stay open."""
        self._feed(i.SpeechWithheld(False))
        self.voice(False, 0.0)
        if self.is_manual:
            self._feed(i.TurnCommitRequested())
        self.wait(QUIET)
        self._end_speeches(pause=QUIET)
        assert self.floor.handoffs == [], "a handoff never began"
        assert self.machine.open_turn_id == ""
        assert self.machine.agent_state in (AgentState.IDLE, AgentState.STARTING)
        assert self.machine.user_state in (UserState.IDLE, UserState.AWAY)
        self.wait(QUIET + ALL_WAKE_UPS)
        assert self.machine.next_deadline() is None

    def _end_speeches(self, pause: float = 0.0) -> None:
        ended = self._end_cut(set())
        for handoff in sorted(self.floor.opening):
            self._feed(i.HandoffReady(handoff))
        while (left := self.floor.unfinished) or self.floor.handoff:
            if self.floor.handoff and not self.floor.holder:
                self._feed(i.HandoffEnded(self.floor.handoff))
            else:
                self._feed(i.SpeechEnded(self.floor.holder or left[-1], "completed"))
            ended = self._end_cut(ended)
            self.wait(pause)

    def _end_cut(self, ended: set[str]) -> set[str]:
        over = [speech for speech in self.floor.known if speech in self.floor.over - ended]
        for speech in over:
            self._feed(i.SpeechEnded(speech, "interrupted"))
        return ended | set(over)

    def _check_that_nothing_follows(self) -> None:
        for event in (i.SessionStarting(), i.SessionStarted(), i.SessionClosing(), i.SessionClosed()):
            assert self._feed(event) == []
        for late in (i.UserSpeechStarted(self.now), i.UserFinal(text="late"), i.TextReceived("late")):
            assert self._feed(late) == []
        assert self._feed(i.ParticipantLeft(1.0)) == []
        refused = self._feed(i.SpeechRequested(speech_id="late", kind="say"))
        assert refused == [fx.CancelSpeech("late", "discarded"), fx.ForgetSpeech("late", "discarded")]
        assert self._feed(i.RemoteReplyStarted("late")) == [fx.RefuseRemoteReply("late")]
        assert self._feed(i.HandoffRequested("late")) == [fx.DropHandoff("late")]
        asked = i.PipelineChangeRequested(change_id="late", pipeline="p", within=1.0)
        assert self._feed(asked) == [fx.DropPipeline("late", "closed")]
        assert (self.machine.agent_state, self.machine.next_deadline()) == (AgentState.CLOSED, None)


CALLS = int(os.environ.get("VIVAVOCE_LAWS", "150"))
pytestmark = pytest.mark.timeout(max(240, CALLS))  # a loaded machine; the signal in mid-step looks like a broken law

TurnLaws.TestCase.settings = settings(max_examples=CALLS, stateful_step_count=50, deadline=None)
TestTurnLaws = TurnLaws.TestCase

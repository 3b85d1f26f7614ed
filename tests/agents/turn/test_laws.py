"""Laws that the turn machine keeps for every order of inputs and every delay."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from vivavoce.agents.states import AGENT_TRANSITIONS, USER_TRANSITIONS, AgentState, UserState
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import InterruptionOptions, TurnOptions

TICKS_AT_MOST = 200
"""More deadlines than this in one stretch of time mean that the machine turns in circles."""
QUIET = 20.0
"""Seconds after which nothing may be undecided: more than all limits of an utterance together."""

delays = st.one_of(st.sampled_from([0.0, 0.05, 0.2, 0.3, 0.4, 0.5, 1.0, 3.0]), st.floats(0, 4))
picks = st.integers(0, 1000)


class TurnLaws(RuleBasedStateMachine):
    """Feeds the machine and models what a session may rely on. Words are told apart by numbers: w… must be kept."""

    @initialize(
        enabled=st.sampled_from([True, True, True, False]),
        mode=st.sampled_from(["pause", "immediate"]),
        min_words=st.sampled_from([0, 0, 2]),
        has_detector=st.booleans(),
        remote_decides=st.sampled_from([False, False, True]),
        begins=st.booleans(),
    )
    def begin(
        self, enabled: bool, mode: str, min_words: int, has_detector: bool, remote_decides: bool, begins: bool
    ) -> None:
        self.options = TurnOptions(
            interruption=InterruptionOptions(
                enabled=enabled,
                mode="pause" if mode == "pause" else "immediate",
                min_words=min_words,
                backchannels=frozenset(f"b{n}" for n in range(500)),
            ),
            uses_turn_detector=has_detector,
            remote_decides=remote_decides,
        )
        self.machine = TurnMachine(self.options)
        self.now = 0.0
        self.inputs: list[tuple[i.TurnInput, float]] = []
        self.effects: list[list[fx.Effect]] = []
        self.phase = "new"
        self.counter = 0
        # the floor
        self.known: list[str] = ["ghost"]
        self.protected: set[str] = set()
        self.holder = ""
        self.paused = ""
        self.is_playing = False
        self.granted: set[str] = set()
        self.over: set[str] = set()
        # the user
        self.is_speaking = False
        self.told: list[str] = []
        self.taken_back: set[str] = set()
        self.items: dict[str, str] = {}
        self.asides: dict[str, str] = {}
        self.owed_answers: set[str] = set()
        self.agent, self.user = AgentState.IDLE, UserState.IDLE
        self.state_at = {"agent": 0.0, "user": 0.0}
        self.feed(i.SessionStarting())
        if begins:
            self.feed(i.SessionStarted())

    # --- feeding and watching

    def feed(self, event: i.TurnInput) -> list[fx.Effect]:
        self.inputs.append((event, self.now))
        self._model(event)
        effects = self.machine.handle(event, now=self.now)
        self.effects.append(effects)
        for effect in effects:
            self._watch(effect)
        return effects

    def _model(self, event: i.TurnInput) -> None:
        match event:
            case i.SessionStarting():
                self.phase = "open"
            case i.SessionClosing():
                self.phase, self.is_speaking = "closing", False
            case i.SessionClosed():
                self.phase = "closed"
            case i.UserSpeechStarted():
                self.is_speaking = self.phase == "open"
            case i.UserSpeechEnded() | i.ParticipantLeft():
                self.is_speaking = False
            case i.PlayoutStarted(speech_id=speech) if speech == self.holder:
                self.is_playing = True
            case i.PlayoutFinished(speech_id=speech) if speech == self.holder:
                self.is_playing = False
                if event.is_last:
                    self.over.add(self.holder)
                    self.holder = ""
            case i.ToolsAwaited(speech_id=speech) if speech == self.holder:
                self.holder, self.is_playing = "", False
            case i.SpeechEnded(speech_id=speech):
                self.over.add(speech)
                self.paused = "" if speech == self.paused else self.paused
                if speech == self.holder:
                    self.holder, self.is_playing = "", False

    def _watch(self, effect: fx.Effect) -> None:
        match effect:
            case fx.GrantFloor(speech_id=speech):
                assert not self.holder, "two speeches have the floor"
                assert speech not in self.over, "a speech that is over got the floor"
                self.holder, self.is_playing = speech, False
                self.granted.add(speech)
            case fx.CancelSpeech(speech_id=speech):
                assert speech not in self.over, "a speech ends twice"
                self.over.add(speech)
                self.paused = "" if speech == self.paused else self.paused
                if speech == self.holder:
                    self.holder, self.is_playing = "", False
            case fx.PauseSpeech(speech_id=speech):
                assert (speech, "") == (self.holder, self.paused)
                assert speech not in self.protected
                self.paused = speech
            case fx.ResumeSpeech(speech_id=speech):
                assert speech == self.paused
                self.paused = ""
            case fx.SetAgentState():
                assert effect.old is self.agent
                assert effect.state in AGENT_TRANSITIONS[effect.old]
                self.agent = effect.state
                self._watch_time("agent", effect.at)
            case fx.SetUserState():
                assert effect.old is self.user
                assert effect.state in USER_TRANSITIONS[effect.old]
                self.user = effect.state
                self._watch_time("user", effect.at)
            case _:
                self._watch_words(effect)

    def _watch_time(self, who: str, at: float) -> None:
        assert self.state_at[who] <= at <= self.now
        self.state_at[who] = at

    def _watch_words(self, effect: fx.Effect) -> None:
        match effect:
            case fx.CommitUserTurn(turn_id=turn):
                assert effect.merged == (turn in self.items), "a turn merges with its own message or makes one"
                assert effect.timing.committed_at == self.now
                assert effect.timing.speech_ended_at <= self.now
                self.items[turn] = effect.text
                self.known.append(effect.speech_id)
                self.owed_answers.discard(turn)
            case fx.AmendUserTurn(turn_id=turn):
                kept = self.items if turn in self.items else self.asides
                assert turn in kept
                kept[turn] = effect.text
            case fx.AddBackchannel(turn_id=turn):
                assert turn not in self.asides
                self.asides[turn] = effect.text

    # --- time

    @rule(seconds=delays)
    def wait(self, seconds: float) -> None:
        end, ticks = self.now + seconds, 0
        while (deadline := self.machine.next_deadline()) is not None and deadline <= end:
            self.now = max(deadline, self.now)
            self.feed(i.Tick())
            ticks += 1
            assert ticks < TICKS_AT_MOST
        self.now = end

    @rule()
    def tick(self) -> None:
        self.feed(i.Tick())

    # --- the user

    @rule(ago=st.floats(-0.1, 0.5))
    def start_speaking(self, ago: float) -> None:
        self.feed(i.UserSpeechStarted(self.now - ago))

    @rule(ago=st.floats(-0.1, 0.5))
    def stop_speaking(self, ago: float) -> None:
        self.feed(i.UserSpeechEnded(self.now - ago))

    @rule(pause=delays, ago=st.floats(0, 0.2))
    def utter(self, pause: float, ago: float) -> None:
        """A whole burst of speech, with words at its end."""
        self.start_speaking(0.05)
        self.wait(pause)
        self.stop_speaking(ago)
        self.say_final(is_backchannel=False)

    @rule(is_backchannel=st.booleans())
    def say_final(self, is_backchannel: bool) -> None:
        self._tell("b" if is_backchannel else "w")

    @rule()
    def say_final_after_its_interim(self) -> None:
        """The final of the last interim, which may be committed by now."""
        self._tell("w", before=f"i{self.counter} ")

    @rule()
    def say_interim(self) -> None:
        self.counter += 1
        self.feed(i.UserInterim(text=f"i{self.counter}"))

    @rule(is_final=st.booleans())
    def say_nothing(self, is_final: bool) -> None:
        self.feed(i.UserFinal(text="") if is_final else i.UserInterim(text=""))

    @rule(text=st.booleans())
    def type(self, text: bool) -> None:
        if text:
            word = self._new_word("w")
            self.feed(i.TextReceived(f" {word} "))
        else:
            self.feed(i.TextReceived(" "))

    def _tell(self, kind: str, before: str = "") -> None:
        self.feed(i.UserFinal(text=f"{before}{self._new_word(kind)}"))

    def _new_word(self, kind: str) -> str:
        self.counter += 1
        word = f"{kind}{self.counter}"
        if self.phase == "open":
            self.told.append(word)
        return word

    @rule(complete=st.booleans())
    def judge_pause(self, complete: bool) -> None:
        self.feed(i.UserTurnPredicted(complete))

    @rule()
    def end_turn_by_recogniser(self) -> None:
        self.feed(i.UserTurnEnded())

    @rule()
    def commit_turn(self) -> None:
        self.feed(i.TurnCommitRequested())

    @rule()
    def clear_turn(self) -> None:
        kept = self._kept_words()
        self.taken_back |= {word for word in self.told if word not in kept}
        self.feed(i.TurnClearRequested())

    @rule()
    def begin_remote_reply(self) -> None:
        self.counter += 1
        remote = f"remote_{self.counter}"
        effects = self.feed(i.RemoteReplyStarted(remote))
        refused = [e for e in effects if isinstance(e, fx.RefuseRemoteReply) and e.remote_reply_id == remote]
        taken = [e for e in effects if isinstance(e, fx.CommitUserTurn) and e.remote_reply_id == remote]
        assert len(refused) + len(taken) == 1
        if taken:
            self.is_speaking = False

    @rule(grace=st.sampled_from([None, 1.0]), returns=st.booleans())
    def leave(self, grace: float | None, returns: bool) -> None:
        self.feed(i.ParticipantLeft(grace))
        if returns:
            self.feed(i.ParticipantLinked())

    # --- the agent

    @rule(
        kind=st.sampled_from(["say", "reply"]),
        interruptible=st.sampled_from([True, True, False]),
        priority=st.integers(-1, 1),
        when_busy=st.sampled_from(["queue", "discard", "interrupt"]),
    )
    def request(self, kind: i.SpeechKind, interruptible: bool, priority: int, when_busy: i.WhenBusy) -> None:
        self.counter += 1
        speech = f"speech_{self.counter}"
        self.known.append(speech)
        if not interruptible:
            self.protected.add(speech)
        self.feed(
            i.SpeechRequested(
                speech_id=speech, kind=kind, interruptible=interruptible, priority=priority, when_busy=when_busy
            )
        )

    def _pick(self, pick: int, holder: bool) -> str:
        return self.holder if holder and self.holder else self.known[-1 - pick % len(self.known)]

    @rule(pick=picks, holder=st.sampled_from([True, True, False]))
    def play(self, pick: int, holder: bool) -> None:
        self.feed(i.PlayoutStarted(self._pick(pick, holder), self.now))

    @rule(pick=picks, holder=st.sampled_from([True, True, False]), is_last=st.booleans())
    def finish_playing(self, pick: int, holder: bool, is_last: bool) -> None:
        self.feed(i.PlayoutFinished(self._pick(pick, holder), self.now, is_last))

    @rule(pick=picks, holder=st.booleans())
    def start_tools(self, pick: int, holder: bool) -> None:
        self.feed(i.ToolsStarted(self._pick(pick, holder)))

    @rule(pick=picks, holder=st.booleans())
    def await_tools(self, pick: int, holder: bool) -> None:
        self.feed(i.ToolsAwaited(self._pick(pick, holder)))

    @rule(pick=picks)
    def finish_tools(self, pick: int) -> None:
        self.feed(i.ToolsFinished(self._pick(pick, holder=False)))

    @rule(
        pick=picks,
        holder=st.booleans(),
        outcome=st.sampled_from(["completed", "failed", "discarded"]),
        component=st.sampled_from(["llm", "tts"]),
    )
    def end(self, pick: int, holder: bool, outcome: i.EndedAs, component: str) -> None:
        self.feed(i.SpeechEnded(self._pick(pick, holder), outcome, component))

    @rule(pick=picks, is_session=st.booleans(), force=st.booleans())
    def interrupt(self, pick: int, is_session: bool, force: bool) -> None:
        held_by = self.holder
        self.feed(i.InterruptRequested(force=force, speech_id="" if is_session else self._pick(pick, holder=False)))
        if held_by in self.protected and not force:
            assert self.holder == held_by

    # --- the session

    @rule()
    def finish_start(self) -> None:
        self.feed(i.SessionStarted())

    @rule(sure=st.integers(0, 20))
    def close(self, sure: int) -> None:
        if sure == 0:
            self.feed(i.SessionClosing())

    # --- the laws

    @invariant()
    def the_floor_is_where_it_was_given(self) -> None:
        assert self.machine.current_speech_id == self.holder

    @invariant()
    def a_pause_does_not_outlast_its_speech(self) -> None:
        assert self.paused in ("", self.holder)

    @invariant()
    def the_agent_speaks_only_while_frames_play(self) -> None:
        if self.phase == "open":
            assert (self.machine.agent_state is AgentState.SPEAKING) == self.is_playing

    @invariant()
    def states_are_those_told(self) -> None:
        assert (self.machine.agent_state, self.machine.user_state) == (self.agent, self.user)

    @invariant()
    def deadlines_are_ahead_and_none_after_close(self) -> None:
        deadline = self.machine.next_deadline()
        assert deadline is None or deadline > self.now
        assert deadline is None or self.phase == "open"

    @invariant()
    def a_quiet_user_is_not_left_undecided(self) -> None:
        if self.machine.open_turn_id and not self.is_speaking:
            may_wait = self.holder in self.protected or (self.holder and not self.options.interruption.enabled)
            assert may_wait or self.machine.next_deadline() is not None

    @invariant()
    def no_word_is_in_two_messages(self) -> None:
        kept = [word for word in self._kept_words() if word[0] in "wb"]
        assert len(kept) == len(set(kept))

    def _kept_words(self) -> list[str]:
        return " ".join([*self.items.values(), *self.asides.values()]).split()

    def teardown(self) -> None:
        if not hasattr(self, "machine"):
            return
        if self.phase == "open":
            self._come_to_rest()
        self.feed(i.SessionClosing())
        assert set(self.known) - self.over <= {"ghost"}, "a speech was never ended"
        missing = set(self.told) - self.taken_back - set(self._kept_words())
        assert not missing, f"words were lost: {missing}"
        self.feed(i.SessionClosed())
        self._feed_after_close()
        replayed = TurnMachine(self.options)
        assert [replayed.handle(event, now=at) for event, at in self.inputs] == self.effects

    def _come_to_rest(self) -> None:
        """Let the user fall silent and every speech end: nothing may stay open."""
        self.stop_speaking(0.0)
        for _ in range(100):
            self.wait(QUIET)
            left = [speech for speech in self.known if speech not in self.over]
            if not left:
                break
            self.feed(i.SpeechEnded(self.holder or left[-1], "completed"))
        self.wait(QUIET)
        assert self.machine.open_turn_id == ""
        assert self.machine.agent_state in (AgentState.IDLE, AgentState.STARTING)
        assert self.machine.user_state is UserState.IDLE
        assert self.machine.next_deadline() is None

    def _feed_after_close(self) -> None:
        for event in (
            i.SessionStarting(),
            i.SessionStarted(),
            i.SessionClosing(),
            i.SessionClosed(),
            i.UserSpeechStarted(self.now),
            i.UserFinal(text="late"),
            i.TextReceived("late"),
            i.ParticipantLeft(1.0),
        ):
            assert self.feed(event) == []
        self.counter += 1
        late = i.SpeechRequested(speech_id="late", kind="say")
        assert self.feed(late) == [fx.CancelSpeech("late", "discarded")]
        assert self.feed(i.RemoteReplyStarted("late")) == [fx.RefuseRemoteReply("late")]
        assert (self.agent, self.machine.next_deadline()) == (AgentState.CLOSED, None)


TurnLaws.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestTurnLaws = TurnLaws.TestCase

"""The guarantees of a turn machine, as models beside it: the floor, the user's words, the states, silence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from vivavoce.agents.states import AGENT_TRANSITIONS, USER_TRANSITIONS, AgentState, UserState
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.pipelines.core.words import same_words
from vivavoce.pipelines.events import LATE_WORDS


class FloorWatch:
    """One speech at most has the floor; each ends once; pauses belong to the speech with the floor."""

    def __init__(self) -> None:
        self.known: list[str] = ["ghost"]
        self.protected: set[str] = set()
        self.over: set[str] = set()
        self.holder = self.paused = ""
        self.is_playing = False
        self.hooks: set[str] = set()
        self._begun: set[str] = set()
        self._withdrawn: set[str] = set()
        self._forgotten: set[str] = set()
        self._reported = ""
        self.handoff = ""
        self.handoffs: list[str] = []
        self.opening: set[str] = set()
        """The handoffs whose components are being opened."""
        self._asked_behind: dict[str, set[str]] = {}
        """Speeches that were asked for behind handoffs."""
        self._begin_tasks: set[str] = set()
        self.behind: dict[str, str] = {}
        """Speeches that wait for the end of a task, by the handoff that began it."""
        self._is_forced = False
        self._is_nobody_there = False
        self._is_withheld = self._has_closed = False

    @property
    def unfinished(self) -> list[str]:
        """Speeches that neither ended nor were cancelled."""
        return [speech for speech in self.known if speech not in self.over]

    def sees_input(self, event: i.TurnInput) -> None:
        """Follow the reports of a speech."""
        self._reported = event.speech_id if isinstance(event, i.SpeechEnded) else ""
        self._is_forced = isinstance(event, i.SessionClosing | i.SessionClosed) or (
            isinstance(event, i.InterruptRequested) and event.force
        )
        match event:
            case i.ParticipantLeft() | i.ParticipantLinked():
                self._is_nobody_there = isinstance(event, i.ParticipantLeft) and event.grace is not None
            case i.PlayoutStarted(speech_id=speech) if speech == self.holder:
                self.is_playing = True
            case i.PlayoutFinished(speech_id=speech) if speech == self.holder:
                self.is_playing = False
                if event.is_last:
                    self.over.add(speech)
                    self.holder = ""
            case i.ToolsAwaited(speech_id=speech) | i.FloorYielded(speech_id=speech) if speech == self.holder:
                self.holder, self.is_playing = "", False
            case i.SpeechEnded(speech_id=speech):
                self._end(speech)
            case i.HandoffRequested(handoff_id=handoff):
                self.handoffs.append(handoff)
                self.opening |= {handoff} if event.opens else set()
                self._begin_tasks |= {handoff} if event.begins_task else set()
            case i.HandoffReady(handoff_id=handoff):
                self.opening.discard(handoff)
            case i.SpeechWithheld(is_withheld=is_withheld):
                self._is_withheld = is_withheld and not self._has_closed
            case i.SessionClosing() | i.SessionClosed():
                self._is_withheld, self._has_closed = False, True
            case i.SpeechRequested(speech_id=speech) if event.priority <= 0 and not (event.hook_of or event.by_hook):
                self._asked_behind[speech] = set(self.handoffs)
            case i.HandoffEnded(handoff_id=handoff):
                self.behind = {speech: task for speech, task in self.behind.items() if task != event.ends_task}
                self.handoff = "" if handoff == self.handoff else self.handoff

    def sees_effect(self, effect: fx.Effect) -> None:
        """Check an effect on a speech."""
        match effect:
            case fx.CommitUserTurn(speech_id=speech):
                assert speech not in self.known
                self.known.append(speech)
            case fx.AnswerHistory(speech_id=speech):
                assert speech not in self.known
                self.known.append(speech)
            case fx.GrantFloor(speech_id=speech):
                assert not self.holder, "two speeches have the floor"
                assert not self._is_withheld, "a speech begins while speech is withheld"
                assert not self.handoff or speech in self.hooks, "a speech gets the floor that a handoff holds"
                assert speech not in self.over, "a speech that is over got the floor"
                assert speech not in self.behind, "a speech behind a task gets the floor"
                assert not self._asked_behind.get(speech, set()) & set(self.handoffs), "a speech goes before a handoff"
                self._begun.add(speech)
                self.holder, self.is_playing = speech, False
            case fx.BeginHandoff(handoff_id=handoff):
                assert not self.holder, "a handoff begins while somebody speaks"
                assert not self.handoff, "two handoffs at a time"
                assert handoff not in self.opening, "a handoff begins before its components are open"
                self.handoffs.remove(handoff)
                self.handoff = handoff
                if handoff in self._begin_tasks:
                    self.behind = dict.fromkeys(self._begun - self.over, handoff) | self.behind
            case fx.DropHandoff(handoff_id=handoff):
                if handoff == self.handoff:
                    self.handoff = ""
                else:
                    self.handoffs.remove(handoff)
            case fx.CancelSpeech(speech_id=speech):
                assert speech not in self.over, "a speech ends twice"
                assert self._is_forced or speech not in self.protected or effect.outcome == "discarded"
                self._end(speech)
                if effect.is_withdrawn:
                    self._withdrawn.add(speech)
            case fx.PrepareSpeech(speech_id=speech):
                assert speech not in self.behind, "a speech behind a task generates"
                self._begun.add(speech)
            case fx.ForgetSpeech(speech_id=speech):
                assert speech in self.over, "a speech that goes on is forgotten"
                assert speech not in self._forgotten, "a speech is forgotten twice"
                assert speech == self._reported or speech not in self._begun, "a speech at work is forgotten"
                assert effect.is_withdrawn == (speech in self._withdrawn)
                assert effect.outcome == "cancelled" or not effect.is_withdrawn
                self._forgotten.add(speech)
                self.behind.pop(speech, None)
            case fx.PauseSpeech(speech_id=speech):
                assert (speech, "") == (self.holder, self.paused)
                assert speech not in self.protected or self._is_nobody_there
                self.paused = speech
            case fx.ResumeSpeech(speech_id=speech):
                assert speech == self.paused
                assert speech != self.holder or not self._is_nobody_there, "a speech goes on for nobody"
                self.paused = ""

    def check(self, machine: TurnMachine) -> None:
        """The floor is where it was given, and a pause does not outlast its speech."""
        assert machine.current_speech_id == self.holder
        assert self.paused in ("", self.holder)
        assert self.over - self._begun - {"ghost"} <= self._forgotten, "a speech that never began outlives its end"

    def check_all_forgotten(self) -> None:
        """Each speech is forgotten once it has reported its end."""
        assert self._forgotten == self.over - {"ghost"}, "a speech that is over is remembered"

    def _end(self, speech: str) -> None:
        self.over.add(speech)
        if speech == self.paused:
            self.paused = ""
        if speech == self.holder:
            self.holder, self.is_playing = "", False


class CallerWatch:
    """The floor is the caller's while their turn is open; only speech requested before its onset is dropped for it.

    Text that is typed over a sound makes it noise until a word of it comes, where the recogniser shows words.

    Args:
        may_speak_over: Whether that speech may begin over the caller.
    """

    def __init__(self, options: TurnOptions, may_speak_over: Callable[[str], bool]) -> None:
        self._max_pause = float("inf")
        self.takes(options)
        self._may_speak_over = may_speak_over
        self._onsets: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        self._begun: set[str] = set()
        self._turn = ""
        self._is_typed_over = False

    def takes(self, options: TurnOptions) -> None:
        """Follow these options from now on; sound that was noise by those before is noise still."""
        is_manual = options.endpointing.mode == "manual"
        self._is_always_held = not (is_manual or options.traits.remote_decides)
        self._shows_words = options.traits.emits_interims
        self._max_pause = min(self._max_pause, options.interruption.max_pause or float("inf"))

    def sees(self, event: i.TurnInput, effects: list[fx.Effect], turn: str, now: float) -> None:
        """Follow one step, after which that turn is open."""
        onset = min(event.at, now) if isinstance(event, i.UserSpeechStarted) else now
        if turn and turn != self._turn:
            self._onsets.setdefault(turn, onset)
        if isinstance(event, i.SpeechRequested):
            self._asked[event.speech_id] = now
        if isinstance(event, i.SpeechWithheld) and not event.is_withheld:  # what waited counts as asked for now
            self._asked |= dict.fromkeys(set(self._asked) - self._begun, now)
        self._begun |= {one.speech_id for one in effects if isinstance(one, fx.GrantFloor)}
        if isinstance(event, i.TextReceived):
            self._is_typed_over = self._shows_words
        elif turn != self._turn or (isinstance(event, i.UserInterim | i.UserFinal) and event.text):
            self._is_typed_over = False
        is_held = self._is_always_held and not self._is_typed_over and turn != "" and turn == self._turn
        for effect in effects:
            if isinstance(effect, fx.GrantFloor) and is_held and now < round(self._onsets[turn] + self._max_pause, 9):
                assert self._may_speak_over(effect.speech_id), "speech begins over the caller"
        self._turn = turn

    def was_asked_since(self, speech: str) -> bool:
        """Whether that speech was asked for after the onset of the open turn."""
        return bool(self._turn) and self._asked.get(speech, -1.0) >= self._onsets[self._turn]


class WordWatch:
    """Every word of a final is in one message in the end; w… and b… are such words, i… only guesses at them."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.taken_back: set[str] = set()
        self._turns: dict[str, str] = {}
        self._asides: dict[str, str] = {}
        self._answered: dict[str, str] = {}
        self._unanswered: set[str] = set()
        self._merges: Counter[str] = Counter()
        self._replaced_at = float("-inf")
        self._is_past = False

    def sees_input(self, event: i.TurnInput, now: float) -> None:
        """Follow whose words they are."""
        self._is_past = isinstance(event, i.UserFinal) and event.is_past
        if isinstance(event, i.RecogniserReplaced):
            self._replaced_at = now

    def take_back(self) -> None:
        """The application clears the open turn: words in no message yet may go."""
        self.taken_back.update(set(self.told) - set(self._kept()))

    def sees_effect(self, effect: fx.Effect, now: float) -> None:
        """Follow the messages."""
        if isinstance(effect, fx.TakePipeline):
            self._replaced_at = now
        match effect:
            case fx.CommitUserTurn(turn_id=turn):
                assert effect.merged == (turn in self._turns), "a turn merges with its own message or makes one"
                timing = effect.timing
                assert timing.speech_ended_at <= timing.committed_at == now
                assert (timing.delay is not None) == (timing.ended_by in ("pause", "transcript_timeout"))
                assert timing.committed_at - timing.speech_ended_at >= (timing.delay or 0.0) - 1e-6
                if effect.amends:
                    assert effect.amends in self._turns, "a turn amends a message that there is"
                    assert not effect.merged
                    del self._turns[effect.amends]
                self._turns[turn] = effect.text
                self._answered[effect.speech_id] = turn
                self._merges[turn] += effect.merged
                self._unanswered.discard(turn)
            case fx.CancelSpeech(speech_id=speech) if effect.is_withdrawn:
                self._unanswered.add(self._answered[speech])
            case fx.AmendUserTurn(turn_id=turn):
                kept = self._turns if turn in self._turns else self._asides
                assert turn in kept
                kept[turn] = effect.text
                if self._is_past:
                    assert now <= self._replaced_at + LATE_WORDS, (
                        "no recogniser that was replaced has words for so long"
                    )
            case fx.AddBackchannel(turn_id=turn):
                assert turn not in self._asides
                self._asides[turn] = effect.text

    def may_be_kept(self, speech: str) -> bool:
        """Whether that answer may be one that words do not take back, because its turn has merged twice."""
        return self._merges[self._answered.get(speech, "")] >= 2

    def check(self) -> None:
        """No word is in two messages."""
        kept = [word for word in self._kept() if word[0] in "wb"]
        assert len(kept) == len(set(kept))

    def check_all_kept(self) -> None:
        """No word is lost, and no turn whose answer was taken back is left without one."""
        assert not self._unanswered
        missing = set(self.told) - self.taken_back - set(self._kept())
        assert not missing, f"words were lost: {missing}"

    def _kept(self) -> list[str]:
        return " ".join([*self._turns.values(), *self._asides.values()]).split()


class AttemptWatch:
    """One attempt at most is alive; each is dropped, or committed with its words, once."""

    def __init__(self, max_attempts: int) -> None:
        self.alive: fx.StartAttempt | None = None
        self._most = max_attempts
        self._begun: dict[str, int] = {}
        self._ids: set[str] = set()

    def sees_effect(self, effect: fx.Effect) -> None:
        """Follow the attempt."""
        match effect:
            case fx.StartAttempt():
                assert self.alive is None
                assert effect.attempt_id not in self._ids
                assert effect.text
                self.alive = effect
                self._ids.add(effect.attempt_id)
                self._begun[effect.turn_id] = self._begun.get(effect.turn_id, 0) + 1
                assert self._begun[effect.turn_id] <= self._most
            case fx.DropAttempt():
                assert self.alive is not None
                assert effect.attempt_id == self.alive.attempt_id
                self.alive = None
            case fx.CommitUserTurn() if effect.attempt_id:
                assert self.alive is not None
                assert (effect.attempt_id, effect.turn_id) == (self.alive.attempt_id, self.alive.turn_id)
                assert same_words(effect.text, self.alive.text)
                self.alive = None

    def sees_step(self, event: i.TurnInput) -> None:
        """No attempt is alive after the step in which the recogniser took an eager end back."""
        if isinstance(event, i.UserTurnResumed):
            assert self.alive is None

    def check(self, machine: TurnMachine, *, holder: str) -> None:
        """An attempt belongs to the open turn, and no speech has the floor."""
        if self.alive is not None:
            assert self.alive.turn_id == machine.open_turn_id
            assert not holder


class StateWatch:
    """States change along the tables, forwards in time, and are the reported ones; the user's speech as the VAD reports
    it.
    """

    def __init__(self) -> None:
        self.agent, self.user = AgentState.IDLE, UserState.IDLE
        self.phase = "new"
        self.is_user_speaking = self._hears_out = False
        self._agent_at = self._user_at = 0.0

    def sees_input(self, event: i.TurnInput) -> None:
        """Follow the session and the VAD."""
        match event:
            case i.SessionStarting() if self.phase == "new":
                self.phase = "open"
            case i.SessionClosing() if self.phase != "closed":
                self.phase, self.is_user_speaking = "closing", False
                self._hears_out = event.hears_out  # words that were committed as a guess are waited for too
            case i.SessionClosed():
                self.phase = "closed"
            case i.UserSpeechStarted():
                self.is_user_speaking = self.phase == "open"
            case i.UserSpeechEnded() | i.UserAudioStopped() | i.ParticipantLeft():
                self.is_user_speaking = False

    def sees_effect(self, effect: fx.Effect, now: float) -> None:
        """Check a change."""
        match effect:
            case fx.SetAgentState():
                assert effect.old is self.agent
                assert effect.state in AGENT_TRANSITIONS[effect.old]
                assert self._agent_at <= effect.at <= now
                self.agent, self._agent_at = effect.state, effect.at
            case fx.SetUserState():
                assert effect.old is self.user
                assert effect.state in USER_TRANSITIONS[effect.old]
                assert self._user_at <= effect.at <= now
                self.user, self._user_at = effect.state, effect.at
            case fx.CommitUserTurn() if effect.remote_reply_id:
                self.is_user_speaking = False

    def check(self, machine: TurnMachine, *, is_playing: bool, may_wait: bool, now: float) -> None:
        """The agent speaks while frames play; deadlines are ahead, and there while a quiet user is undecided."""
        assert (machine.agent_state, machine.user_state) == (self.agent, self.user)
        deadline = machine.next_deadline()
        assert deadline is None or deadline > now
        if self.phase != "open":
            assert deadline is None or (self.phase == "closing" and self._hears_out)
            return
        assert (self.agent is AgentState.SPEAKING) == is_playing
        if machine.open_turn_id and not self.is_user_speaking:
            assert may_wait or deadline is not None

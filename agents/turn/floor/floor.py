"""Floor: which speech has the floor and which ones wait, or which handoff. Bookkeeping; others decide on it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from vivavoce.agents.turn.effects import CancelSpeech, Cause, Effect, ForgetSpeech, StoppedAs
from vivavoce.agents.turn.inputs import EndedAs, SpeechKind, SpeechRequested

Phase = Literal["queued", "lapsed", "prepared", "active", "tools", "ending"]


@dataclass(slots=True)
class Speech:
    """One `say`, `reply` or answer, from its request to its end.

    Args:
        order: Arrival; ties of priority go by it.
        phase: Waiting for the floor: idle, out of date since the tool call that asked for it has settled, or at work
            already; on the floor; waiting for its tools without it; cancelled, or played to its end.
        playing_since: When the present step's first frame was played; None before it and after its last one.
        has_used_tools: A tool call of it has started.
        paused_at: Since when its playout is held, from before it began or in the middle.
        held_for: Seconds for which sounds without a word have held it since the user's last word.
        turn_id, text: The user turn that it answers.
        is_owed: That turn was cut by a limit, or the answer is kept: until its first sound, no words take it back.
        is_kept: The turn has merged as often as it may after long pauses; a voice may hold the answer all the same.
        turn_ended_at: When the caller had ended that turn.
        late_merges: How often that turn has merged after a long pause.
        audible_since: When its very first frame was played.
        asked: The request; None for the answer to a user turn.
        asked_at: When it came; for the answer to a user turn, the onset of that.
        onset: The true onset of the user turn that it answers; None where the user did not speak.
        has_begun: It was granted the floor, or let generate: it reports its end itself.
        is_withdrawn: Its turn went on, so that its outcome is not the turn's.
        has_foreword: Other speech was heard since it was asked for, so that its turn does not go on any more.
        behind: The task, by its handoff, that has taken the conversation since; empty if none. Until that is over the
            speech neither gets the floor nor counts.
    """

    speech_id: str
    kind: SpeechKind
    interruptible: bool
    priority: int
    order: int
    phase: Phase = "queued"
    playing_since: float | None = None
    has_used_tools: bool = False
    paused_at: float | None = None
    turn_id: str = ""
    text: str = field(default="", repr=False)
    is_owed: bool = False
    is_kept: bool = False
    turn_ended_at: float = 0.0
    late_merges: int = 0
    audible_since: float | None = None
    held_for: float = 0.0
    asked: SpeechRequested | None = field(default=None, repr=False)
    asked_at: float = 0.0
    onset: float | None = None
    has_foreword: bool = False
    has_begun: bool = False
    is_withdrawn: bool = False
    behind: str = ""

    @property
    def hook_of(self) -> str:
        """The answer whose turn's hook requested it: it is heard before that."""
        return "" if self.asked is None else self.asked.hook_of

    @property
    def speaks_over(self) -> bool:
        """Whether it was asked for with "interrupt".

        Where that was in the caller's turn, voices that began before its first sound neither hold nor cut it.
        """
        return self.asked is not None and self.asked.when_busy == "interrupt"

    @property
    def is_whole(self) -> bool:
        """Whether all of its words are known before it is spoken."""
        return self.kind == "say" and self.asked is not None and self.asked.is_whole

    @property
    def by_hook(self) -> bool:
        """Whether a hook of an agent that comes or goes asked for it."""
        return self.asked is not None and self.asked.by_hook

    @property
    def is_playing(self) -> bool:
        """Whether it sounds, or is paused in the middle."""
        return self.playing_since is not None

    @property
    def was_audible(self) -> bool:
        """Whether any frame of it was played."""
        return self.audible_since is not None

    @property
    def is_paused(self) -> bool:
        """Whether its playout is held."""
        return self.paused_at is not None

    @property
    def is_unheard_answer(self) -> bool:
        """Whether it answers a user turn that may still go on: nothing was heard, no tool called, not protected."""
        is_begun = self.was_audible or self.has_used_tools or self.has_foreword
        return self.kind == "turn" and self.interruptible and not is_begun and not self.is_owed

    @property
    def is_for_caller(self) -> bool:
        """Whether it is the answer to a user turn, or its hook's."""
        return self.kind == "turn" or bool(self.hook_of)

    def goes_before(self, order: int) -> bool:
        """Whether it is spoken before a request of that place in the queue, which has no priority."""
        return (-self.priority, self.order) <= (0, order)

    def leave_floor(self, phase: Phase) -> None:
        """It sounds no more and holds nothing."""
        self.phase = phase
        self.playing_since = self.paused_at = None


class Floor:
    """At most one speech is active; the others wait by priority, then arrival, and so do handoffs, by arrival.

    A handoff that has begun holds the floor: only speech of its hooks gets it. A handoff that begins a task leaves
    the speech at work behind the task, until that is over.

    Args:
        out: Effects go here.
    """

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._speeches: dict[str, Speech] = {}
        self._arrivals = 0
        self.now = 0.0
        """Session clock of the present step."""
        self.handoffs: dict[str, int] = {}
        """Those that wait, with their arrival."""
        self.handoff = ""
        """The one that holds the floor."""
        self._opening: set[str] = set()
        """Those of them whose components are being opened."""
        self._tasks: set[str] = set()
        """The handoffs that wait and begin a task."""
        self._ending: set[str] = set()
        """The tasks that are about to give the conversation back, by the handoffs that began them."""
        self.was_handoff_heard = False
        """Whether anything of that one was heard."""
        self.last_ended_at = float("-inf")
        """End of the last speech, with any outcome, or handoff."""

    def begin_step(self, now: float) -> None:
        """A step of the machine begins."""
        self.now = now

    def add(
        self,
        speech_id: str,
        kind: SpeechKind,
        *,
        interruptible: bool = True,
        priority: int = 0,
        turn_id: str = "",
        text: str = "",
        asked: SpeechRequested | None = None,
    ) -> Speech:
        """Queue a new speech and return it; that of a turn's hook, or a body, takes the place before the answer."""
        order = self.next_order()
        if asked is not None and (answer := self._answer_behind(asked)) is not None:
            order = answer.order
            priority = max(priority, answer.priority) if asked.by_body else answer.priority
        speech = self._speeches[speech_id] = Speech(
            speech_id, kind, interruptible, priority, order, turn_id=turn_id, text=text, asked=asked
        )
        return speech

    def _answer_behind(self, asked: SpeechRequested) -> Speech | None:
        """Return the answer that waits for the code which asked for that speech."""
        if not asked.by_body:
            return self.get(asked.hook_of)
        answers = [s for s in self.present if s.kind == "turn" and s.phase != "tools" and not s.was_audible]
        return min(answers, key=lambda s: s.order, default=None)

    def add_handoff(
        self, handoff_id: str, *, begins_task: bool = False, ends_task: str = "", opens: bool = False
    ) -> None:
        """Queue a handoff, which does not begin before `handoff_ready` if it `opens` components."""
        self.handoffs[handoff_id] = self.next_order()
        if opens:
            self._opening.add(handoff_id)
        if ends_task:
            self._ending.add(ends_task)
        if begins_task:
            self._tasks.add(handoff_id)

    def handoff_ready(self, handoff_id: str) -> None:
        """The components of that handoff are open, or cannot be had: it begins in its turn."""
        self._opening.discard(handoff_id)

    def begin_handoff(self, handoff_id: str) -> None:
        """Give the floor to a handoff that waits."""
        del self.handoffs[handoff_id]
        self.handoff, self.was_handoff_heard = handoff_id, False
        if handoff_id in self._tasks:
            self._tasks.remove(handoff_id)
            for speech in self.present:
                if speech.has_begun:
                    speech.behind = handoff_id

    def handoff_sounds(self) -> None:
        """Note that the caller hears speech; during a handoff it is that of its hooks."""
        self.was_handoff_heard = True

    def end_handoff(self) -> None:
        """The handoff that holds the floor has ended."""
        self.handoff, self.last_ended_at = "", self.now

    def end_task(self, handoff_id: str) -> None:
        """The task that this handoff began is over: speech that it left behind goes on."""
        self._ending.discard(handoff_id)
        for speech in self._speeches.values():
            if speech.behind == handoff_id:
                speech.behind = ""

    def drop_handoffs(self) -> list[str]:
        """Forget all handoffs; return the one that holds the floor, then those that wait."""
        dropped = [self.handoff, *self.handoffs] if self.handoff else list(self.handoffs)
        self.handoff = ""
        self.handoffs.clear()
        self._opening.clear()
        self._tasks.clear()
        self._ending.clear()
        return dropped

    def next_order(self) -> int:
        """Return the place in the queue of a request that arrives now."""
        self._arrivals += 1
        return self._arrivals

    def get(self, speech_id: str) -> Speech | None:
        """Return the speech if it is not over."""
        return self._speeches.get(speech_id)

    def lapse(self, call_id: str) -> None:
        """A tool call is over: speech that it asked for and that still waits is out of date."""
        for speech in self._speeches.values():
            if speech.phase == "queued" and speech.asked is not None and speech.asked.from_call == call_id:
                speech.phase = "lapsed"

    def stop(
        self, speech: Speech, outcome: StoppedAs, *, is_withdrawn: bool = False, cause: Cause | None = None
    ) -> None:
        """Cancel a speech; one that has begun reports its end later, one that has not is over now."""
        speech.leave_floor("ending")
        speech.is_withdrawn = is_withdrawn
        self._out.append(CancelSpeech(speech.speech_id, outcome, is_withdrawn, cause))
        if not speech.has_begun:
            self.forget(speech, outcome)

    def forget(self, speech: Speech, outcome: EndedAs) -> None:
        """A speech is over: remove it. The machine sets the outcome of a withdrawn one."""
        del self._speeches[speech.speech_id]
        self.last_ended_at = self.now
        if speech.is_withdrawn:
            outcome = "cancelled"
        self._out.append(ForgetSpeech(speech.speech_id, outcome, speech.is_withdrawn))

    @property
    def speeches(self) -> Collection[Speech]:
        """All that are not over."""
        return self._speeches.values()

    @property
    def is_empty(self) -> bool:
        """Whether no speech, but behind a task, and no handoff is anywhere between its request and its end."""
        return not (self.handoffs or self.handoff or any(not s.behind for s in self._speeches.values()))

    @property
    def active(self) -> Speech | None:
        """The speech that has the floor."""
        for speech in self._speeches.values():  # asked for several times an input: a generator costs twice as much
            if speech.phase == "active":
                return speech
        return None

    @property
    def waiting(self) -> list[Speech]:
        """Those that wait for the floor, next one first."""
        queued = [s for s in self._speeches.values() if s.phase in ("queued", "lapsed", "prepared") and not s.behind]
        return sorted(queued, key=lambda s: (-s.priority, s.order, s.kind == "turn")) if len(queued) > 1 else queued

    @property
    def ready(self) -> list[Speech]:
        """Those of them that wait for nothing but the floor, next one first."""
        return [s for s in self.waiting if not self.awaits_tools_of_hook(s)]

    @property
    def queue(self) -> list[Speech]:
        """Those that may get the floor, next one first; while a handoff holds it, only speech of its hooks.

        Before a handoff whose components are being opened: those requested before it, and answers to the caller.
        """
        ready = self.ready
        if self.handoff:
            return [s for s in ready if s.by_hook]
        if not self._opening:
            return ready
        handoff_id, order = next(iter(self.handoffs.items()))
        if handoff_id not in self._opening:
            return ready
        has_answers = not self._ending
        return [s for s in ready if s.goes_before(order) or (has_answers and s.is_for_caller)]

    def is_behind_handoff(self, speech: Speech) -> bool:
        """Whether a speech that is ready waits for a handoff, which runs or whose components are being opened."""
        return all(speech is not other for other in self.queue)

    def awaits_tools_of_hook(self, answer: Speech) -> bool:
        """Whether speech of the hook of that answer's turn waits for its tools: it goes on before the answer."""
        return any(speech.hook_of == answer.speech_id for speech in self.in_tools)

    @property
    def next_handoff(self) -> str:
        """The handoff that gets the floor before any speech that is ready; empty where none does."""
        if not self.handoffs or self.handoff:
            return ""
        handoff_id, order = next(iter(self.handoffs.items()))
        if handoff_id in self._opening:
            return ""
        speech = next(iter(self.ready), None)
        return handoff_id if speech is None or not speech.goes_before(order) else ""

    @property
    def is_unclaimed(self) -> bool:
        """Whether nothing speaks, waits or works, and no handoff does."""
        return not (self.handoff or self.handoffs or self.present)

    @property
    def in_tools(self) -> list[Speech]:
        """Those that wait for their tools."""
        return [s for s in self._speeches.values() if s.phase == "tools" and not s.behind]

    @property
    def live(self) -> list[Speech]:
        """All that are neither cancelled nor played to their end."""
        return [s for s in self._speeches.values() if s.phase != "ending"]

    @property
    def present(self) -> list[Speech]:
        """All that are neither cancelled nor played to their end, nor behind a task."""
        return [s for s in self._speeches.values() if s.phase != "ending" and not s.behind]

    @property
    def unheard_answer(self) -> Speech | None:
        """The answer that further words of its turn would take back; never more than one."""
        for speech in self._speeches.values():
            if speech.phase != "ending" and speech.is_unheard_answer and not speech.behind:
                return speech
        return None

    @property
    def was_heard(self) -> bool:
        """Whether the user has heard a part of an active speech, so that "mhm" may be meant for it."""
        return any(s.was_audible for s in self._speeches.values() if s.phase in ("active", "tools") and not s.behind)

    @property
    def owes_answer(self) -> bool:
        """Whether an answer waits: for its tools, behind other speech or behind a handoff.

        One that hands off is heard as the new agent. One behind a task waits for the caller, until the task ends.
        """
        known = ("", self.handoff, *self._ending)
        has_tools = any(s.phase == "tools" and s.behind in known for s in self._speeches.values())
        if not self.handoff:
            return has_tools or any(s.kind == "turn" or s.has_used_tools for s in self.waiting)
        is_unheard = has_tools and not self.was_handoff_heard
        return is_unheard or any(s.kind != "say" and not s.by_hook for s in self.waiting)

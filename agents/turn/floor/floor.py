"""Floor: the speech or handoff that has the floor, and those that wait. Bookkeeping; other classes decide."""

from __future__ import annotations

from collections.abc import Collection

from vivavoce.agents.turn.effects import CancelSpeech, Cause, Effect, ForgetSpeech, StoppedAs
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.inputs import EndedAs, SpeechKind, SpeechRequested
from vivavoce.agents.turn.user.turn import ClosedTurn


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
        """The handoffs that wait, with their arrival."""
        self.handoff = ""
        """The handoff that holds the floor; "" for none."""
        self._opening: set[str] = set()
        """The waiting handoffs whose components are being opened."""
        self._tasks: set[str] = set()
        """The handoffs that wait and begin a task."""
        self._ending: set[str] = set()
        """The tasks that are about to give the conversation back, by the handoffs that began them."""
        self.is_withheld = False
        """Whether no speech may begin."""
        self.was_handoff_heard = False
        """Whether any speech of the handoff that holds the floor was heard."""
        self.last_ended_at = float("-inf")
        """The end of the last speech, with any outcome, or of the last handoff."""

    def begin_step(self, now: float) -> None:
        """Set the time of a step of the machine."""
        self.now = now

    def withhold(self, is_withheld: bool) -> None:
        """Let no speech begin from now on, or let them begin again, as if they were asked for now."""
        if self.is_withheld and not is_withheld:
            for speech in self.waiting:
                speech.ask_anew(self.now)
        self.is_withheld = is_withheld

    def add(
        self,
        speech_id: str,
        kind: SpeechKind,
        *,
        interruptible: bool = True,
        priority: int = 0,
        asked: SpeechRequested | None = None,
        asked_at: float,
    ) -> Speech:
        """Queue a new speech and return it; speech of a turn's hook or of a body is put before the answer.

        Args:
            asked_at: The time of the request.
        """
        order = self.next_order()
        if asked is not None and (answer := self._answer_behind(asked)) is not None:
            order = answer.order
            priority = max(priority, answer.priority) if asked.by_body else answer.priority
        speech = self._speeches[speech_id] = Speech(
            speech_id, kind, interruptible, priority, order, asked_at=asked_at, asked=asked
        )
        return speech

    def add_answer(self, speech_id: str, turn: ClosedTurn) -> Speech:
        """Queue the answer to a user turn and return it."""
        sounding = self.active
        speech = self._speeches[speech_id] = Speech(
            speech_id,
            "turn",
            interruptible=True,
            priority=0,
            order=self.next_order(),
            asked_at=turn.began_at,
            answers=turn,
            has_foreword=sounding is not None and sounding.is_playing,
        )
        return speech

    def _answer_behind(self, asked: SpeechRequested) -> Speech | None:
        """Return the answer that waits for the code which asked for that speech, or None."""
        if not asked.by_body:
            return self.get(asked.hook_of)
        answers = [s for s in self.present if s.kind == "turn" and s.phase != "tools" and not s.was_audible]
        return min(answers, key=lambda s: s.order, default=None)

    def add_handoff(
        self, handoff_id: str, *, begins_task: bool = False, ends_task: str = "", opens: bool = False
    ) -> None:
        """Queue a handoff. If it `opens` components, it begins after `handoff_ready` at the earliest."""
        self.handoffs[handoff_id] = self.next_order()
        if opens:
            self._opening.add(handoff_id)
        if ends_task:
            self._ending.add(ends_task)
        if begins_task:
            self._tasks.add(handoff_id)

    def handoff_ready(self, handoff_id: str) -> None:
        """Note that the components of that handoff are open, or cannot be opened: it begins in its turn."""
        self._opening.discard(handoff_id)

    def begin_handoff(self, handoff_id: str) -> None:
        """Give the floor to a waiting handoff."""
        del self.handoffs[handoff_id]
        self.handoff, self.was_handoff_heard = handoff_id, False
        if handoff_id in self._tasks:
            self._tasks.remove(handoff_id)
            for speech in self.present:
                if speech.has_begun:
                    speech.stay_behind(handoff_id)

    def speech_sounds(self, speech: Speech, at: float) -> None:
        """Note that the caller hears that speech: the waiting speeches now have a foreword, and the handoff was
        heard."""
        speech.sound(at)
        self.was_handoff_heard = True
        for waiting in self.waiting:
            waiting.follow_sound()

    def end_handoff(self) -> None:
        """Note the end of the handoff that holds the floor."""
        self.handoff, self.last_ended_at = "", self.now

    def end_task(self, handoff_id: str) -> None:
        """Note the end of the task that this handoff began: speech that it left behind goes on."""
        self._ending.discard(handoff_id)
        for speech in self._speeches.values():
            speech.return_from(handoff_id)

    def drop_handoffs(self) -> list[str]:
        """Forget all handoffs; return the handoff that holds the floor, then the waiting ones."""
        dropped = [self.handoff, *self.handoffs] if self.handoff else list(self.handoffs)
        self.handoff = ""
        self.handoffs.clear()
        self._opening.clear()
        self._tasks.clear()
        self._ending.clear()
        return dropped

    def move_back(self, speech: Speech) -> None:
        """Move a speech behind all others of its priority."""
        speech.queue_behind(self.next_order())

    def next_order(self) -> int:
        """Return the place in the queue of a request that arrives now."""
        self._arrivals += 1
        return self._arrivals

    def get(self, speech_id: str) -> Speech | None:
        """Return the speech, or None if it is over."""
        return self._speeches.get(speech_id)

    def lapse(self, call_id: str) -> None:
        """Note the end of a tool call: speech that it asked for and that still waits is out of date."""
        for speech in self._speeches.values():
            if speech.phase == "queued" and speech.asked is not None and speech.asked.from_call == call_id:
                speech.lapse()

    def stop(
        self, speech: Speech, outcome: StoppedAs, *, is_withdrawn: bool = False, cause: Cause | None = None
    ) -> None:
        """Cancel a speech. If it has begun, it reports its end later; if not, it is over now."""
        speech.stop(is_withdrawn=is_withdrawn)
        self._out.append(CancelSpeech(speech.speech_id, outcome, is_withdrawn, cause))
        if not speech.has_begun:
            self.forget(speech, outcome)

    def forget(self, speech: Speech, outcome: EndedAs) -> None:
        """Remove a speech that is over. The machine sets the outcome of a withdrawn speech."""
        del self._speeches[speech.speech_id]
        self.last_ended_at = self.now
        if speech.is_withdrawn:
            outcome = "cancelled"
        self._out.append(ForgetSpeech(speech.speech_id, outcome, speech.is_withdrawn))

    @property
    def speeches(self) -> Collection[Speech]:
        """All speeches that are not over."""
        return self._speeches.values()

    @property
    def is_empty(self) -> bool:
        """Whether no speech and no handoff is between its request and its end; speech behind a task does not count."""
        return not (self.handoffs or self.handoff or self.has_speech)

    @property
    def has_speech(self) -> bool:
        """Whether a speech is between its request and its end; speech behind a task does not count."""
        return any(not s.behind for s in self._speeches.values())

    @property
    def active(self) -> Speech | None:
        """The speech that has the floor."""
        for speech in self._speeches.values():  # asked for several times an input: a generator costs twice as much
            if speech.has_floor:
                return speech
        return None

    @property
    def waiting(self) -> list[Speech]:
        """The speeches that wait for the floor, next one first."""
        queued = [s for s in self._speeches.values() if s.waits and not s.behind]
        return sorted(queued, key=lambda s: (-s.priority, s.order, s.kind == "turn")) if len(queued) > 1 else queued

    @property
    def ready(self) -> list[Speech]:
        """The waiting speeches that need nothing but the floor, next one first."""
        return [s for s in self.waiting if not self.awaits_tools_of_hook(s)]

    @property
    def queue(self) -> list[Speech]:
        """The speeches that may get the floor, next one first; while a handoff holds it, only speech of its hooks.

        While a handoff's components are being opened, speech requested before it and answers to the caller.
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
        """Return whether speech of a hook of that answer's turn waits for its tools; it goes on before the answer."""
        return any(speech.hook_of == answer.speech_id for speech in self.in_tools)

    @property
    def next_handoff(self) -> str:
        """The handoff that gets the floor before any speech that is ready; "" for none."""
        if not self.handoffs or self.handoff:
            return ""
        handoff_id, order = next(iter(self.handoffs.items()))
        if handoff_id in self._opening:
            return ""
        speech = next(iter(self.ready), None)
        return handoff_id if speech is None or not speech.goes_before(order) else ""

    @property
    def is_unclaimed(self) -> bool:
        """Whether no speech and no handoff speaks, waits or works."""
        return not (self.handoff or self.handoffs or self.present)

    @property
    def in_tools(self) -> list[Speech]:
        """The speeches that wait for their tools."""
        return [s for s in self._speeches.values() if s.phase == "tools" and not s.behind]

    @property
    def live(self) -> list[Speech]:
        """The speeches that are neither cancelled nor played to their end."""
        return [s for s in self._speeches.values() if not s.is_over]

    @property
    def present(self) -> list[Speech]:
        """The speeches that are neither cancelled, nor played to their end, nor behind a task."""
        return [s for s in self._speeches.values() if not s.is_over and not s.behind]

    @property
    def unheard_answer(self) -> Speech | None:
        """The one answer that further words of its turn would take back, or None."""
        for speech in self._speeches.values():
            if not speech.is_over and speech.is_unheard_answer and not speech.behind:
                return speech
        return None

    @property
    def was_heard(self) -> bool:
        """Whether the user has heard a part of an active speech, so that "mhm" may refer to it."""
        return any(s.was_audible for s in self._speeches.values() if s.phase in ("active", "tools") and not s.behind)

    @property
    def owes_answer(self) -> bool:
        """Whether an answer waits: for its tools, behind other speech or behind a handoff.

        An answer that hands off is heard as the new agent's. An answer behind a task does not count until the task
        ends.
        """
        known = ("", self.handoff, *self._ending)
        has_tools = any(s.phase == "tools" and s.behind in known for s in self._speeches.values())
        if not self.handoff:
            return has_tools or any(s.kind == "turn" or s.has_used_tools for s in self.waiting)
        is_unheard = has_tools and not self.was_handoff_heard
        return is_unheard or any(s.kind != "say" and not s.by_hook for s in self.waiting)

"""GraphMachine: follows a conversation graph. It takes inputs one by one and returns effects; it has no clock.

One cause at a time (an event, a timer, changed data, a request) is judged to its end, with all moves that it leads to;
others wait in their order. A cause ends when no transition of the present state holds, no condition or intent is asked
for, and no body runs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, assert_never

from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.moves import Moves
from vivavoce.agents.graphs.machine.rules import (
    Event,
    GraphRules,
    OnIntent,
    Rule,
    SearchKind,
    StateRules,
    fits,
)
from vivavoce.agents.graphs.machine.saved import Saved

MAX_WAITING = 64
"""The most events that wait for a later state; also the most events and requests that wait for the end of the present
cause."""

MIN_SCORE = 0.4
"""The lowest score of an intent; below it, the speech has none."""


@dataclass(frozen=True, slots=True)
class _Timer:
    """A timer that was due, of a stay in a state."""

    rule: int
    stay: int


_Arrival: TypeAlias = Event | i.IntentChosen | i.DataChanged | i.MoveRequested | _Timer


@dataclass(frozen=True, slots=True)
class _Place:
    """The place in the graph."""

    state: str = ""
    return_to: str = ""
    """The state before the chain of a global state; "" outside of such a chain."""
    stay: int = 0
    """Counts the entries into states."""


@dataclass(slots=True)
class _Cause:
    """The cause that is judged.

    Args:
        event: None for timers, data, requests.
        origin: "waiting" for an event that waited for this state, "chosen" for an intent of the answering model.
    """

    event: Event | None
    origin: Literal["arrived", "waiting", "chosen"]
    place: _Place
    timers: dict[int, float]
    has_moved: bool = False
    ran_body: bool = False

    @property
    def event_id(self) -> str:
        return "" if self.event is None else self.event.id

    @property
    def is_speech(self) -> bool:
        return self.event is not None and self.event.kind == "speech"


@dataclass(slots=True)
class _Search:
    """A search for the first rule of the state that holds."""

    kind: SearchKind
    next: int = 0
    """Position, among the rules of that kind, of the rule to look at."""
    intent: str | None = None
    """The intent of the speech; None until it is judged."""
    timer: int | None = None
    """Index of the rule whose timer was due."""


class GraphMachine:
    """Decides what a graph does. Feed every input in order, carry the effects out in order, and send `Tick` at
    `next_deadline()`.

    No input raises, in any order: an answer to an old question or the end of an old body changes nothing.

    Args:
        saved: The state to go on from: the next input is `Begun`, which runs no body again.
        now: Session clock, seconds.
    """

    def __init__(self, rules: GraphRules, saved: Saved | None = None, *, now: float = 0.0) -> None:
        self._rules = rules
        self._out: list[e.GraphEffect] = []
        self._numbers = 0
        self._place = _Place() if saved is None else _Place(saved.state, saved.return_to, 1)
        self._timers = {} if saved is None else {rule: now + seconds for rule, seconds in saved.timers}
        self._waiting: list[Event] = [] if saved is None else list(saved.waiting)
        self._arrivals: deque[_Arrival] = deque(() if saved is None else (i.DataChanged(), *saved.arrivals))
        self.is_begun = False
        self._cause: _Cause | None = None
        self._search: _Search | None = None
        self._question: int | None = None
        self._asked_rule: int | None = None
        self._body: int | None = None
        self._is_fallback = False
        self._undoable: _Cause | None = None
        self._tried = 0
        self._moves = Moves()

    @property
    def state(self) -> str:
        """The present state; "" before the beginning."""
        return self._place.state

    @property
    def waiting(self) -> tuple[Event, ...]:
        """The events that wait for a later state, oldest first."""
        return tuple(self._waiting)

    @property
    def question(self) -> int | None:
        """The question whose answer is awaited, or None. A question about a withdrawn turn does not count."""
        return self._question

    @property
    def to_judge(self) -> set[str]:
        """The ids of the event that is being judged, and of the events that have not been judged yet."""
        arrived = (one.event if isinstance(one, i.IntentChosen) else one for one in self._arrivals)
        return {one.id for one in arrived if isinstance(one, Event)} | {self._event_id} - {""}

    @property
    def is_judging_data(self) -> bool:
        """Whether changed data are still to be judged; False while only a body is waited for."""
        if self._body is not None or not self.is_begun:
            return False
        return i.DataChanged() in self._arrivals or (self._cause is not None and self._cause.event is None)

    def next_deadline(self) -> float | None:
        """Return when the machine needs a `Tick`, or None."""
        return min(self._timers.values(), default=None)

    def handle(self, event: i.GraphInput, *, now: float) -> list[e.GraphEffect]:
        """Take one input and return the effects to carry out, in order.

        Args:
            now: Session clock, seconds; never less than at the call before.
        """
        self._take_due(now)
        self._take_in(event, now)
        if self.is_begun:
            self._advance(now)
        effects = self._out.copy()
        self._out.clear()
        return effects

    def to_json(self, *, now: float) -> dict[str, Any]:
        """Return the state for `restored()`. A body that runs counts as over; an event that is being judged is judged
        again.

        It has no speech: the text is not kept, and the caller has not said it in the next session.
        """
        cause = self._cause
        judged: tuple[Event, ...] = ()
        if cause is not None and cause.event is not None and not (cause.is_speech or cause.ran_body or cause.has_moved):
            judged = (cause.event,)
        arrived = tuple(one for one in self._arrivals if isinstance(one, Event) and one.kind != "speech")
        waited = () if cause is None or cause.origin != "waiting" else judged
        return Saved(
            state=self._place.state,
            return_to=self._place.return_to,
            timers=tuple((rule, max(0.0, due - now)) for rule, due in self._timers.items()),
            waiting=(*waited, *self._waiting),
            arrivals=(*(() if waited else judged), *arrived),
        ).to_json()

    # --- inputs

    def _take_in(self, event: i.GraphInput, now: float) -> None:
        match event:
            case i.Begun():
                self._begin(now)
            case i.EventReceived():
                self._arrive(event.event)
            case i.DataChanged():
                self._data_changed(event)
            case i.IntentChosen() | i.MoveRequested():
                self._arrive(event)
            case i.Judged():
                self._judged(event, now)
            case i.Classified():
                self._classified(event)
            case i.BodyEnded():
                self._body_ended(event)
            case i.TurnUndone(event_id=event_id):
                self._undo(event_id)
            case i.Tick():
                pass
            case _:
                assert_never(event)

    def _arrive(self, arrival: Event | i.IntentChosen | i.MoveRequested) -> None:
        """Add an arrival. If there are too many, drop the oldest, but never speech, whose turn waits for it."""
        self._arrivals.append(arrival)
        droppable = [one for one in self._arrivals if _is_droppable(one)]
        if len(droppable) > MAX_WAITING:
            oldest = droppable[0]
            self._arrivals.remove(oldest)
            self._out.append(e.EventDropped(oldest.id if isinstance(oldest, Event) else ""))

    def _data_changed(self, change: i.DataChanged) -> None:
        if change not in self._arrivals:
            self._arrivals.append(change)

    def _begin(self, now: float) -> None:
        if self.is_begun:
            return
        self.is_begun = True
        if not self._place.state:
            self._cause = self._new_cause(None, "arrived", now)
            self._move(self._rules.initial, "begin", None, now)

    def _take_due(self, now: float) -> None:
        """Add the timers that are due to the arrivals, in the order of their times."""
        for _, rule in sorted((due, rule) for rule, due in self._timers.items() if due <= now):
            del self._timers[rule]
            self._arrivals.append(_Timer(rule, self._place.stay))

    def _judged(self, answer: i.Judged, now: float) -> None:
        if answer.question != self._question or self._asked_rule is None:
            return
        rule, self._question, self._asked_rule = self._asked_rule, None, None
        if answer.holds:
            self._take(rule, now)

    def _classified(self, answer: i.Classified) -> None:
        if answer.question != self._question or self._asked_rule is not None:
            return
        self._question = None
        assert self._search is not None, "a question belongs to a search"
        self._search.intent = answer.intent if answer.score >= MIN_SCORE else ""

    def _body_ended(self, end: i.BodyEnded) -> None:
        if end.run != self._body:
            return
        self._body = None
        if end.has_failed:
            self._search = _Search("failure")
        elif self._is_fallback:
            self._finish()
        else:
            self._search = _Search("state")

    def _undo(self, event_id: str) -> None:
        self._arrivals = deque(one for one in self._arrivals if not (isinstance(one, Event) and one.id == event_id))
        for cause in (self._cause, self._undoable):
            if cause is not None and cause.event_id == event_id and cause.is_speech and not cause.ran_body:
                break
        else:
            return
        if cause is self._cause:
            self._cause = self._search = self._question = self._asked_rule = None
        self._undoable = None
        if cause.place.stay != self._place.stay:
            source, self._timers = self._place.state, cause.timers
            self._place = replace(cause.place, stay=self._place.stay + 1)
            self._out.append(e.Moved(self._place.state, source, "undo", event_id=event_id))
            self._tried = 0  # events and changed data that the state before has not seen
            self._data_changed(i.DataChanged())

    # --- judging

    def _advance(self, now: float) -> None:
        """Judge on, until the machine waits for an answer or for the end of a body, or nothing is left."""
        while self._question is None and self._body is None:
            if self._cause is None and not self._next_cause(now):
                return
            if self._search is not None:
                self._look_further(now)

    def _next_cause(self, now: float) -> bool:
        """Begin with an event that waits, or with the next arrival; return False without one."""
        if self._tried < len(self._waiting):  # the state has changed since they were judged
            self._begin_cause(self._waiting.pop(self._tried), "waiting", "event", now)
            return True
        if not self._arrivals:
            return False
        match arrival := self._arrivals.popleft():
            case Event():
                self._begin_cause(arrival, "arrived", "event", now)
            case i.IntentChosen(event=event, intent=intent):
                self._begin_cause(event, "chosen", "event", now, intent=intent)
            case i.DataChanged(is_own=is_own):
                self._begin_cause(None, "arrived", "state", now, is_own=is_own)
            case _Timer(rule=rule, stay=stay):
                if stay == self._place.stay:
                    self._begin_cause(None, "arrived", "timer", now, timer=rule, is_own=True)
            case i.MoveRequested(state=state, is_own=is_own):
                if state in self._rules.states:
                    self._cause = self._new_cause(None, "arrived", now, is_own=is_own)
                    self._place = replace(self._place, return_to="")
                    self._move(state, "request", None, now)
            case _:
                assert_never(arrival)
        return True

    def _begin_cause(
        self,
        event: Event | None,
        origin: Literal["arrived", "waiting", "chosen"],
        kind: Literal["event", "timer", "state"],
        now: float,
        *,
        intent: str | None = None,
        timer: int | None = None,
        is_own: bool = False,
    ) -> None:
        self._cause = self._new_cause(event, origin, now, is_own=is_own)
        self._search = _Search(kind, intent=intent, timer=timer)

    def _new_cause(
        self, event: Event | None, origin: Literal["arrived", "waiting", "chosen"], now: float, *, is_own: bool = False
    ) -> _Cause:
        self._moves.begin_cause(now, is_own=is_own or (event is not None and event.is_own))
        if event is not None and event.kind == "speech":
            self._undoable = None
        return _Cause(event, origin, self._place, dict(self._timers))

    def _look_further(self, now: float) -> None:
        """Look at the next rules: take the first one that holds, or ask a question."""
        assert self._search is not None
        search, rules = self._search, self._here.rules
        indices = self._here.by_kind[search.kind]
        while search.next < len(indices):
            index = indices[search.next]
            rule = rules[index]
            if self._needs_intent(rule, search):
                if not self._here.intents:  # there is nothing to choose from
                    search.intent = ""
                    continue
                self._question = self._number()
                self._out.append(e.Classify(self._question, self._event_id, self._here.intents))
                return
            search.next += 1
            if not self._is_set_off(rule, index, search):
                continue
            if rule.is_judged:
                self._question, self._asked_rule = self._number(), index
                self._out.append(e.Judge(self._question, self._place.state, index, self._event_id))
            else:
                self._take(index, now)
            return
        self._nothing_holds(search.kind, now)

    def _needs_intent(self, rule: Rule, search: _Search) -> bool:
        return (
            search.kind == "event"
            and search.intent is None
            and self._here.has_classifier
            and isinstance(rule.trigger, OnIntent)
            and self._cause is not None
            and self._cause.is_speech
        )

    def _is_set_off(self, rule: Rule, index: int, search: _Search) -> bool:
        assert self._cause is not None
        match search.kind:
            case "event":
                assert self._cause.event is not None
                if self._cause.origin == "chosen" and not isinstance(rule.trigger, OnIntent):
                    return False
                return fits(rule.trigger, self._cause.event, search.intent)
            case "timer":
                return index == search.timer
            case "failure" | "state":
                return True

    def _take(self, index: int, now: float) -> None:
        """Take a transition of the state."""
        assert self._cause is not None
        rule = self._here.rules[index]
        if rule.is_global and not self._place.return_to:
            self._place = replace(self._place, return_to=self._place.state)
        if rule.target == self._place.return_to:  # the chain leads back by itself
            self._place = replace(self._place, return_to="")
        self._move(rule.target, "transition", index, now)

    def _nothing_holds(self, kind: SearchKind, now: float) -> None:
        cause = self._cause
        assert cause is not None
        if kind == "failure":
            self._search = _Search("state")
        elif kind == "state" and self._here.is_end and self._place.return_to:
            target = self._place.return_to
            self._place = replace(self._place, return_to="")
            self._move(target, "return", None, now)
        elif kind == "event" and cause.is_speech and cause.origin == "arrived" and self._here.has_fallback:
            self._run_body(is_fallback=True)
        else:
            if kind == "event" and cause.event is not None and not cause.is_speech:
                self._keep_waiting(cause.event, cause.origin)
            self._finish()

    def _keep_waiting(self, event: Event, origin: Literal["arrived", "waiting", "chosen"]) -> None:
        if origin == "waiting":
            self._waiting.insert(self._tried, event)
        else:
            self._waiting.append(event)
        self._tried += 1
        if len(self._waiting) > MAX_WAITING:
            self._tried -= 1
            self._out.append(e.EventDropped(self._waiting.pop(0).id))

    def _move(
        self,
        target: str,
        reason: Literal["begin", "transition", "return", "request"],
        transition: int | None,
        now: float,
    ) -> None:
        cause = self._cause
        assert cause is not None
        if not self._moves.take(now):
            self._out.append(e.MovesExceeded(self._place.state, cause.event_id))
            self._finish()
            return
        cause.has_moved = True
        self._search, self._tried, source = None, 0, self._place.state
        if self._undoable is not None and self._undoable is not cause:
            self._undoable = None
        self._place = replace(self._place, state=target, stay=self._place.stay + 1)
        self._timers = {index: now + seconds for index, seconds in self._here.timers}
        self._out.append(e.Moved(target, source, reason, transition, cause.event_id))
        if self._here.has_body:
            self._run_body(is_fallback=False)
        else:
            self._search = _Search("state")

    def _run_body(self, *, is_fallback: bool) -> None:
        assert self._cause is not None
        self._search, self._cause.ran_body, self._is_fallback = None, True, is_fallback
        self._body = self._number()
        self._out.append(e.RunBody(self._body, self._place.state, self._cause.event_id, is_fallback))

    def _finish(self) -> None:
        cause = self._cause
        assert cause is not None
        if cause.is_speech:
            self._out.append(e.Settled(cause.event_id, cause.ran_body))
            self._undoable = cause
        self._cause = self._search = None

    # --- small parts

    @property
    def _here(self) -> StateRules:
        return self._rules.states[self._place.state]

    @property
    def _event_id(self) -> str:
        return "" if self._cause is None else self._cause.event_id

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers


def _is_droppable(arrival: _Arrival) -> bool:
    return isinstance(arrival, i.MoveRequested) or (isinstance(arrival, Event) and arrival.kind != "speech")

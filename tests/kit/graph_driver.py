"""Drives a GraphMachine: answers its questions and ends its bodies, by given functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.machine import GraphMachine
from vivavoce.agents.graphs.machine.rules import Event, EventKind, GraphRules


class GraphDriver:
    """A machine whose questions are answered at once.

    Args:
        holds: Answers `Judge` by state and index of the transition.
        intents: Answers `Classify` by the id of the event, by intent and score.
        fails: Whether the body of a state raises.
    """

    def __init__(
        self,
        rules: GraphRules,
        *,
        holds: Callable[[str, int], bool] = lambda _state, _index: True,
        intents: dict[str, tuple[str, float]] | None = None,
        fails: Callable[[str], bool] = lambda _state: False,
    ) -> None:
        self.machine = GraphMachine(rules)
        self.now = 0.0
        self.effects: list[e.GraphEffect] = []
        self.inputs: list[tuple[i.GraphInput, float]] = []
        self.answers = True
        self.open: list[e.Judge | e.Classify | e.RunBody] = []
        self._holds, self._intents, self._fails = holds, intents or {}, fails
        self._events = 0

    def send(self, event: i.GraphInput) -> list[e.GraphEffect]:
        """Send an input and answer all questions; return the effects of all of it."""
        before = len(self.effects)
        self._handle(event)
        while self.answers and self.open:
            self.answer()
        return self.effects[before:]

    def answer(self) -> None:
        """Answer the oldest question, or end the oldest body."""
        match asked := self.open.pop(0):
            case e.Judge():
                self._handle(i.Judged(asked.question, self._holds(asked.state, asked.transition)))
            case e.Classify():
                intent, score = self._intents.get(asked.event_id, ("", 1.0))
                self._handle(i.Classified(asked.question, intent if intent in asked.intents else "", score))
            case e.RunBody():
                self._handle(i.BodyEnded(asked.run, self._fails(asked.state)))

    def _handle(self, event: i.GraphInput) -> None:
        self.inputs.append((event, self.now))
        new = self.machine.handle(event, now=self.now)
        self.effects += new
        self.open += [one for one in new if isinstance(one, e.Judge | e.Classify | e.RunBody)]

    def begin(self) -> list[e.GraphEffect]:
        """Begin the graph."""
        return self.send(i.Begun())

    def event(self, name: str, kind: EventKind = "event", subject: str = "", id: str = "") -> list[e.GraphEffect]:
        """Send an event."""
        self._events += 1
        return self.send(i.EventReceived(Event(id or f"e{self._events}", kind, name, subject)))

    def speech(self, intent: str = "", score: float = 1.0, id: str = "") -> list[e.GraphEffect]:
        """Send speech, which a classifier finds to have that intent."""
        self._events += 1
        name = id or f"e{self._events}"
        self._intents[name] = (intent, score)
        return self.send(i.EventReceived(Event(name, "speech", "user_turn")))

    def wait(self, seconds: float) -> list[e.GraphEffect]:
        """Let time pass; ticks come at the deadlines."""
        before, end = len(self.effects), self.now + seconds
        while (due := self.machine.next_deadline()) is not None and due <= end:
            self.now = max(self.now, due)
            self.send(i.Tick())
        self.now = end
        return self.effects[before:]


def way(effects: Sequence[e.GraphEffect]) -> list[str]:
    """Return the states that the effects move to."""
    return [effect.state for effect in effects if isinstance(effect, e.Moved)]


def bodies(effects: Sequence[e.GraphEffect]) -> list[str]:
    """Return the states whose bodies run; a fallback's has a question mark."""
    return [effect.state + "?" * effect.is_fallback for effect in effects if isinstance(effect, e.RunBody)]

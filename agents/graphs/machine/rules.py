"""The rules that a GraphMachine follows: the names and triggers of a graph, without the application's functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, TypeAlias

EventKind: TypeAlias = Literal["speech", "file", "form", "tool", "event"]

SearchKind: TypeAlias = Literal["event", "timer", "failure", "state"]
"""The kind of rules to look at: for events, for timers, for a body that raised, or for the state itself."""


USER_TURN = "user_turn"
"""The name of the event that is a turn of the caller."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event without its data, which the machine does not get.

    Args:
        id: Unique in the session.
        kind: "speech" is a turn of the caller.
        name: The name that `when_event()` compares; for a tool the tool's name.
        subject: The MIME type of a file, the id of a form.
        is_own: Whether it may be a consequence of the graph's moves, such as an event that a body has sent.
    """

    id: str
    kind: EventKind
    name: str
    subject: str = ""
    is_own: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class OnEvent:
    """An event of that name; "" for any event."""

    name: str = ""


@dataclass(frozen=True, slots=True)
class OnIntent:
    """Speech with that intent; "" for speech with none of the intents of the state and of the global states."""

    intent: str = ""


@dataclass(frozen=True, slots=True)
class OnFile:
    """A file of one of these MIME types; () for any."""

    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OnForm:
    """A submitted form with that id; "" for any."""

    form: str = ""


@dataclass(frozen=True, slots=True)
class OnTool:
    """A call of that tool by the model."""

    tool: str


@dataclass(frozen=True, slots=True)
class OnFailure:
    """The state's body raised."""


@dataclass(frozen=True, slots=True)
class OnTimer:
    """The end of so many seconds in the state."""

    seconds: float


@dataclass(frozen=True, slots=True)
class OnState:
    """The trigger without an event: judged on entry, and when private data change. Without a condition the transition
    is automatic."""


Trigger: TypeAlias = OnEvent | OnIntent | OnFile | OnForm | OnTool | OnFailure | OnTimer | OnState


@dataclass(frozen=True, slots=True)
class Rule:
    """A transition: its trigger, whether a condition must hold too, and its state to come."""

    trigger: Trigger
    target: str
    is_judged: bool = False
    is_global: bool = False


@dataclass(frozen=True)
class StateRules:
    """The rules of one state, in order, those of the global states last. Sessions share them."""

    rules: tuple[Rule, ...] = ()
    has_body: bool = False
    has_fallback: bool = False
    is_end: bool = False
    """Whether the state has no transition of its own."""
    has_classifier: bool = True
    """Whether intents are judged before the answer; if not, the answering model chooses one, and the runtime reports it
    by `IntentChosen`.
    """

    @cached_property
    def intents(self) -> tuple[str, ...]:
        """The intents that speech may have in this state, each once."""
        named = (rule.trigger.intent for rule in self.rules if isinstance(rule.trigger, OnIntent))
        return tuple(dict.fromkeys(intent for intent in named if intent))

    @cached_property
    def timers(self) -> tuple[tuple[int, float], ...]:
        """The rules with a timer, by index, and their seconds."""
        rules = enumerate(self.rules)
        return tuple((index, rule.trigger.seconds) for index, rule in rules if isinstance(rule.trigger, OnTimer))

    @cached_property
    def by_kind(self) -> dict[SearchKind, tuple[int, ...]]:
        """The indices of the rules of each kind, in their order."""
        found: dict[SearchKind, list[int]] = {"event": [], "timer": [], "failure": [], "state": []}
        for index, rule in enumerate(self.rules):
            match rule.trigger:
                case OnFailure():
                    found["failure"].append(index)
                case OnTimer():
                    found["timer"].append(index)
                case OnState():
                    found["state"].append(index)
                case _:
                    found["event"].append(index)
        return {kind: tuple(indices) for kind, indices in found.items()}

    @property
    def takes_all_speech(self) -> bool:
        """Whether a transition takes every turn of the caller, or the state is left as soon as its body has ended."""
        return any(
            not rule.is_judged and rule.trigger in (OnEvent(), OnEvent(USER_TURN), OnState()) for rule in self.rules
        )

    @property
    def judges_speech(self) -> bool:
        """Whether speech may move the graph before it is answered."""
        return self.has_fallback or any(self._judges_speech(rule.trigger) for rule in self.rules)

    def _judges_speech(self, trigger: Trigger) -> bool:
        match trigger:
            case OnIntent():
                return self.has_classifier
            case OnEvent(name=name):
                return name in ("", USER_TURN)
            case _:
                return False


@dataclass(frozen=True, slots=True)
class GraphRules:
    """The rules of a graph.

    Args:
        initial: The state that a session begins with.
        states: By name.
    """

    initial: str
    states: Mapping[str, StateRules]


def fits(trigger: Trigger, event: Event, intent: str | None) -> bool:
    """Return whether an event fits a trigger.

    Args:
        intent: The intent of speech, "" for none; None if it was not judged.
    """
    match trigger:
        case OnEvent(name=name):
            return name in ("", event.name)
        case OnIntent(intent=wanted):
            return event.kind == "speech" and intent is not None and intent == wanted
        case OnFile(types=types):
            return event.kind == "file" and (not types or event.subject in types)
        case OnForm(form=form):
            return event.kind == "form" and form in ("", event.subject)
        case OnTool(tool=tool):
            return event.kind == "tool" and event.name == tool
        case OnFailure() | OnTimer() | OnState():
            return False

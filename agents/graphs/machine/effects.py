"""The effects of a GraphMachine, for the runtime to carry out in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class Judge:
    """Judge the condition of the state's transition with that index; the answer is `Judged`."""

    question: int
    state: str
    transition: int
    event_id: str


@dataclass(frozen=True, slots=True)
class Classify:
    """Find the intent of speech among `intents`; the answer is `Classified`."""

    question: int
    event_id: str
    intents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Moved:
    """Report that the graph is in another state, or again in the same one.

    Args:
        source: The state before; "" at the beginning.
        transition: Index of the transition in the source's rules; None if none was taken.
        event_id: The event that caused it; "" for timers, data and requests.
    """

    state: str
    source: str
    reason: Literal["begin", "transition", "return", "request", "undo"]
    transition: int | None = None
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class RunBody:
    """Run the state's body, or its fallback body; its end is reported by `BodyEnded`."""

    run: int
    state: str
    event_id: str
    is_fallback: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """Report that speech, or an intent chosen by the model, has been judged: once for each, unless its turn is undone
    before.

    Without a body the model answers.
    """

    event_id: str
    ran_body: bool


@dataclass(frozen=True, slots=True)
class EventDropped:
    """Report that the oldest event was dropped: too many wait for a state that takes them, or for the end of the
    present cause.

    Args:
        event_id: Id of the event; "" for a requested move.
    """

    event_id: str


@dataclass(frozen=True, slots=True)
class MovesExceeded:
    """Report that one event caused too many moves: the graph stops in this state."""

    state: str
    event_id: str


GraphEffect: TypeAlias = Judge | Classify | Moved | RunBody | Settled | EventDropped | MovesExceeded

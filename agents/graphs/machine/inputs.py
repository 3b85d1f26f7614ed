"""The inputs of a GraphMachine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from vivavoce.agents.graphs.machine.rules import Event


@dataclass(frozen=True, slots=True)
class Begun:
    """The session has begun: `on_enter` of its agent is over."""


@dataclass(frozen=True, slots=True)
class EventReceived:
    """An event came."""

    event: Event


@dataclass(frozen=True, slots=True)
class IntentChosen:
    """The answering model chose an intent for speech that was settled."""

    event: Event
    intent: str


@dataclass(frozen=True, slots=True)
class Judged:
    """The answer to `Judge`; False for a condition that raised."""

    question: int
    holds: bool


@dataclass(frozen=True, slots=True)
class Classified:
    """The answer to `Classify`; intent "" for none."""

    question: int
    intent: str
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class BodyEnded:
    """The end of a body, or of a fallback body."""

    run: int
    has_failed: bool = False


@dataclass(frozen=True, slots=True)
class DataChanged:
    """Private data of the session changed.

    Args:
        is_own: Whether that may be a consequence of the graph's moves.
    """

    is_own: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """The application asks for a move to a state.

    Args:
        is_own: Whether that may be a consequence of the graph's moves.
    """

    state: str
    is_own: bool = False


@dataclass(frozen=True, slots=True)
class TurnUndone:
    """The turn with that event's speech was withdrawn: the caller went on speaking."""

    event_id: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A deadline has come."""


GraphInput: TypeAlias = (
    Begun
    | EventReceived
    | IntentChosen
    | Judged
    | Classified
    | BodyEnded
    | DataChanged
    | MoveRequested
    | TurnUndone
    | Tick
)

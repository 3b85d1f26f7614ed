"""The base of the events of a session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEvent:
    """Base of all events.

    Args:
        at: Time of its cause, in seconds of the session's clock from the session's start.
        sequence: Grows by one with each event of a session.
        turn_id: Id of its turn; empty if it belongs to none.
    """

    name: ClassVar[str] = ""
    at: float
    sequence: int
    turn_id: str = ""

"""The floor: which speech has it and which ones wait. Pure bookkeeping; the machine decides what to do with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vivavoce.agents.turn.inputs import SpeechKind

Phase = Literal["queued", "active", "tools", "ending"]


@dataclass(slots=True)
class Speech:
    """One `say`, `reply` or answer, from its request to its end.

    Args:
        order: Arrival; ties of priority go by it.
        phase: Waiting for the floor, on it, waiting for its tools without it, or told to stop.
        is_playing: A frame of the present step has been played and the step's last one has not.
        was_audible: Any frame was played.
        has_used_tools: A tool call of it has started.
        is_paused: Its playout is held, by a candidate interruption or from before it began.
        turn_id, text: The user turn that it answers.
    """

    speech_id: str
    kind: SpeechKind
    interruptible: bool
    priority: int
    order: int
    phase: Phase = "queued"
    is_playing: bool = False
    was_audible: bool = False
    has_used_tools: bool = False
    is_paused: bool = False
    turn_id: str = ""
    text: str = ""


class Floor:
    """At most one speech is active; the others wait by priority, then arrival."""

    def __init__(self) -> None:
        self._speeches: dict[str, Speech] = {}
        self._arrivals = 0

    def add(
        self,
        speech_id: str,
        kind: SpeechKind,
        *,
        interruptible: bool = True,
        priority: int = 0,
        turn_id: str = "",
        text: str = "",
    ) -> Speech:
        """Queue a new speech."""
        self._arrivals += 1
        speech = Speech(speech_id, kind, interruptible, priority, self._arrivals, turn_id=turn_id, text=text)
        self._speeches[speech_id] = speech
        return speech

    def get(self, speech_id: str) -> Speech | None:
        """Return the speech if it is not over."""
        return self._speeches.get(speech_id)

    def remove(self, speech_id: str) -> Speech | None:
        """Forget a speech that is over."""
        return self._speeches.pop(speech_id, None)

    @property
    def active(self) -> Speech | None:
        """The speech that has the floor."""
        return next((s for s in self._speeches.values() if s.phase == "active"), None)

    @property
    def waiting(self) -> list[Speech]:
        """Those that wait for the floor, next one first."""
        queued = [s for s in self._speeches.values() if s.phase == "queued"]
        return sorted(queued, key=lambda s: (-s.priority, s.order))

    @property
    def in_tools(self) -> list[Speech]:
        """Those that wait for their tools."""
        return [s for s in self._speeches.values() if s.phase == "tools"]

    @property
    def live(self) -> list[Speech]:
        """All that have not been told to stop."""
        return [s for s in self._speeches.values() if s.phase != "ending"]

    def busy_with(self, kind: SpeechKind) -> bool:
        """Whether a speech of that kind is anywhere before its end."""
        return any(s.kind == kind for s in self.live)

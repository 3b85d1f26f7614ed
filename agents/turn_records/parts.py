"""TurnParts: the pieces of one turn with their times: speech, recognitions and pauses of the user, playouts, holds.

All times are the session clock's, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from vivavoce.agents.records import InterruptedBy
from vivavoce.agents.turn.effects import EndedBy
from vivavoce.agents.turn_records.heard_words import HeardWords


@dataclass(slots=True)
class Part:
    """One piece; `ended_at` is None while it lasts."""

    began_at: float
    ended_at: float | None = None


@dataclass(slots=True)
class UserSpeech(Part):
    """The user's speech from its true onset to its true end."""


@dataclass(slots=True)
class Recognition(Part):
    """One utterance in the recogniser: from the onset, or the first interim, to its final.

    Args:
        interims: How many interims came.
        has_final: Whether a final ended it, and not the turn's end.
        audio_seconds: Audio that the recogniser counted for it.
        speakers, languages, confidence: As in its final.
    """

    interims: int = 0
    has_final: bool = False
    audio_seconds: float = 0.0
    text: str = field(default="", repr=False)
    speakers: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    confidence: float | None = None


@dataclass(slots=True)
class Pause(Part):
    """Silence from the true end of speech to the decision.

    Args:
        decision: `committed`, or `resumed` where the user spoke on; empty where the turn was dropped.
        ended_by, delay: As in `TurnTiming`, where it was committed.
        is_complete, probability: The turn detector's verdict; None without one.
    """

    decision: str = ""
    ended_by: EndedBy | None = None
    delay: float | None = None
    is_complete: bool | None = None
    probability: float | None = None


@dataclass(slots=True)
class PlayedStep(Part):
    """The agent's audio of one step, from its first frame to its last one, or to the end of a speech that was cut."""

    is_cut: bool = False


@dataclass(slots=True, kw_only=True)
class Interruption(Part):
    """The agent was held, and then went on or was cut; or it was cut at once.

    Args:
        held_at: None where it was cut at once.
        outcome: `resumed`, or the outcome of the speech: `interrupted`, or `cancelled` where nothing of it was heard.
        by: The cause.
        is_audible: Whether the caller heard the agent at that moment.
    """

    outcome: str
    held_at: float | None
    by: InterruptedBy
    is_audible: bool

    @property
    def latency(self) -> float:
        """Seconds from the onset of the user's speech to the moment when the agent was held or cut."""
        silent_at = self.ended_at if self.held_at is None else self.held_at
        assert silent_at is not None
        return silent_at - self.began_at


@dataclass(slots=True)
class TurnParts:
    """The pieces of a user's turn and its answer, or of a `say` or `reply`, which has playouts and interruptions only.

    Args:
        turn_id: The turn's; of a `say` or `reply`, the speech's.
        began_at: The true onset of the speech, else the arrival of the first words or of the request.
        commits: When it was committed, and whether it went on after an earlier commit.
    """

    turn_id: str
    began_at: float
    commits: list[tuple[float, bool]] = field(default_factory=list)
    speech: list[UserSpeech] = field(default_factory=list)
    recognitions: list[Recognition] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    playouts: list[PlayedStep] = field(default_factory=list)
    interruptions: list[Interruption] = field(default_factory=list)
    heard: HeardWords = field(default_factory=HeardWords)

    @property
    def open_speech(self) -> UserSpeech | None:
        """The present speech."""
        return self.speech[-1] if self.speech and self.speech[-1].ended_at is None else None

    @property
    def open_recognition(self) -> Recognition | None:
        """The utterance without a final."""
        return self.recognitions[-1] if self.recognitions and self.recognitions[-1].ended_at is None else None

    @property
    def open_pause(self) -> Pause | None:
        """The pause without a decision."""
        return self.pauses[-1] if self.pauses and self.pauses[-1].ended_at is None else None

    def forget_words(self) -> None:
        """Drop the recogniser's words."""
        self.recognitions = [replace(recognition, text="") for recognition in self.recognitions]
        self.heard.forget()

    def end_user(self, at: float) -> None:
        """End the user's part: all its open pieces."""
        for part in (self.open_speech, self.open_recognition, self.open_pause):
            if part is not None:
                part.ended_at = at

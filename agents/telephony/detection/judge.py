"""AnswerJudge: judges who has answered a call, by the length of the greeting, its words and the tones of the line.

No clock and no I/O: the caller gives the times, in seconds, and calls `expire` at the `deadline`.
"""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.states import AnsweredBy, AnswerReason
from vivavoce.agents.telephony.detection.options import MachineDetection
from vivavoce.agents.telephony.detection.phrases import answered_by

HUMAN_SILENCE = 0.5
"""Seconds of silence behind the short greeting of a human, who waits for an answer."""
WORDS_LIMIT = 1.0
"""Seconds of silence in which the words of a short greeting must have come; then it counts without them."""
MACHINE_SILENCE = 1.2
"""Seconds of silence behind any other greeting: a machine has said all of it then."""
CLICK = 0.2
"""Seconds of the shortest greeting; a shorter sound without words is none."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A judgement."""

    kind: AnsweredBy
    reason: AnswerReason


class AnswerJudge:
    """Judges one answered call, once.

    Args:
        answered_at: When it was answered.
        is_speaking: Whether the other side speaks already.
        no_speech: Seconds without speech that end the wait.
    """

    def __init__(
        self, options: MachineDetection, answered_at: float, *, is_speaking: bool = False, no_speech: float
    ) -> None:
        self._options = options
        self.answered_at = answered_at
        self._no_speech = no_speech
        self._began_at = answered_at if is_speaking else None
        self._ended_at: float | None = None
        self._words: list[str] = []

    @property
    def transcript(self) -> str:
        """The final words so far."""
        return " ".join(self._words)

    @property
    def ends_at(self) -> float:
        """The time of the judgement at the latest."""
        return self.answered_at + self._options.limit

    @property
    def deadline(self) -> float:
        """When `expire` is due, unless something comes before."""
        return min(self._due_at(), self.ends_at)

    @property
    def is_speaking(self) -> bool:
        """Whether the other side speaks."""
        return self._began_at is not None and self._ended_at is None

    def speech_started(self, at: float) -> None:
        """Note that the other side speaks since `at`."""
        if self._began_at is None:
            self._began_at = max(at, self.answered_at)
        self._ended_at = None

    def speech_ended(self, at: float) -> None:
        """Note that it is silent since `at`."""
        if self._began_at is not None:
            self._ended_at = max(at, self._began_at)

    def heard(self, text: str, now: float) -> None:
        """Take final words."""
        if text.strip():
            self._words.append(text.strip())
            if self._began_at is None:  # words without a voice: the recogniser alone hears
                self._began_at = self._ended_at = now

    def expire(self, now: float) -> Judged | None:
        """Return the judgement that is due by now, if any."""
        if now < self.deadline:
            return None
        is_last = now >= self.ends_at
        if self._is_click and not is_last:
            self._began_at = self._ended_at = None
            return None if now < self.deadline else self.expire(now)
        if (found := answered_by(self.transcript)) is not None:
            return Judged(found, "phrase")
        is_long = self._greeting(now) > self._options.max_greeting
        if is_long and (self._words or self.is_speaking):
            return Judged("machine", "long_greeting")
        if is_last or is_long or self._began_at is None:  # a long sound without words is noise
            return Judged("unknown", "limit" if is_last else "silence")
        return Judged("human", "short_greeting")

    def _due_at(self) -> float:
        if self._began_at is None:
            return self.answered_at + self._no_speech
        if self._ended_at is None:
            return self.ends_at
        return self._ended_at + self._silence()

    def _silence(self) -> float:
        """Return the silence that ends the greeting."""
        assert self._ended_at is not None
        is_short = self._greeting(self._ended_at) <= self._options.max_greeting
        if not is_short or answered_by(self.transcript) is not None:
            return MACHINE_SILENCE
        return HUMAN_SILENCE if self._words else WORDS_LIMIT

    @property
    def _is_click(self) -> bool:
        return (
            self._began_at is not None
            and self._ended_at is not None
            and self._ended_at - self._began_at < CLICK
            and not self._words
        )

    def _greeting(self, now: float) -> float:
        """Return the length of the greeting so far, with its pauses."""
        if self._began_at is None:
            return 0.0
        return (now if self._ended_at is None else self._ended_at) - self._began_at

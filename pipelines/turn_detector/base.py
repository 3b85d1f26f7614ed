"""TurnDetector, its stream and its verdict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.media.frame import AudioFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnDetectorCapabilities:
    """The needs of a detector.

    Args:
        needs_audio: Whether it needs every frame of the caller.
        needs_transcript: Whether a verdict needs the text, so that it is requested after each final.
        sample_rate: Hz of the frames for `push`.
    """

    needs_audio: bool = False
    needs_transcript: bool = True
    sample_rate: int = 16000


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """The basis of a verdict: the text of the open turn, and of the agent's last message."""

    text: str = field(repr=False)
    agent_text: str = field(default="", repr=False)
    language: str = ""


@dataclass(frozen=True, slots=True)
class EndOfTurnPrediction:
    """A verdict: whether the turn sounds complete, and how probable that is (0 … 1)."""

    complete: bool
    probability: float


class TurnDetectorStream(ABC):
    """One session's detector. No exception of it ends the call."""

    @abstractmethod
    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        """Judge the turn that has just paused.

        Raises:
            ProviderError: No verdict; the turn then ends as if judged complete, as after any other exception, and after
                a verdict of another kind.
        """

    def push(self, frame: AudioFrame) -> None:
        """Take one mono frame at the capability's rate. Must not block.

        If it raises, the detector opens another stream; after three failures in a row, with less than five seconds
        between them, each turn counts as complete.
        """

    def close(self) -> None:
        """Free the stream."""


class TurnDetector(Component, ABC):
    """Judges whether a pause ends the user's turn."""

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        """Read before opening."""
        return TurnDetectorCapabilities()

    @abstractmethod
    def open(self) -> TurnDetectorStream:
        """Return a stream for one session.

        Raises:
            ProviderError: The model cannot be loaded.
        """

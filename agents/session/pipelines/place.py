"""PipelinePlace: the parts of a running session that its pipelines use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.media.frame import AudioFrame

EARS = ("stt", "vad", "pipeline")
"""If one of these is lost for good, a session with its own recogniser no longer hears the caller."""


class Ears(Protocol):
    """Where the caller's audio comes from."""

    def hear_by(self, push: Callable[[AudioFrame], None]) -> None:
        """Give the caller's frames to that one from now on."""


@dataclass(slots=True, eq=False)
class PipelinePlace:
    """Where pipelines are opened: a session that runs."""

    step: Callable[[i.TurnInput], None]
    """Has the turn machine take an input at once, before the inbox."""
    answer_last_turn: Callable[[], None]
    """Has the model answer the last turn."""
    ears: Ears
    input_rate: int

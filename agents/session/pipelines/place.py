"""PipelinePlace: what of a session that runs its pipelines are linked to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from anyio.abc import TaskGroup

from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.reports import PipelineReports
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.media.frame import AudioFrame

EARS = ("stt", "vad", "pipeline")
"""If one of these is lost for good, a session with its own recogniser no longer hears the caller."""


class Ears(Protocol):
    """Where the caller's audio comes from."""

    def hear_by(self, push: Callable[[AudioFrame], None]) -> None:
        """Give the caller's frames to that one from now on."""


class Linked(Protocol):
    """The session's loop, and its parts that work with the pipeline."""

    def post(self, event: i.TurnInput) -> None: ...
    def step(self, event: i.TurnInput) -> None: ...
    def run_soon(self, do: Callable[[], None]) -> None: ...
    def report_error(self, error: Exception, source: str, *, is_recovered: bool = False) -> None: ...


class Taken(Protocol):
    """What is called when a pipeline takes over."""

    def __call__(self, line: AttachedPipeline, *, owes_answer: bool) -> None:
        """Use that one; `owes_answer`: the one before was lost over the caller's last words, which are known."""


@dataclass(slots=True, eq=False)
class PipelinePlace:
    """Where pipelines are opened: a session that runs."""

    group: TaskGroup
    linked: Linked
    ears: Ears
    reports: PipelineReports
    input_rate: int
    on_lost: Callable[[Exception], None]

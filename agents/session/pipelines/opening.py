"""Opening: a pipeline that is being opened for a session, or is open and waits for its moment to take over."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio

from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.agents.session.pipelines.swap import ComponentSwap
from vivavoce.agents.turn import effects as fx
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.pipeline import Pipeline


@dataclass(slots=True, eq=False)
class Opening:
    """One pipeline on its way.

    Args:
        name: The pipeline's name for the turn machine.
        control: The application's change; None for a fallback.
    """

    change_id: str
    name: str
    pipeline: Pipeline
    control: PipelineChangeControl | None
    attached: AttachedPipeline | None = None
    """Its connection, if it gets one of its own."""
    swap: ComponentSwap | None = None
    """Else the change of the present connection's components."""
    dropped: fx.DropPipeline | None = None
    decided: anyio.Event = field(default_factory=anyio.Event)
    """Set when it has taken over, or the turn machine has dropped it."""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    @property
    def error(self) -> Exception | None:
        """The error with which the change failed once the pipeline was open."""
        if self.dropped is None:
            return None
        if self.dropped.reason == "no_moment" and self.control is not None:
            return SessionError(f"no moment came within {self.control.within:g} s without speech")
        if self.dropped.reason != "failed":
            return None
        lost = self.attached or self.swap
        return None if lost is None else lost.failure

    def decide(self, dropped: fx.DropPipeline | None = None) -> None:
        """It has taken over, or was dropped."""
        self.dropped = dropped
        self.decided.set()

    @property
    def is_open(self) -> bool:
        """Whether it can take over."""
        return self.attached is not None or self.swap is not None

    def release(self) -> PipelineChangeControl | None:
        """End here; return the application's change, which goes on elsewhere."""
        control, self.control = self.control, None
        self.scope.cancel()
        return control

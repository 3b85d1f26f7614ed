"""PipelineChange, which `update_pipeline()` and `update_components()` return. Its writer is in the session."""

from __future__ import annotations

from typing import Literal

from vivavoce.agents.core.handle import Handle, HandleControl
from vivavoce.pipelines.pipeline import Pipeline

PipelineChangeOutcome = Literal["completed", "failed", "cancelled"]


class ChangeState(HandleControl[PipelineChangeOutcome]):
    """The part of a change's state that the application sees."""

    pipeline: Pipeline
    within: float


class PipelineChange(Handle[ChangeState]):
    """A change from one pipeline to another. Awaiting it resolves when the new pipeline is in use, or the change ended.

    Awaiting raises only a `SessionError`, in code that a speech with the floor waits for, such as
    `on_user_turn_completed` and a conversation flow: the change comes after that code.
    """

    def __repr__(self) -> str:
        return f"PipelineChange({self.id!r}, to={self.pipeline.name!r}, outcome={self.outcome!r})"

    @property
    def pipeline(self) -> Pipeline:
        """The new pipeline; of a changed component, the present one with the new component in it."""
        return self._control.pipeline

    @property
    def within(self) -> float:
        """Seconds within which a moment of silence must come."""
        return self._control.within

    @property
    def outcome(self) -> PipelineChangeOutcome | None:
        """`completed`; `failed`: the new pipeline could not be opened, or no moment came, and the session continues
        with the old one; `cancelled`: the session closed before. None before its end.
        """
        return self._control.outcome

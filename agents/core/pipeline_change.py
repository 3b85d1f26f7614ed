"""PipelineChange, which `update_pipeline()` and `update_components()` return. Its writer is in the session."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal, Protocol

from vivavoce.pipelines.pipeline import Pipeline

PipelineChangeOutcome = Literal["completed", "failed", "cancelled"]


class ChangeState(Protocol):
    """The state of one change, which the session changes."""

    id: str
    pipeline: Pipeline
    within: float
    outcome: PipelineChangeOutcome | None
    error: Exception | None

    @property
    def is_done(self) -> bool: ...

    async def wait(self) -> None: ...


class PipelineChange:
    """A change from one pipeline to another. Awaiting it resolves when the new pipeline is in use, or the change ended.

    Awaiting raises only a `SessionError`, in code that a speech with the floor waits for, such as
    `on_user_turn_completed` and a conversation flow: the change comes after that code.
    """

    def __init__(self, control: ChangeState) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"PipelineChange({self.id!r}, to={self.pipeline.name!r}, outcome={self.outcome!r})"

    def __await__(self) -> Generator[Any, Any, None]:
        return self._control.wait().__await__()

    @property
    def id(self) -> str:
        """The change's id."""
        return self._control.id

    @property
    def pipeline(self) -> Pipeline:
        """The new pipeline; of a changed component, the present one with the new component in it."""
        return self._control.pipeline

    @property
    def within(self) -> float:
        """Seconds within which a moment of silence must come."""
        return self._control.within

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._control.is_done

    @property
    def outcome(self) -> PipelineChangeOutcome | None:
        """`completed`; `failed`: the new pipeline could not be opened, or no moment came, and the session continues
        with the old one; `cancelled`: the session closed before. None before its end.
        """
        return self._control.outcome

    def exception(self) -> Exception | None:
        """Return the error of a change that failed."""
        return self._control.error

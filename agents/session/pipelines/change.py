"""PipelineChange: what `session.change_pipeline()` returns, and what became of it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Literal

import anyio

from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.pipeline import Pipeline

PipelineChangeOutcome = Literal["completed", "failed", "cancelled"]


class PipelineChange:
    """A change from one pipeline to another. Awaiting it means that the new one is in use, or that nothing came of it.

    Awaiting raises nothing but a `SessionError` where it could never resolve: in code that a speech waits for with the
    floor in its hands, such as `on_user_turn_completed` and a conversation flow.

    Args:
        within: Seconds in which a moment must come in which nobody speaks.
        is_urgent: The pipeline before is lost.
    """

    def __init__(self, pipeline: Pipeline, within: float = 60.0, *, is_urgent: bool = False) -> None:
        self.id = new_id("change")
        self.pipeline = pipeline
        self.within = within
        self.is_urgent = is_urgent
        self._done = anyio.Event()
        self._outcome: PipelineChangeOutcome | None = None
        self._error: Exception | None = None

    def __repr__(self) -> str:
        return f"PipelineChange({self.id!r}, to={self.pipeline.name!r}, outcome={self._outcome!r})"

    def __await__(self) -> Generator[Any, Any, None]:
        return self._wait().__await__()

    async def _wait(self) -> None:
        if not self.is_done and holds_floor():
            raise SessionError(
                f"the change to the {self.pipeline.name} pipeline cannot be awaited here: it happens after this code, "
                "when nobody speaks; return from it"
            )
        await self._done.wait()

    @property
    def is_done(self) -> bool:
        """Whether it is over."""
        return self._done.is_set()

    @property
    def outcome(self) -> PipelineChangeOutcome | None:
        """`completed`; `failed`: the new pipeline could not be opened, or no moment came, and the session goes on with
        the one before; `cancelled`: the session closed before. None until it is known."""
        return self._outcome

    def exception(self) -> Exception | None:
        """Return what made it fail, if it has failed."""
        return self._error

    def set_outcome(self, outcome: PipelineChangeOutcome, error: Exception | None = None) -> None:
        """For the session: note the outcome and resolve, once."""
        if self._outcome is None:
            self._outcome, self._error = outcome, error
            self._done.set()

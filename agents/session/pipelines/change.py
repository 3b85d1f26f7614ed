"""PipelineChange, which `change_pipeline()` and `change_component()` return, and PipelineChangeControl, its writer."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, Literal

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.agents.session.pipelines.own import OwnPipeline
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.pipeline import Pipeline, ears_of, having
from vivavoce.pipelines.speech import ComponentSet

PipelineChangeOutcome = Literal["completed", "failed", "cancelled"]


class PipelineChange:
    """A change from one pipeline to another. Awaiting it resolves when the new pipeline is in use, or the change ended.

    Awaiting raises only a `SessionError`, in code that a speech with the floor waits for, such as
    `on_user_turn_completed` and a conversation flow: the change comes after that code.
    """

    def __init__(self, control: PipelineChangeControl) -> None:
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


class PipelineChangeControl:
    """The state of one change, which the session changes and its `change` shows.

    Args:
        within: Seconds within which a moment of silence must come.
        components: Those that take the place of the pipeline's that is in use when the change begins, which `pipeline`
            is made of.
        agents: Those whose components do, the outermost first. With neither, `pipeline` is the application's.
        keeps_ears: Whether the components that hear the caller stay all the same.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        within: float = 60.0,
        components: ComponentSet | None = None,
        *,
        agents: Sequence[Agent] = (),
        keeps_ears: bool = False,
    ) -> None:
        self.id = new_id("change")
        self.pipeline = pipeline
        self.components = components
        self.agents = tuple(agents)
        self.keeps_ears = keeps_ears
        self.within = within
        self.outcome: PipelineChangeOutcome | None = None
        self.error: Exception | None = None
        self.change = PipelineChange(self)
        self.done = anyio.Event()
        """Set when it has ended."""

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self.done.is_set()

    async def wait(self) -> None:
        """Wait for its end in application code.

        Raises:
            SessionError: The change comes after the calling code.
        """
        if not self.is_done and holds_floor():
            raise SessionError(
                f"the change to the {self.pipeline.name} pipeline cannot be awaited here: it happens after this code, "
                "in the next silence; return from it"
            )
        await self.done.wait()

    @property
    def is_of_components(self) -> bool:
        """Whether components change, and not the whole pipeline."""
        return self.components is not None or bool(self.agents)

    def begin_from(self, present: Pipeline, own: OwnPipeline) -> Pipeline:
        """Return the pipeline to open, now that the change begins.

        Args:
            present: The pipeline in use.
            own: The session's own.
        Raises:
            CapabilityError: The components do not go together with those of the pipeline.
        """
        if self.agents:
            self.pipeline = own.with_agents(self.agents)
            if self.keeps_ears:
                self.pipeline = having(self.pipeline, ears_of(present))
        elif self.components is not None:
            self.pipeline = having(present, self.components)
        return self.pipeline

    def taken(self, own: OwnPipeline) -> None:
        """The pipeline has taken over."""
        if self.agents:
            own.take_agents(self.agents)
        elif self.components is not None:
            own.take_components(self.components, self.pipeline)
        else:
            own.begin(self.pipeline)

    def set_outcome(self, outcome: PipelineChangeOutcome, error: Exception | None = None) -> None:
        """Set the outcome and resolve, once."""
        if self.outcome is None:
            self.outcome, self.error = outcome, error
            self.done.set()

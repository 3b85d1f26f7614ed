"""OwnPipeline: the session's own pipeline, without the components of the agent that has the conversation."""

from __future__ import annotations

from vivavoce.agents.session.pipelines.change import PipelineChangeControl
from vivavoce.pipelines.core.errors import CapabilityError
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.speech import ComponentSet

NONE = ComponentSet()


class OwnPipeline:
    """Knows which components the pipeline gets back when the agent hands off.

    A pipeline of `change_pipeline()`, and a fallback, are the session's own as they are, until the next handoff. A
    component of `change_component()` is the session's own too, unless the agent has one of that kind: then it takes the
    place of the agent's, for the agent's time.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self._overrides: ComponentSet = NONE

    def begin(self, pipeline: Pipeline, overrides: ComponentSet = NONE) -> None:
        """The session begins with that pipeline, or falls back to it, and with an agent of those components."""
        self.pipeline, self._overrides = pipeline, overrides

    def changed(self, pipeline: Pipeline, control: PipelineChangeControl | None) -> None:
        """That pipeline has taken over, by that change; None for a fallback."""
        if control is None or control.components is None:
            self.begin(pipeline)
        elif control.is_override:
            self._overrides = control.components
        else:
            try:
                self.pipeline = self.pipeline.having(control.components.but(self._overrides))
            except CapabilityError:  # they go together with the agent's components only
                self.begin(pipeline)

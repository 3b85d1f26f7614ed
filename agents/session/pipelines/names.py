"""PipelineNames: the turn machine's names of a session's pipelines, each for as long as the machine may use it."""

from __future__ import annotations

from collections.abc import Iterable

from vivavoce.agents.turn.inputs import FIRST_PIPELINE
from vivavoce.pipelines.pipeline import Pipeline


class PipelineNames:
    """Names pipelines, and forgets those of no more use, so that a long call does not keep them.

    Args:
        first: The pipeline with which the session was made.
    """

    def __init__(self, first: Pipeline) -> None:
        self._known = {FIRST_PIPELINE: first}
        self._count = 1

    def of(self, pipeline: Pipeline) -> str:
        """Return the name of that pipeline, the same as long as it is known."""
        for name, known in self._known.items():
            if known is pipeline:
                return name
        self._count += 1
        name = f"pipeline_{self._count}"
        self._known[name] = pipeline
        return name

    def pipeline(self, name: str) -> Pipeline:
        """Return the pipeline of that name."""
        return self._known[name]

    def rename(self, name: str, pipeline: Pipeline) -> None:
        """From now on that name is this pipeline's: components were put into the one before."""
        self._known[name] = pipeline

    def keep(self, pipelines: Iterable[Pipeline]) -> None:
        """Forget all pipelines but these and their fallbacks."""
        kept: list[Pipeline] = []
        for each in pipelines:
            pipeline: Pipeline | None = each
            while pipeline is not None:
                kept.append(pipeline)
                pipeline = pipeline.fallback
        self._known = {name: known for name, known in self._known.items() if any(known is each for each in kept)}

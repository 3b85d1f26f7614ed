"""The inputs of the turn machine that concern the session's pipelines; `inputs` has them too."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.turn.options import PipelineTraits

FIRST_PIPELINE = "first"
"""The name of the pipeline with which the session was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineChangeRequested:
    """`update_pipeline()` was called.

    Args:
        pipeline: A name of the pipeline, the same each time; `FIRST_PIPELINE` for the session's first one.
        within: Seconds, from its opening, in which a moment to take over must come.
    """

    change_id: str
    pipeline: str
    within: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineReady:
    """The pipeline that `OpenPipeline` asked for is open. Its traits hold once it takes over.

    Args:
        keeps_ears: Whether all components stay that hear the caller: then it need not wait for the end of a turn.
    """

    change_id: str
    traits: PipelineTraits = PipelineTraits()
    keeps_ears: bool = False


@dataclass(frozen=True, slots=True)
class PipelineChangeFailed:
    """The pipeline that `OpenPipeline` asked for could not be opened, or the session has taken the change back."""

    change_id: str


@dataclass(frozen=True, slots=True)
class PipelineLost:
    """An open pipeline is lost for good.

    Args:
        pipeline: Its name, as in `PipelineChangeRequested`.
        component: The part of it that is lost, such as "stt", "llm" or "realtime_model"; "pipeline" for all of it.
        fallback: The name of the pipeline that it falls back to; empty if none.
        loss_id: Names this loss in the `ReportLoss` that answers it.
    """

    pipeline: str
    component: str
    fallback: str = ""
    loss_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackAtStart:
    """The session starts with that pipeline: the one before could not be connected, or the agent has components of its
    own.
    """

    pipeline: str
    traits: PipelineTraits = PipelineTraits()


@dataclass(frozen=True, slots=True)
class PipelineChangeDue:
    """All inputs that have come are taken: the open pipeline takes over, if it may now."""


@dataclass(frozen=True, slots=True)
class PipelineChangesClosed:
    """The session is about to close: its pipeline is changed no more."""

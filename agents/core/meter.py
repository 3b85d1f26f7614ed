"""Meter: the port to which a session reports its usage as it comes, if it has a budget."""

from __future__ import annotations

from abc import ABC, abstractmethod

from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.core.members import name_of
from vivavoce.pipelines.pipeline import Pipeline


class Meter(ABC):
    """Counts what a session uses. All calls are made on the session's event loop, and never wait."""

    @abstractmethod
    def used(self, model: str, usage: UsageRecord) -> None:
        """A model, by its name `provider/model`, was used."""

    @abstractmethod
    def answered(self, latency: float) -> None:
        """The caller has heard the answer to a turn after so many seconds."""


def model_in_use(pipeline: Pipeline, kind: str) -> str:
    """Return provider and model of the pipeline's part of that kind, of a fallback those of the member in use.

    Args:
        kind: `stt`, `tts`, or `llm` for the part that answers: a realtime model too.
    Returns:
        Such as `openai/gpt-4o`; empty if it has no such part.
    """
    return _model_of(pipeline, ("llm", "realtime_model") if kind == "llm" else (kind,))


def text_model_in_use(pipeline: Pipeline) -> str:
    """Return provider and model of the pipeline's LLM; empty if it has none: a realtime model is not one."""
    return _model_of(pipeline, ("llm",))


def _model_of(pipeline: Pipeline, kinds: tuple[str, ...]) -> str:
    for named, part in pipeline.parts():
        if named in kinds:
            return part.model if part.members else name_of(part)
    named_parts = pipeline.capabilities.components
    return next((f"{provider}/{model}".rstrip("/") for name, provider, model in named_parts if name in kinds), "")

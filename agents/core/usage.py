"""UsageByModel: what each model of a session was used for, counted as it comes, with estimates."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.agents.records import UsageRecord
from vivavoce.agents.turn_records.turn_record import add_usage
from vivavoce.pipelines.core.members import name_of
from vivavoce.pipelines.pipeline import Pipeline


class UsageByModel:
    """The usage of each model. All calls are made on the session's event loop, and never wait."""

    def __init__(self) -> None:
        self.models: dict[str, UsageRecord] = {}
        """By the name of the model, `provider/model`. `add()` alone changes it."""
        self._listeners: list[Callable[[], None]] = []

    def add(self, model: str, used: UsageRecord) -> None:
        """Count a use of that model, and call the listeners."""
        self.models[model] = add_usage(self.models.get(model, UsageRecord()), used)
        for listener in self._listeners:
            listener()

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each use, for as long as the session lives."""
        self._listeners.append(listener)


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

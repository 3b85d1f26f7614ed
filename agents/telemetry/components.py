"""Components: provider and model of each part of a session's pipeline, as attributes."""

from __future__ import annotations

from collections.abc import Sequence

STANDS_IN = {"llm": "realtime_model", "tts": "realtime_model", "stt": "realtime_model"}
"""The part that does the work of one that a pipeline lacks."""


class Components:
    """Looks up parts.

    Args:
        parts: (kind, provider, model), as `PipelineCapabilities.components`.
    """

    def __init__(self, parts: Sequence[tuple[str, str, str]]) -> None:
        self._parts = {kind: (provider, model) for kind, provider, model in parts}
        self._attributes: dict[str, dict[str, str]] = {}

    def change(self, parts: Sequence[tuple[str, str, str]]) -> None:
        """The session has another pipeline."""
        self._parts = {kind: (provider, model) for kind, provider, model in parts}
        self._attributes = {}

    def has(self, kind: str) -> bool:
        """Whether the pipeline has that part, or a replacement for it."""
        return kind in self._parts or STANDS_IN.get(kind, "") in self._parts

    def model(self, kind: str) -> str:
        """Return its model's name; empty where it has none."""
        return self.attributes(kind).get("gen_ai.request.model", "")

    def attributes(self, kind: str) -> dict[str, str]:
        """Return `gen_ai.provider.name` and, where it has a name, `gen_ai.request.model`; not to be changed."""
        known = self._attributes.get(kind)
        if known is None:
            provider, model = self._parts.get(kind) or self._parts.get(STANDS_IN.get(kind, ""), ("", ""))
            known = {"gen_ai.provider.name": provider, "gen_ai.request.model": model}
            self._attributes[kind] = known = {name: value for name, value in known.items() if value}
        return known

    def facts(self) -> dict[str, str]:
        """Return provider and model of every part, for the session's span."""
        facts: dict[str, str] = {}
        for kind, (provider, model) in self._parts.items():
            facts[f"vivavoce.{kind}.provider"] = provider
            if model:
                facts[f"vivavoce.{kind}.model"] = model
        return facts

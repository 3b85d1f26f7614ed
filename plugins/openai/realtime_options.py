"""RealtimeOptions: voice, the server's turn detection and transcribing, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vivavoce.plugins.openai.client import ConnectionOptions

NoiseReduction = Literal["near_field", "far_field"]
Eagerness = Literal["low", "medium", "high", "auto"]

PREFIX_PADDING = 0.3
"""Seconds before speech that the server keeps, as it does by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVAD:
    """The server ends turns by silence."""

    threshold: float = 0.5
    silence: float = 0.5
    """Seconds that end a turn."""

    def __post_init__(self) -> None:
        if not (0 <= self.threshold <= 1 and self.silence > 0):
            raise ValueError(f"need 0 <= threshold <= 1 and silence > 0 s, got {self.threshold!r}, {self.silence!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticVAD:
    """The server ends turns by what was said."""

    eagerness: Eagerness = "auto"

    def __post_init__(self) -> None:
        if self.eagerness not in get_args(Eagerness):
            raise ValueError(f"eagerness must be one of {get_args(Eagerness)}, got {self.eagerness!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions:
    """Settings of `openai.RealtimeModel` that seldom change. What is None is left to the server."""

    voice: str = "marin"
    speed: float | None = None
    """0.25 … 1.5."""
    turn_detection: ServerVAD | SemanticVAD = field(default_factory=ServerVAD)
    """Where the pipeline has no VAD or turn detector of its own."""
    transcription_model: str = "gpt-4o-mini-transcribe"
    """Transcribes the user, beside the model."""
    language: str = ""
    """ISO 639-1, such as `"en"`: helps the transcription."""
    noise_reduction: NoiseReduction | None = None
    max_output_tokens: int | None = None
    """Of one answer, 1 … 4096."""
    reasoning_effort: str | None = None
    """Of models that reason."""
    extra_session: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the session object that have no option here, such as `truncation`; they win over those that have."""
    max_seconds: float = 3600.0
    """After how long the server ends a session."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)

    def __post_init__(self) -> None:
        if self.speed is not None and not 0.25 <= self.speed <= 1.5:
            raise ValueError(f"need 0.25 <= speed <= 1.5, got {self.speed!r}")
        if self.max_output_tokens is not None and not 1 <= self.max_output_tokens <= 4096:
            raise ValueError(f"need 1 <= max_output_tokens <= 4096, got {self.max_output_tokens!r}")
        if self.max_seconds <= 0:
            raise ValueError(f"need max_seconds > 0 s, got {self.max_seconds!r}")

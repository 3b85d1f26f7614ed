"""RealtimeOptions: voice, the server's turn detection and transcribing, limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_number, check_whole, is_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.options import ConnectionOptions

NoiseReduction = Literal["near_field", "far_field"]
Eagerness = Literal["low", "medium", "high", "auto"]

PREFIX_PADDING = 0.3
"""Seconds before speech that the server keeps; its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVAD:
    """The server ends turns by silence."""

    threshold: float = 0.5
    silence: float = 0.5
    """Seconds that end a turn."""

    def __post_init__(self) -> None:
        check_number("silence", self.silence, above=0, unit="s")
        if not (is_number(self.threshold) and 0 <= self.threshold <= 1):
            raise ConfigurationError(f"need 0 <= threshold <= 1, got {self.threshold!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SemanticVAD:
    """The server ends turns by the words."""

    eagerness: Eagerness = "auto"

    def __post_init__(self) -> None:
        check_choice("eagerness", self.eagerness, get_args(Eagerness))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealtimeOptions:
    """Settings of `openai.RealtimeModel` that seldom change. The server decides a setting that is None.

    Each option: docs/options.md.
    """

    voice: str = "marin"
    """One of the server's voices; it cannot change once the model has spoken."""
    speed: float | None = None
    """How fast the voice speaks, 0.25 … 1.5; 1 is normal."""
    turn_detection: ServerVAD | SemanticVAD = field(default_factory=ServerVAD)
    """The server's turn detection, if the pipeline has no VAD or turn detector."""
    transcription_model: str = "gpt-transcribe"
    """Transcribes the user, beside the model."""
    language: str = ""
    """ISO 639-1, such as `"en"`: helps the transcription."""
    noise_reduction: NoiseReduction | None = None
    """The server's, before it detects turns: for a microphone close by (`near_field`) or in a room (`far_field`)."""
    max_output_tokens: int | None = None
    """The most tokens of one answer, 1 … 4096."""
    reasoning_effort: str | None = None
    """How much a reasoning model thinks, such as `"low"`."""
    extra_session: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Fields of the session object that have no option here, such as `truncation`; they replace those that have one."""
    max_seconds: float = 3600.0
    """Seconds after which the server ends a session."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("speed", self.speed, at_least=0.25, or_none=True)
        check_whole("max_output_tokens", self.max_output_tokens, at_least=1, or_none=True)
        check_number("max_seconds", self.max_seconds, above=0, unit="s")
        check_choice("noise_reduction", self.noise_reduction, (None, *get_args(NoiseReduction)))
        if (self.speed or 0) > 1.5 or (self.max_output_tokens or 0) > 4096:
            raise ConfigurationError(
                f"need speed <= 1.5 and max_output_tokens <= 4096, got {self.speed!r}, {self.max_output_tokens!r}"
            )

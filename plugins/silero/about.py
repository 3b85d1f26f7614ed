"""The facts about the Silero VAD."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.silero.vad import VAD

PROVIDERS = (
    Provider(
        name="silero",
        title="Silero VAD",
        docs="https://github.com/snakers4/silero-vad",
        parts=(Part(kind="vad", make=VAD, note="It costs 0.1 ms for 32 ms of sound."),),
    ),
)

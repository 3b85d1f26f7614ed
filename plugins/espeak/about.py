"""The facts about espeak-ng."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.espeak.tts import TTS

PROVIDERS = (
    Provider(
        name="espeak",
        title="espeak-ng",
        docs="https://github.com/espeak-ng/espeak-ng",
        parts=(Part(kind="tts", make=TTS, note="It sounds like a machine. It runs in a process of its own (GPL-3)."),),
    ),
)

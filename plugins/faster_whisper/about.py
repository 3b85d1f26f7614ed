"""The facts about faster-whisper."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.faster_whisper.stt import STT

PROVIDERS = (
    Provider(
        name="faster_whisper",
        title="faster-whisper",
        docs="https://github.com/SYSTRAN/faster-whisper",
        parts=(
            Part(
                kind="stt",
                make=STT,
                arguments='"whisper-base.en-ct2"',
                note="It runs on this machine, utterance by utterance, from a model folder that you have.",
            ),
        ),
    ),
)

"""The facts about hibari."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.hibari.tts import TTS, VOICE

PROVIDERS = (
    Provider(
        name="hibari",
        title="hibari",
        docs="https://github.com/MMWilliams/hibari",
        parts=(
            Part(
                kind="tts",
                make=TTS,
                languages=("en-US",),
                voices=(VOICE,),
                note="It runs on this machine; the weights of its voice come with the extra.",
            ),
        ),
    ),
)

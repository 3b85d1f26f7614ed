"""The facts about Moonshine."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.moonshine.stt import LANGUAGE, STT

PROVIDERS = (
    Provider(
        name="moonshine",
        title="Moonshine",
        docs="https://github.com/moonshine-ai/moonshine",
        parts=(
            Part(
                kind="stt",
                make=STT,
                models=("tiny-en",),
                languages=(LANGUAGE,),
                note="It runs on this machine; its weights come with the extra.",
            ),
        ),
    ),
)

"""The facts about pocketsphinx."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.pocketsphinx.stt import STT

PROVIDERS = (
    Provider(
        name="pocketsphinx",
        title="pocketsphinx",
        docs="https://github.com/cmusphinx/pocketsphinx",
        parts=(
            Part(
                kind="stt",
                make=STT,
                arguments="grammar=GRAMMAR",
                languages=("en",),
                note="It hears the sentences of a grammar only.",
            ),
        ),
    ),
)

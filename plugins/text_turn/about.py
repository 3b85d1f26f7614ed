"""The facts about the turn detector by words."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.text_turn.detector import TurnDetector

PROVIDERS = (
    Provider(
        name="text_turn",
        title="Text turn",
        docs="",
        parts=(
            Part(
                kind="turn_detector",
                make=TurnDetector,
                languages=("en", "de"),
                note="Other languages: `rules` of your own.",
            ),
        ),
    ),
)

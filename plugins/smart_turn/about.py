"""The facts about Smart Turn."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.smart_turn.detector import TurnDetector
from vivavoce.plugins.smart_turn.weights import WEIGHTS

PROVIDERS = (
    Provider(
        name="smart_turn",
        title="Smart Turn v3",
        docs="https://github.com/pipecat-ai/smart-turn",
        parts=(
            Part(
                kind="turn_detector",
                make=TurnDetector,
                note="It judges the sound. `vivavoce models get smart_turn` gets its weights; "
                "from then on a cascade without a turn detector has this one.",
            ),
        ),
        files=(WEIGHTS,),
    ),
)

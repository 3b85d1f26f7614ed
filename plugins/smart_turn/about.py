"""The facts about Smart Turn."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.smart_turn.detector import TurnDetector

PROVIDERS = (
    Provider(
        name="smart_turn",
        title="Smart Turn v3",
        docs="https://github.com/pipecat-ai/smart-turn",
        parts=(
            Part(
                kind="turn_detector",
                make=TurnDetector,
                arguments='"smart-turn-v3.2-cpu.onnx"',
                note="It judges the sound. Its weights are a file that you download.",
            ),
        ),
    ),
)

"""plugins/smart_turn keeps the promises of a turn detector, with a network that the test makes."""

from __future__ import annotations

from pathlib import Path

import kit.networks
from kit.speech import padded, white_noise
from vivavoce.pipelines.testing import check_turn_detector
from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.plugins import smart_turn


async def test_smart_turn_keeps_the_promises_of_a_turn_detector(tmp_path: Path) -> None:
    path = kit.networks.quiet_end(tmp_path / "quiet_end.onnx")
    await check_turn_detector(
        lambda: smart_turn.TurnDetector(path),
        TurnContext(text="a table for two"),
        TurnContext(text="a table for"),
        complete_audio=padded(white_noise(1.0, -30), before=0.5, after=1.0),
        incomplete_audio=white_noise(2.0, -30),
        limit=60.0,
    )

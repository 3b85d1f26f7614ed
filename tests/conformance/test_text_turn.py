"""plugins/text_turn keeps the promises of a turn detector."""

from __future__ import annotations

import pytest

from kit.limits import LIMIT
from vivavoce.pipelines.testing import check_turn_detector
from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.plugins import text_turn


@pytest.mark.parametrize(
    ("language", "whole", "unfinished"),
    [("en", "a table for two", "a table for"), ("de", "einen Tisch für zwei", "einen Tisch für")],
)
async def test_text_turn_keeps_the_promises_of_a_turn_detector(language: str, whole: str, unfinished: str) -> None:
    await check_turn_detector(
        lambda: text_turn.TurnDetector(language=language),
        TurnContext(text=whole),
        TurnContext(text=unfinished),
        limit=LIMIT,
    )

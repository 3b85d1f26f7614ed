"""examples/negotiation.py in virtual time: the agents agree."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.testing import run_virtual

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "negotiation.py"))


def test_the_two_agents_agree_on_a_price(capsys: pytest.CaptureFixture[str]) -> None:
    run_virtual(EXAMPLE["main"]())

    assert capsys.readouterr().out.splitlines() == [
        "guest: Bid(price=70)",
        "hotel: Offer(price=110)",
        "guest: Bid(price=90)",
        "hotel: Offer(price=90)",
        "guest: Accept(price=90)",
    ]

"""examples/chat.py in virtual time: the agent answers in writing."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.testing import run_virtual

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "chat.py"))


def test_a_table_is_booked_in_writing(capsys: pytest.CaptureFixture[str]) -> None:
    run_virtual(EXAMPLE["main"]())

    assert capsys.readouterr().out.splitlines() == [
        "agent: Hello! Would you like a table?",
        "user: yes please",
        "agent: For which day?",
        "user: on friday",
        "agent: Your table is booked for friday. Is there anything else?",
    ]

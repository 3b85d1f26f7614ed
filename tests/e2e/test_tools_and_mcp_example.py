"""examples/tools_and_mcp.py, run as its docstring says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/tools_and_mcp.py"


@pytest.mark.e2e
@pytest.mark.timeout(120)
@pytest.mark.test_all("an example in a process of its own")
def test_the_example_finds_a_book_by_its_server_and_reserves_another_by_its_own_tool() -> None:
    run = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=50, check=True)
    assert run.stdout.splitlines() == [
        "user: Where is Emma?",
        "  shelf_of -> 3",
        "assistant: Emma is on shelf three.",
        "user: Reserve Persuasion, please.",
        "assistant: One moment, I am asking the other branch.",
        "  reserve -> Persuasion is reserved until friday",
        "assistant: Done, it waits for you until friday.",
    ]
    assert "Traceback" not in run.stderr

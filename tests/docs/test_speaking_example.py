"""examples/speaking.py, run as in its docstring: the heard texts, their order, and their outcomes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kit.project import run_script

EXAMPLE = Path(__file__).parents[2] / "examples" / "speaking.py"


def test_the_guide_says_replies_and_is_interrupted_by_the_application(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run_script(EXAMPLE, folder=tmp_path, capsys=capsys)
    assert [tuple(line.split(maxsplit=3)[2:]) for line in printed.splitlines()] == [
        ("completed", "Welcome. This call is recorded."),
        ("completed", "Which room are you in?"),
        ("interrupted", "This ship lay under the ice for ninety years until two fishermen caught"),
        ("cancelled", "-"),  # the answer that waited for its tool
        ("completed", "I have to stop here."),
        ("completed", "We close in ten minutes."),
        ("completed", "Please return the headphones."),
        ("completed", "Goodbye, and thank you for coming."),
    ]

"""The process of the simulated caller, seen from its parent."""

from __future__ import annotations

from pathlib import Path

import pytest

from vivavoce.agents.caller.process import run_caller
from vivavoce.pipelines.core.errors import RoomError

STUBBORN = """
import json, time
print(json.dumps({"event": "failed", "kind": "room", "problem": "the line is dead"}), flush=True)
time.sleep(60)  # does not look at stdin
"""
DYING = """
import sys
sys.exit("no such voice")
"""


async def test_a_caller_that_does_not_end_with_its_stdin_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stubborn_caller.py").write_text(STUBBORN)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RoomError, match="the line is dead"):
        await run_caller("stubborn_caller", {}, lambda event, data: None)


async def test_a_caller_that_dies_before_it_has_read_its_request_is_an_error_with_its_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "dying_caller.py").write_text(DYING)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(RoomError, match="died with status 1: no such voice"):
        await run_caller("dying_caller", {"more than a pipe holds": "a" * 300_000}, lambda event, data: None)

"""examples/test_my_agent.py, run by pytest as a project of its own would: under both modes of pytest-asyncio."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "test_my_agent.py"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_example_s_tests_are_collected_and_pass(mode: str, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    (tmp_path / "pytest.ini").write_text(
        f"[pytest]\nfilterwarnings = error\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout


@pytest.mark.timeout(60)
def test_the_example_runs_in_the_repository_as_its_docstring_says() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_my_agent.py"]
    run = subprocess.run(command, cwd=EXAMPLE.parents[1], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout

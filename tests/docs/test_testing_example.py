"""examples/test_my_agent.py, run by pytest as a project of its own would: under both modes of pytest-asyncio."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kit.project import run_pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "test_my_agent.py"


@pytest.mark.parametrize("mode", ["strict", "auto"])
def test_the_example_s_tests_are_collected_and_pass(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    ini = f"filterwarnings = error\nasyncio_mode = {mode}\nasyncio_default_fixture_loop_scope = function\n"
    status, printed = run_pytest(tmp_path, "-p", "asyncio", ini=ini, capsys=capsys)
    assert status == 0, printed
    assert "5 passed" in printed


@pytest.mark.test_all("a process of its own takes seconds, and the same tests run in a folder of their own")
@pytest.mark.timeout(60)
def test_the_example_runs_in_the_repository_as_its_docstring_says() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "examples/test_my_agent.py"]
    run = subprocess.run(command, cwd=EXAMPLE.parents[1], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "5 passed" in run.stdout

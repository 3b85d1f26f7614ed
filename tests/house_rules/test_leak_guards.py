"""The suite's leak guards (tests/conftest.py), tried on tests that leak."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from house_rules.tree import ROOT

SETTINGS = f"""
[pytest]
pythonpath = {ROOT / "tests"}
asyncio_mode = auto
addopts = --import-mode=importlib -p no:anyio -p no:cacheprovider
markers = e2e
"""


SETTLING = "CHILD_SETTLING = 3.0"

END = """
RUN_IS_OVER = threading.Event()

def pytest_unconfigure():
    RUN_IS_OVER.set()

@pytest.fixture
def is_over():
    return RUN_IS_OVER
"""


def _suite(folder: Path, tests: str, next_module: str = "", options: str = "-q") -> str:
    """Run `tests` under this suite's conftest with shorter waits for leaks, and return pytest's output."""
    guards = (ROOT / "tests/conftest.py").read_text()
    assert guards.count(SETTLING) == 1
    (folder / "conftest.py").write_text(guards.replace(SETTLING, "CHILD_SETTLING = 0.5") + END)
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "test_it.py").write_text(f"import asyncio, subprocess, sys, threading\n{tests}")
    (folder / "test_next.py").write_text(next_module)
    pytest_command = [str(Path(sys.executable).with_name("pytest")), options, "--rootdir", str(folder), str(folder)]
    return subprocess.run(pytest_command, cwd=folder, capture_output=True, text=True, check=False).stdout


def test_a_test_that_leaves_a_task_fails(tmp_path: Path) -> None:
    printed = _suite(
        tmp_path,
        "async def test_leaks():\n"
        "    global task\n"
        "    task = asyncio.create_task(asyncio.Event().wait(), name='forgotten')\n"
        "async def test_after_it():\n"
        "    pass\n",
    )
    assert "1 task(s) outlived the test" in printed
    assert "forgotten" in printed
    assert "2 passed, 1 error" in printed


@pytest.mark.timeout(60)
def test_a_test_that_holds_its_loop_fails_and_shows_where(tmp_path: Path) -> None:
    printed = _suite(
        tmp_path,
        "async def test_holds():\n    threading.Event().wait(30)\n",
        next_module="async def test_after_it():\n    pass\n",
    )
    assert "LoopHeldError: the event loop was not given back for 5 s of real time" in printed
    assert "threading.Event().wait(30)" in printed
    assert "1 failed, 1 passed, 1 error" in printed, "the module behind it is not touched"


def test_a_run_that_leaves_a_child_process_fails_and_names_the_test(tmp_path: Path) -> None:
    printed = _suite(
        tmp_path,
        "def test_spawns():\n"
        "    global child\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])\n"
        "def test_after_it():\n"
        "    pass\n",
    )
    found = re.search(r"process (\d+) \(.*first seen in test_it.py::test_spawns", printed)
    assert found is not None, printed
    os.kill(int(found[1]), signal.SIGKILL)


def test_a_run_that_leaves_a_thread_fails_and_names_the_test(tmp_path: Path) -> None:
    printed = _suite(
        tmp_path,
        "def test_starts(is_over):\n    threading.Thread(target=is_over.wait, name='forgotten').start()\n",
    )
    assert "thread forgotten, first seen in test_it.py::test_starts" in printed


def test_a_lane_s_higher_limit_is_not_lowered_by_the_mark_of_a_test(tmp_path: Path) -> None:
    tests = "import pytest\n@pytest.mark.timeout(0.2)\ndef test_waits():\n    threading.Event().wait(0.5)\n"
    assert "1 passed" in _suite(tmp_path, tests, options="--timeout=60")
    assert "1 passed" not in _suite(tmp_path, tests, options="--timeout=0.1")


@pytest.mark.parametrize("body", ["task = asyncio.create_task(asyncio.sleep(0)); await task", "pass"])
def test_a_test_that_cleans_up_passes(tmp_path: Path, body: str) -> None:
    printed = _suite(
        tmp_path,
        f"async def test_clean():\n    {body}\n"
        "def test_reaps():\n"
        "    assert subprocess.run([sys.executable, '-c', '']).returncode == 0\n",
    )
    assert "2 passed" in printed

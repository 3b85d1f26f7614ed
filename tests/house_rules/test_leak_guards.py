"""The suite's leak guards (tests/conftest.py), tried on tests that leak: all of them in one run of pytest."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from house_rules.tree import ROOT

SETTINGS = f"""
[pytest]
pythonpath = {ROOT / "tests"}
asyncio_mode = auto
addopts = --import-mode=importlib -p asyncio -p timeout -p no:cacheprovider
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

HEAD = "import asyncio, pytest, subprocess, sys, threading\n"

LEAKS = {
    "task": """
async def test_leaks():
    global task
    task = asyncio.create_task(asyncio.Event().wait(), name="forgotten task")

async def test_after_it():
    pass
""",
    "loop": """
async def test_holds():
    threading.Event().wait(30)
""",
    "next_module": """
async def test_after_it():
    pass
""",
    "child": """
def test_spawns():
    global child
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

def test_after_it():
    pass
""",
    "thread": """
def test_starts(is_over):
    threading.Thread(target=is_over.wait, name="forgotten thread").start()
""",
    "clean": """
async def test_awaits():
    await asyncio.create_task(asyncio.sleep(0))

async def test_does_nothing():
    pass

def test_reaps():
    assert subprocess.run([sys.executable, "-c", ""]).returncode == 0
""",
}
"""Module -> its tests."""

FAILS = r"^ERROR test_\w+\.py::\S+ - Failed: left behind"
"""The line of pytest's summary about a run that leaves something; the run's last test has the error."""


class Run:
    """A run of pytest: what it printed, and the outcomes of each module's tests."""

    def __init__(self, printed: str) -> None:
        self.printed = printed
        self.outcomes: defaultdict[str, list[str]] = defaultdict(list)
        for outcome, module in re.findall(r"^(PASSED|FAILED|ERROR) test_(\w+)\.py::", printed, flags=re.M):
            self.outcomes[module].append(outcome)


def _run(folder: Path, modules: dict[str, str], *options: str) -> Run:
    """Run tests under this suite's conftest with shorter waits for leaks."""
    guards = (ROOT / "tests/conftest.py").read_text()
    assert guards.count(SETTLING) == 1
    (folder / "conftest.py").write_text(guards.replace(SETTLING, "CHILD_SETTLING = 0.5") + END)
    (folder / "pytest.ini").write_text(SETTINGS)
    for name, tests in modules.items():
        (folder / f"test_{name}.py").write_text(HEAD + tests)
    command = [str(Path(sys.executable).with_name("pytest")), "-rA", *options, "--rootdir", str(folder), str(folder)]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return Run(subprocess.run(command, cwd=folder, env=alone, capture_output=True, text=True, check=False).stdout)


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    run = _run(tmp_path_factory.mktemp("leaking"), LEAKS)
    yield run
    for pid in re.findall(r"process (\d+) \(", run.printed):
        os.kill(int(pid), signal.SIGKILL)


pytestmark = pytest.mark.timeout(90)  # the first one waits for the run


def test_a_test_that_leaves_a_task_fails(leaking: Run) -> None:
    assert "1 task(s) outlived the test" in leaking.printed
    assert "forgotten task" in leaking.printed
    assert sorted(leaking.outcomes["task"]) == ["ERROR", "PASSED", "PASSED"]


def test_a_test_that_holds_its_loop_fails_and_shows_where(leaking: Run) -> None:
    assert "LoopHeldError: the event loop was not given back for 5 s of real time" in leaking.printed
    assert "threading.Event().wait(30)" in leaking.printed
    assert sorted(leaking.outcomes["loop"]) == ["ERROR", "FAILED"]
    assert leaking.outcomes["next_module"] == ["PASSED"], "the module behind it is not touched"


def test_a_run_that_leaves_a_child_process_fails_and_names_the_test(leaking: Run) -> None:
    assert re.search(FAILS, leaking.printed, re.M), leaking.printed
    assert re.search(r"process \d+ \(.*first seen in test_child.py::test_spawns", leaking.printed), leaking.printed


def test_a_run_that_leaves_a_thread_fails_and_names_the_test(leaking: Run) -> None:
    assert re.search(FAILS, leaking.printed, re.M), leaking.printed
    assert "thread forgotten thread, first seen in test_thread.py::test_starts" in leaking.printed


def test_a_test_that_cleans_up_passes(leaking: Run) -> None:
    assert leaking.outcomes["clean"] == ["PASSED"] * 3


def test_a_lane_s_higher_limit_is_not_lowered_by_the_mark_of_a_test(tmp_path: Path) -> None:
    waits = {"waits": "@pytest.mark.timeout(0.2)\ndef test_waits():\n    threading.Event().wait(0.5)\n"}
    assert _run(tmp_path, waits, "--timeout=60").outcomes["waits"] == ["PASSED"]
    assert "PASSED" not in _run(tmp_path, waits, "--timeout=0.1").outcomes["waits"]

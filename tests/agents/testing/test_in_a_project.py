"""A project of its own uses the test kit: under pytest alone, pytest-asyncio strict and auto, and asyncio.run.

Each has a folder of its own and none of this repository's settings; one runs in a process of its own, where nothing of
this repository's tests can be imported.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kit.project import run_pytest, run_script

LIMIT = 60.0
LOOP = "asyncio_default_fixture_loop_scope = function"  # the plugin warns without it

AGENT = '''
from vivavoce.agents import Agent, function_tool


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings.")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        return f"booked {day}"

    async def on_enter(self) -> None:
        await self.session.say("Hello!")
'''

SCENARIO = """
from my_agent import Host
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedTTSOptions, SessionHarness, ToolCall

CALL = ToolCall(call_id="1", name="book", arguments='{"day": "friday"}')
FAST = ScriptedTTSOptions(seconds_per_word=0.02)


def harness():
    voice = ScriptedTTS(first_byte=0.01, options=FAST)
    return SessionHarness(Host(), ScriptedLLM([CALL], "Booked."), tts=voice)


async def scenario(harness):
    harness.expect.next_message("Hello!").no_more()
    answer = await harness.user("a table for friday")
    answer.tool_call("book", day="friday").returned("booked friday").next_message("Booked.").no_more()


async def live():
    async with harness() as running:
        await scenario(running)
    return running.close_report.is_clean
"""

PLAIN_TEST = """
from my_scenario import harness, scenario


def test_the_host_books():
    harness().run(scenario).expect_outcomes("completed", "completed")
"""

STRICT_TEST = """
import pytest
from my_scenario import live


@pytest.mark.asyncio
async def test_the_host_books():
    assert await live()
"""

AUTO_TEST = """
from my_scenario import live


async def test_the_host_books():
    assert await live()
"""

SCRIPT = """
import asyncio
from my_scenario import harness, live, scenario
from vivavoce.agents.testing import run_virtual


async def main():
    async with harness() as running:
        await scenario(running)
        return running.now


print(asyncio.run(live()), round(run_virtual(main()), 3))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "my_agent.py").write_text(AGENT)
    (tmp_path / "my_scenario.py").write_text(SCENARIO)
    return tmp_path


def pytest_in(project: Path, test: str, mode: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a test under a mode of pytest-asyncio, with warnings as errors; return the output."""
    (project / "test_host.py").write_text(test)
    ini = f"filterwarnings = error\nasyncio_mode = {mode}\n{LOOP}\n"
    status, printed = run_pytest(project, "-p", "asyncio", ini=ini, capsys=capsys)
    assert status == 0, printed
    return printed


@pytest.mark.timeout(90)
def test_under_pytest_alone_in_a_process_of_its_own(project: Path) -> None:
    (project / "test_host.py").write_text(PLAIN_TEST)
    (project / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        env={**alone, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.parametrize(
    ("mode", "test"),
    [("auto", PLAIN_TEST), ("auto", AUTO_TEST), ("strict", PLAIN_TEST), ("strict", STRICT_TEST)],
    ids=["auto, plain", "auto, async", "strict, plain", "strict, async"],
)
def test_under_pytest_asyncio(mode: str, test: str, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 passed" in pytest_in(project, test, mode, capsys)


def test_under_plain_asyncio_run_and_run_virtual(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "main.py").write_text(SCRIPT)
    assert run_script(project / "main.py", capsys=capsys) == "True 0.06\n"


def test_a_failing_expectation_fails_the_project_s_test_with_the_conversation(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = PLAIN_TEST.replace(
        "harness().run", "harness().run(until=1.0).expect.tool_call('refund')\n    harness().run"
    )
    (project / "test_host.py").write_text(broken)
    status, printed = run_pytest(project, capsys=capsys)
    assert status == 1
    assert "expected a tool call refund()" in printed
    assert "came instead: assistant: 'Hello!'" in printed
    assert "expectations.py" not in printed  # the test's own line is shown


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")  # of this test's own garbage
def test_garbage_of_earlier_tests_is_not_a_project_s(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    garbage: list[object] = [socket.socket()]
    garbage.append(garbage)
    gc.collect()  # it is old now, and no small collection finds it
    del garbage
    (tmp_path / "test_own.py").write_text("def test_nothing():\n    pass\n")
    status, printed = run_pytest(tmp_path, ini="filterwarnings = error\n", capsys=capsys)
    assert status == 0, printed

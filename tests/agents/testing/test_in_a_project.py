"""A project of its own uses the test kit: under pytest alone, pytest-asyncio strict and auto, and asyncio.run.

Each runs as a user would run it, in a process and a folder of its own, with nothing of this repository's tests.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60.0
LOOP = ("-o", "asyncio_default_fixture_loop_scope=function")  # the plugin warns without it

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


def run(project: Path, *arguments: str) -> str:
    """Run Python in the project's folder; return its output."""
    done = subprocess.run([sys.executable, *arguments], cwd=project, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pytest_in(project: Path, test: str, *options: str) -> str:
    (project / "test_host.py").write_text(test)
    (project / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return run(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options)


@pytest.mark.timeout(90)
def test_under_pytest_without_any_asyncio_plugin(project: Path) -> None:
    assert "1 passed" in pytest_in(project, PLAIN_TEST, "-p", "no:asyncio", "-p", "no:anyio")


@pytest.mark.timeout(90)
def test_a_plain_test_is_not_disturbed_by_the_plugin(project: Path) -> None:
    assert "1 passed" in pytest_in(project, PLAIN_TEST, "-o", "asyncio_mode=auto", *LOOP)


@pytest.mark.timeout(90)
def test_under_pytest_asyncio_strict(project: Path) -> None:
    assert "1 passed" in pytest_in(project, STRICT_TEST, "-o", "asyncio_mode=strict", *LOOP)


@pytest.mark.timeout(90)
def test_under_pytest_asyncio_auto(project: Path) -> None:
    assert "1 passed" in pytest_in(project, AUTO_TEST, "-o", "asyncio_mode=auto", *LOOP)


@pytest.mark.timeout(90)
def test_under_plain_asyncio_run_and_run_virtual(project: Path) -> None:
    (project / "main.py").write_text(SCRIPT)
    assert run(project, "-W", "error", "main.py") == "True 0.06\n"


@pytest.mark.timeout(90)
def test_a_failing_expectation_fails_the_project_s_test_with_the_conversation(project: Path) -> None:
    broken = PLAIN_TEST.replace(
        "harness().run", "harness().run(until=1.0).expect.tool_call('refund')\n    harness().run"
    )
    (project / "test_host.py").write_text(broken)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 1
    assert "expected a tool call refund()" in done.stdout
    assert "came instead: assistant: 'Hello!'" in done.stdout
    assert "expectations.py" not in done.stdout  # the test's own line is shown

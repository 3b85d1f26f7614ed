"""`vivavoce console --text`: on a real terminal, which stays unchanged, and with every other kind of input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kit.e2e.command import MAIN
from kit.e2e.terminal import COLUMNS, Terminal, terminal

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

APP = """
from vivavoce.agents import Agent, AgentSession, JobContext, events
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, rules

TALK = rules.SlotFilling(
    slots=(
        rules.Slot(name="day", parser=rules.days(), ask="For which day?"),
        rules.Slot(name="time", parser=rules.times(), ask="At what time?", say=rules.time_in_words),
    ),
    done="Your table is booked for {day} at {time}.",
)


class Host(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    session = AgentSession(Host("You take table bookings."), CascadingPipeline(llm=rules.LLM(TALK), tts=tts))

    async def hang_up(event: events.HistoryItemAdded) -> None:
        if getattr(event.item, "content", "") == "Goodbye.":
            await session.hangup()

    session.on(events.HistoryItemAdded, hang_up)
    await session.start()
"""
OTHER_INPUT = pytest.mark.test_all("each input is a process; the reader of lines has its own tests in make test")
GREETING = "Hello! For which day?"
BOOKED = "Your table is booked for friday at seven."
END_LIMIT = 15.0
"""Seconds for the end; the machine may be loaded, and the old fault hung for ever."""


@contextmanager
def typing(folder: Path) -> Iterator[Terminal]:
    """Run the agent on a terminal, up to its greeting; check that the terminal is left as it was found."""
    (folder / "app.py").write_text(APP)
    with terminal(folder, "console", "app.py", "--text") as shown:
        before = termios.tcgetattr(shown.slave)
        shown.until(GREETING)
        assert termios.tcgetattr(shown.slave) == before
        yield shown
        shown.wait(END_LIMIT)
        assert termios.tcgetattr(shown.slave) == before
        assert "Traceback" not in shown.seen


def type_slowly(shown: Terminal, line: str) -> None:
    """Press key after key, each once the terminal has shown the one before."""
    since = shown.mark()
    for number, key in enumerate(line, start=1):
        shown.press(key)
        shown.until(line[:number], since=since)
    shown.press("\r")


def test_a_line_typed_key_by_key_reaches_the_agent_whole_and_is_shown_once(tmp_path: Path) -> None:
    with typing(tmp_path) as shown:
        since = shown.mark()
        type_slowly(shown, "on friday")
        shown.until("At what time?", since=since)
        shown.until(" ms\n", since=since)  # the answer's times, which would stand between two keys
        type_slowly(shown, "at seven")
        shown.until(BOOKED)
        shown.press("\x04")
        assert shown.wait(END_LIMIT) == 0
        assert shown.seen.count("on friday") == 1
        assert shown.seen.replace(BOOKED, "").count("at seven") == 1
        assert "call ended: the input has ended" in shown.seen


@OTHER_INPUT
def test_lines_pasted_at_once_are_all_answered(tmp_path: Path) -> None:
    with typing(tmp_path) as shown:
        shown.press("on friday\rat seven\r")
        shown.until("At what time?")
        shown.until(BOOKED)
        shown.press("\x04")
        assert shown.wait(END_LIMIT) == 0
        assert "cut off" not in shown.seen


def test_an_answer_that_comes_while_a_line_is_being_typed_gets_a_line_of_its_own_and_the_typed_one_stays_whole(
    tmp_path: Path,
) -> None:
    with typing(tmp_path) as shown:
        shown.press("on friday\rat se")
        shown.until("At what time?")
        assert f"at se{' ' * COLUMNS}agent   At what time?" in shown.seen
        shown.press("ven\r")
        shown.until(BOOKED)
        shown.press("\x04")
        assert shown.wait(END_LIMIT) == 0


@OTHER_INPUT
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    with typing(tmp_path) as shown:
        shown.process.send_signal(signal.SIGINT)
        shown.until("call ended: interrupted")
        assert shown.wait(END_LIMIT) == 0


def test_ctrl_c_in_the_middle_of_a_line_ends_it_and_so_it_may_be_pressed_twice(tmp_path: Path) -> None:
    with typing(tmp_path) as shown:
        shown.press("on fri")
        shown.until("on fri")
        shown.process.send_signal(signal.SIGINT)
        shown.process.send_signal(signal.SIGINT)
        assert shown.wait(END_LIMIT) == 0


def test_the_agent_hangs_up(tmp_path: Path) -> None:
    with typing(tmp_path) as shown:
        shown.press("goodbye\r")
        assert shown.wait(END_LIMIT) == 0
        assert "call ended: user_initiated" in shown.seen


# --- other kinds of input


def spoken(folder: Path, stdin: int, *, redirection: str = "") -> str:
    """Run the agent on this input and return its output; it has to end by itself, with success."""
    (folder / "app.py").write_text(APP)
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, "-c", MAIN, "console", "app.py", "--text"],
        stdin=stdin, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "Traceback" not in done.stdout
    assert GREETING in done.stdout
    return done.stdout


def test_a_file_is_typed_to_its_last_line_which_may_lack_its_end(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("on friday\n\n  at seven")
    with (tmp_path / "lines.txt").open() as file:
        printed = spoken(tmp_path, file.fileno())
    assert "caller  on friday" in printed
    assert "caller  at seven" in printed
    assert BOOKED in printed


@OTHER_INPUT
def test_a_pipe_that_stays_open_does_not_keep_an_agent_that_hangs_up(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, "on friday\nat sévèn\ngoodbye\n".encode())
        printed = spoken(tmp_path, reading)
    finally:
        os.close(reading)
        os.close(writing)
    assert "caller  at sévèn" in printed
    assert "call ended: user_initiated" in printed


@pytest.mark.parametrize(
    "redirection",
    [
        pytest.param("</dev/null", id="null"),
        pytest.param("<&-", id="closed", marks=OTHER_INPUT),
        pytest.param("0>/dev/null", id="for writing", marks=OTHER_INPUT),
    ],
)
def test_without_anything_to_read_it_ends_after_the_greeting(redirection: str, tmp_path: Path) -> None:
    assert "call ended: the input has ended" in spoken(tmp_path, subprocess.DEVNULL, redirection=redirection)

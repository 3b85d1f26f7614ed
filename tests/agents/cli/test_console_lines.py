"""Lines of every kind of input: pieces, pauses, pastes, ends, and inputs that cannot be read."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio
import pytest

from vivavoce.agents.cli.console.keys import keys
from vivavoce.agents.cli.console.lines import Lines, typed_lines

LIMIT = 60.0
"""Seconds; the machine may be loaded."""
Ends = tuple[int, ...]
"""Where it is read, and where it is written."""


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    """Closes everything that a test opened."""
    with ExitStack() as stack:
        yield stack


def _close(descriptor: int) -> None:
    with suppress(OSError):  # the test closed it
        os.close(descriptor)


def _kept(closing: ExitStack, *ends: int) -> tuple[int, ...]:
    for end in ends:
        closing.callback(_close, end)
    return ends


@pytest.fixture
def pipe(closing: ExitStack) -> Ends:
    """Both ends of a pipe."""
    return _kept(closing, *os.pipe())


@pytest.fixture
def typist(closing: ExitStack) -> Ends:
    """A terminal, and where its keys are pressed."""
    keyboard, terminal = _kept(closing, *pty.openpty())
    return terminal, keyboard


async def _all(lines: Lines) -> list[str]:
    found = []
    with anyio.fail_after(LIMIT):
        while (line := await lines.next()) is not None:
            found.append(line)
    return found


async def test_a_line_that_comes_in_pieces_is_given_whole_once_it_has_ended(pipe: Ends) -> None:
    lines, said = Lines(pipe[0]), []

    async def read() -> None:
        said.append(await lines.next())

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for piece in (b"caf", b"\xc3", b"\xa9 "):
                os.write(pipe[1], piece)
                await anyio.wait_all_tasks_blocked()
                assert said == []
            os.write(pipe[1], b"please\r\n")
    assert said == ["café please"]


async def test_nothing_is_read_ahead_of_whoever_asks(pipe: Ends) -> None:
    lines = Lines(pipe[0])
    os.write(pipe[1], b"one\n")
    assert await lines.next() == "one"
    os.write(pipe[1], b"two\n")
    await anyio.wait_all_tasks_blocked()
    assert os.read(pipe[0], 100) == b"two\n"


async def test_empty_lines_are_left_out_and_the_last_one_may_lack_its_end(pipe: Ends) -> None:
    os.write(pipe[1], b"\n  one \n \n\ntwo")
    os.close(pipe[1])
    lines = Lines(pipe[0])
    assert await _all(lines) == ["one", "two"]
    assert await lines.next() is None


async def test_bytes_that_are_no_text_do_not_end_it(pipe: Ends) -> None:
    os.write(pipe[1], b"\xff one\ntwo\n")
    os.close(pipe[1])
    assert await _all(Lines(pipe[0])) == ["\N{REPLACEMENT CHARACTER} one", "two"]


async def test_waiting_for_a_line_ends_with_whoever_waits_and_leaves_no_thread_and_no_byte_behind(pipe: Ends) -> None:
    lines, before = Lines(pipe[0]), set(threading.enumerate())
    with anyio.move_on_after(0.05) as waiting:
        await lines.next()
    assert waiting.cancelled_caught
    assert set(threading.enumerate()) <= before  # one of another test may have ended
    os.write(pipe[1], b"one\n")
    assert await lines.next() == "one"


async def test_lines_that_came_together_are_told_from_one_that_came_later(typist: Ends) -> None:
    terminal, keyboard = typist
    lines, waited = Lines(terminal), []
    assert lines.is_terminal
    os.write(keyboard, b"one\rtwo\r")
    for expected in ("one", "two"):
        with anyio.fail_after(LIMIT):
            assert await lines.next() == expected
        waited.append(lines.was_waiting)
    assert waited[1]

    async def later() -> None:
        with anyio.fail_after(LIMIT):
            assert await lines.next() == "three"

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(later)
        await anyio.sleep(0.2)  # a person's pause: it is the terminal's time that counts, not the loop's
        os.write(keyboard, b"three\r")
    assert not lines.was_waiting


async def test_a_terminal_gives_corrected_lines_and_ends_with_ctrl_d(typist: Ends) -> None:
    terminal, keyboard = typist
    os.write(keyboard, b"sevem\x7fn\r\x04")
    assert await _all(Lines(terminal)) == ["seven"]


async def test_a_terminal_that_is_gone_is_the_end(typist: Ends) -> None:
    terminal, keyboard = typist
    os.close(keyboard)
    assert await _all(Lines(terminal)) == []


async def test_the_descriptors_flags_stay_as_they_are(pipe: Ends) -> None:
    os.write(pipe[1], b"one\n")
    assert await Lines(pipe[0]).next() == "one"
    assert os.get_blocking(pipe[0])


async def test_a_pipe_that_does_not_block_is_waited_for_too(pipe: Ends) -> None:
    os.set_blocking(pipe[0], False)
    os.write(pipe[1], b"one\n")
    os.close(pipe[1])
    assert await _all(Lines(pipe[0])) == ["one"]


@pytest.mark.parametrize(("text", "expected"), [("one\n\ntwo", ["one", "two"]), ("", [])])
async def test_a_file_is_read_to_its_end(text: str, expected: list[str], tmp_path: Path, closing: ExitStack) -> None:
    (tmp_path / "lines.txt").write_text(text)
    file = closing.enter_context((tmp_path / "lines.txt").open())
    lines = Lines(file.fileno())
    assert not lines.is_terminal
    assert await _all(lines) == expected


async def test_nothing_comes_where_there_is_nothing(closing: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    (null,) = _kept(closing, os.open(os.devnull, os.O_RDONLY))
    assert await _all(Lines(null)) == []
    monkeypatch.setattr(sys, "stdin", None)  # Python's value for a closed stdin
    lines = typed_lines()
    assert not lines.is_terminal
    assert await _all(lines) == []


async def test_what_is_open_for_writing_only_is_said_and_is_the_end(
    closing: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    (null,) = _kept(closing, os.open(os.devnull, os.O_WRONLY))
    assert await _all(Lines(null)) == []
    assert "stdin cannot be read" in caplog.text


# --- single keys


async def test_there_are_no_keys_without_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with keys(lambda key: None) as has_keys:
        assert not has_keys


async def test_the_keys_of_a_terminal_that_is_gone_are_not_asked_for_again(
    typist: Ends, closing: ExitStack, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terminal, keyboard = typist
    monkeypatch.setattr(sys, "stdin", closing.enter_context(os.fdopen(os.dup(terminal))))
    pressed: list[str] = []
    is_pressed = anyio.Event()

    def press(key: str) -> None:
        pressed.append(key)
        is_pressed.set()

    with keys(press) as has_keys:
        assert has_keys
        os.write(keyboard, b"m")
        with anyio.fail_after(LIMIT):
            await is_pressed.wait()
        os.close(keyboard)
        await anyio.sleep(0.1)  # until the loop is notified
        assert not asyncio.get_running_loop().remove_reader(sys.stdin.fileno()), "it is still asked"
    assert pressed == ["m"]
    assert "Exception in callback" not in caplog.text

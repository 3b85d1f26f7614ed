"""The guardian of a worker's process: starts it again after a violent death, passes signals on, keeps its status."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vivavoce.agents.cli import command_of

GUARD = "import sys; from vivavoce.agents.worker.guardian import guard; sys.exit(guard(sys.argv[1:]))"


@contextmanager
def _guarded(folder: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """Run a guardian of a worker that first notes in the file `runs` that it runs."""
    noted = f"open({str(folder / 'runs')!r}, 'a').write('run\\n')\n"
    worker = "import os, signal, sys, time\n" + noted + textwrap.dedent(code)
    command = [sys.executable, "-c", GUARD, sys.executable, "-c", worker]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def _runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def test_a_worker_that_cannot_be_started_again_now_is_tried_later(tmp_path: Path) -> None:
    worker, again = tmp_path / "worker", tmp_path / "again"
    again.write_text("#!/bin/sh\nexit 5\n")
    again.chmod(0o755)
    worker.write_text(f"#!/bin/sh\nrm {worker}\nkill -9 $$\n")  # as if the machine had no memory for the next one
    worker.chmod(0o755)
    command = [sys.executable, "-c", GUARD, str(worker)]
    with subprocess.Popen(command, stderr=-1, text=True) as guardian:
        assert guardian.stderr is not None
        assert "died by SIGKILL" in guardian.stderr.readline()
        words = "the worker could not be started (No such file or directory); the next try follows in 1 s"
        assert words in guardian.stderr.readline()
        again.rename(worker)

        assert guardian.wait(timeout=100) == 5


@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_worker_that_ends_by_itself_ends_the_guardian_with_its_status(tmp_path: Path, status: int) -> None:
    with _guarded(tmp_path, f"sys.exit({status})") as guardian:
        assert guardian.wait(timeout=100) == status
    assert _runs(tmp_path) == 1


def test_a_killed_worker_is_started_again_at_once_and_then_with_a_pause(tmp_path: Path) -> None:
    code = f"""
        if open({str(tmp_path / "runs")!r}).read().count("run") < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        sys.exit(4)
    """
    with _guarded(tmp_path, code) as guardian:
        _, log = guardian.communicate(timeout=100)
        assert guardian.returncode == 4
    assert _runs(tmp_path) == 3
    why = "somebody killed it, or the machine had no memory left"
    assert log.splitlines() == [
        f"vivavoce: the worker died by SIGKILL ({why}); it is started again in 0 s",
        f"vivavoce: the worker died by SIGKILL ({why}); it is started again in 1 s",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_reaches_the_worker_once_and_its_status_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    code = """
        got = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: got.append(number))
        print("ready", flush=True)
        while not got:
            time.sleep(0.02)
        time.sleep(0.2)
        print(*got, flush=True)
        sys.exit(5)
    """
    with _guarded(tmp_path, code) as guardian:
        assert guardian.stdout is not None
        assert guardian.stdout.readline() == "ready\n"
        guardian.send_signal(number)
        assert guardian.stdout.readline() == f"{int(number)}\n"
        assert guardian.wait(timeout=100) == 5
    assert _runs(tmp_path) == 1


def test_a_worker_that_dies_by_the_signal_passed_on_is_not_started_again(tmp_path: Path) -> None:
    with _guarded(tmp_path, "print('ready', flush=True); time.sleep(60)") as guardian:
        assert guardian.stdout is not None
        guardian.stdout.readline()
        guardian.terminate()
        assert guardian.wait(timeout=100) == 128 + signal.SIGTERM
    assert _runs(tmp_path) == 1


def test_a_worker_whose_guardian_is_killed_gets_sigterm(tmp_path: Path) -> None:
    code = """
        from vivavoce.agents.worker.guardian import end_with_guardian
        signal.signal(signal.SIGTERM, lambda *_: (print("drains", flush=True), sys.exit(0)))
        end_with_guardian()
        print("ready", flush=True)
        time.sleep(60)
    """
    with _guarded(tmp_path, code) as guardian:
        assert guardian.stdout is not None
        assert guardian.stdout.readline() == "ready\n"
        guardian.kill()
        assert guardian.stdout.readline() == "drains\n"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["start", "app.py"], "start"),
        (["--env-file", "start", "demo"], "demo"),
        (["--env-file=x", "start", "app.py"], "start"),
        (["--version"], ""),
        ([], ""),
    ],
)
def test_the_command_line_knows_its_command_before_it_loads_anything(arguments: list[str], command: str) -> None:
    assert command_of(arguments) == command

"""The end of a process with livekit's native threads: tried with and without them, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

BEGIN = """
import atexit, sys, threading
{native}
from vivavoce.pipelines.core.process_end import run_process
class Last:
    def __del__(self): print("taken apart")
last = Last()
atexit.register(print, "exit handler")
"""
WITH = "import livekit.rtc"


def _ends(main: str, native: str = WITH) -> tuple[int, str, str]:
    code = BEGIN.format(native=native) + main
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


pytestmark = pytest.mark.timeout(60)


def test_with_livekits_threads_the_interpreter_is_not_taken_apart_and_the_rest_of_an_exit_happens() -> None:
    status, out, _ = _ends("run_process(lambda: (print('no line end', end=' '), sys.exit(3)))")
    assert (status, out) == (3, "no line end exit handler\n")


def test_without_them_a_process_ends_as_python_ends_it() -> None:
    status, out, _ = _ends("run_process(lambda: sys.exit(3))", native="")
    assert (status, out) == (3, "exit handler\ntaken apart\n")


@pytest.mark.parametrize("native", ["", WITH], ids=["plain", "livekit"])
@pytest.mark.parametrize(
    ("main", "status", "told"),
    [
        ("lambda: None", 0, ""),
        ("sys.exit", 0, ""),
        ("lambda: sys.exit('out of order')", 1, "out of order"),
        ("lambda: 1 / 0", 1, "ZeroDivisionError"),
    ],
)
def test_the_status_is_that_of_the_main_function(native: str, main: str, status: int, told: str) -> None:
    found, _, err = _ends(f"run_process({main})", native)
    assert found == status
    assert told in err
    assert bool(told) == bool(err)


def test_threads_that_are_no_daemons_are_waited_for() -> None:
    thread = "threading.Thread(target=lambda: print(sys.stdin.readline(), end='')).start()"
    main = f"run_process(lambda: ({thread}, print('main is over', flush=True)))"
    command = [sys.executable, "-c", BEGIN.format(native=WITH) + main]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "main is over\n"
        out, _ = process.communicate("done\n", timeout=60)
    assert (process.returncode, out) == (0, "done\nexit handler\n")


def test_output_that_nobody_reads_any_more_is_a_failure_and_no_traceback() -> None:
    main = "atexit.unregister(print); run_process(lambda: (sys.stdin.read(), print('x' * 100)))"
    command = [sys.executable, "-c", BEGIN.format(native=WITH) + main]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=buffered, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert process.wait(timeout=60) == 120
        assert process.stderr.read() == ""

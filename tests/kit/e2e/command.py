"""A command of ours that runs as in a terminal, its output, and every process that descends from it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MAIN = "from vivavoce.agents.cli import main; main()"
READ_LIMIT = 60.0
"""Seconds for a text to appear; the machine may be loaded."""


class Running:
    """A command in a process group of its own."""

    def __init__(self, process: subprocess.Popen[str], mark: str) -> None:
        self.process = process
        self.seen = ""
        self._mark = mark
        self._news = threading.Condition()
        self._is_over = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._news:
                self.seen += line
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()

    def read_until(self, text: str, *, times: int = 1) -> None:
        """Wait until `text` is in the output, so many times."""
        limit = time.monotonic() + READ_LIMIT
        with self._news:
            while self.seen.count(text) < times:
                assert not self._is_over, f"ended before {text!r} was seen:\n{self.seen}"
                assert self._news.wait(limit - time.monotonic()), f"no {text!r} in {READ_LIMIT} s:\n{self.seen}"

    def end(self, number: int = signal.SIGINT, *, limit: float = 20.0) -> int:
        """Send a signal to it alone and return its exit status; all of its output is read then."""
        self.process.send_signal(number)
        status = self.process.wait(timeout=limit)
        self._reader.join(timeout=limit)
        return status

    def family(self) -> dict[int, str]:
        """Return the processes that descend from it, itself included: they inherit a mark in their environment."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if self._mark.encode() in (entry / "environ").read_bytes():
                    found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except OSError:  # it ended, or is not ours
                continue
        return found


@contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[Running]:
    """Run `vivavoce` with these arguments; at the end kill all that is left of it."""
    name, value = "VIVAVOCE_TEST_MARK", str(time.time_ns())
    kept = {key: text for key, text in os.environ.items() if not key.startswith("LIVEKIT_")}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        env={**kept, **environment, name: value, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    command = Running(process, f"{name}={value}")
    try:
        yield command
    finally:
        for pid in command.family():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
        process.wait()
        command._reader.join(timeout=10)
        process.stdout.close()  # type: ignore[union-attr]  # a pipe

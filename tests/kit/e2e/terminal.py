"""A command of ours on a terminal of its own: its output there, pressed keys, its level meter."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl
from pathlib import Path

from kit.e2e.command import MAIN

READ_LIMIT = 60.0
"""Seconds for something to be shown; the machine may be loaded."""
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
METER = re.compile(r"(▮*)(▯*) [●○] caller")
ROWS, COLUMNS = 40, 160


class Terminal:
    """A pseudo terminal with a command in it."""

    def __init__(self, process: subprocess.Popen[bytes], master: int, slave: int) -> None:
        self.process = process
        self._master = master
        self.slave = slave
        self._bytes = b""
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def seen(self) -> str:
        """All that was shown, without colours and movements of the cursor."""
        with self._news:
            return CONTROL.sub("", self._bytes.decode(errors="ignore"))

    @property
    def mode(self) -> tuple[bool, bool]:
        """Whether the terminal waits for whole lines, and whether it shows typed characters."""
        local = termios.tcgetattr(self.slave)[3]
        return bool(local & termios.ICANON), bool(local & termios.ECHO)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # closed
                return
            with self._news:
                self._bytes += data
                self._news.notify_all()

    def press(self, key: str) -> None:
        os.write(self._master, key.encode())

    def mark(self) -> int:
        """Return the position in `seen` at which later output begins."""
        return len(self.seen)

    def until(self, *texts: str, since: int = 0) -> None:
        """Wait until one of these texts has been shown."""
        limit = time.monotonic() + READ_LIMIT
        while not any(text in self.seen[since:] for text in texts):
            is_over = self.process.poll() is not None
            if is_over:
                self._settle()
            assert not is_over or any(text in self.seen for text in texts), f"ended without {texts}:\n{self.seen}"
            assert time.monotonic() < limit, f"no {texts} in {READ_LIMIT} s:\n{self.seen[-4000:]}"
            with self._news:
                self._news.wait(0.2)

    def levels(self, *, since: int = 0) -> list[int]:
        """Return how many of its cells the meter lit, each time it was drawn."""
        return [len(lit) for lit, dark in METER.findall(self.seen[since:]) if lit or dark]

    def wait(self, limit: float = 30.0) -> int:
        """Return the exit status, when all that was shown is in `seen`."""
        status = self.process.wait(timeout=limit)
        self._settle()
        return status

    def _settle(self) -> None:
        """Wait until nothing more comes of a process that has ended."""
        with self._news:
            while self._news.wait(0.3):
                pass


@contextmanager
def terminal(folder: Path, *arguments: str, **environment: str) -> Iterator[Terminal]:
    """Run `vivavoce` with these arguments on a terminal; it is killed at the end if it still runs."""
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    kept = {key: text for key, text in os.environ.items() if not key.startswith("LIVEKIT_")}
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        env={**kept, **environment, "TERM": "xterm-256color"},
        cwd=folder,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    shown = Terminal(process, master, slave)
    try:
        yield shown
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(slave)
        shown._reader.join(timeout=10)  # the last output of a terminal whose other side is closed, then an error
        os.close(master)

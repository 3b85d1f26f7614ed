"""Runs Debian's redis-server on a Unix socket, for as long as a test wants it; it can be killed and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.servers.missing import missing

READY_LIMIT = 60.0


class RedisServer:
    """A server with a database in a folder of its own, written at each change."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """The socket's path."""
        return self._folder / "redis.sock"

    @property
    def url(self) -> str:
        """For clients."""
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", self._folder, "--appendonly", "yes"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.STDOUT,
        )
        until = time.monotonic() + READY_LIMIT
        while not self._answers():
            assert time.monotonic() < until, f"redis-server did not answer within {READY_LIMIT} s"
            time.sleep(0.02)

    def stop(self, *, by: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(READY_LIMIT)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have it answer nothing for a while."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(1)
                client.connect(str(self.socket))
                client.sendall(b"PING\r\n")
                return client.recv(16).startswith(b"+PONG")
        except OSError:
            return False


@contextmanager
def running_redis_server() -> Iterator[RedisServer]:
    """Run a server; skip the test (or fail it, see `missing`) if there is none on this machine."""
    if shutil.which("redis-server") is None:
        missing("redis-server", "install Debian's package redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:  # a socket's path must be short
        server = RedisServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop(by=signal.SIGKILL)

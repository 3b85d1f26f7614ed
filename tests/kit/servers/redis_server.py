"""Runs Debian's redis-server, for as long as a test wants it; it can be killed and started again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from kit.servers.missing import missing

READY_LIMIT = 60.0


class RedisServer:
    """A server with a database in a folder of its own, written at each change, on a Unix socket.

    Args:
        settings: Further arguments of redis-server.
        has_port: Whether it has a port on loopback too.
    """

    def __init__(self, folder: Path, settings: Sequence[str] = (), *, has_port: bool = False) -> None:
        self._folder = folder
        self._settings = settings
        self._port = _free_port() if has_port else 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        """The socket's path."""
        return self._folder / "redis.sock"

    @property
    def url(self) -> str:
        """For clients."""
        return f"unix://{self.socket}"

    @property
    def port_url(self) -> str:
        """For clients, by the port."""
        assert self._port, "has_port=True"
        return f"redis://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        own = ["--port", str(self._port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket)]
        self._process = subprocess.Popen(
            ["redis-server", *own, "--dir", str(self._folder), "--appendonly", "yes", *self._settings],
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
                return client.recv(16).startswith((b"+PONG", b"-NOAUTH"))
        except OSError:
            return False


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running_redis_server(*settings: str, has_port: bool = False) -> Iterator[RedisServer]:
    """Run a server; skip the test (or fail it, see `missing`) if there is none on this machine.

    Args:
        settings: Further arguments of redis-server.
        has_port: Whether it has a port on loopback too.
    """
    if shutil.which("redis-server") is None:
        missing("redis-server", "install Debian's package redis-server")
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:  # a socket's path must be short
        server = RedisServer(Path(folder), settings, has_port=has_port)
        server.start()
        try:
            yield server
        finally:
            server.stop(by=signal.SIGKILL)

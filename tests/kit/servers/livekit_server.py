"""Runs the real livekit-server on loopback, ephemeral ports only, for as long as a test wants it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

from kit.limits import LIMIT
from kit.servers import install
from kit.servers.missing import missing

API_KEY = "devkey"
API_SECRET = "devsecret-devsecret-devsecret-devsecret"  # PyJWT warns below 32 characters

STOP_STEPS = ((signal.SIGTERM, 0.2), (signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0))
"""Signals with their limits in seconds: the first waits for rooms to empty, the second does not, SIGKILL kills."""

START_TRIES = 3
"""A port that was free may be taken a moment later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKitServer:
    """A running server."""

    url: str
    """Such as `"ws://127.0.0.1:40123"`."""
    api_key: str = API_KEY
    api_secret: str = field(default=API_SECRET, repr=False)
    pid: int


class ServerNotReadyError(Exception):
    """The server ended, or did not answer in time; the text ends with its last log lines."""


@contextmanager
def running_livekit_server(log: Path | None = None) -> Iterator[LiveKitServer]:
    """Run a livekit-server, which writes its log to that file, if one is given; skip the test (or fail it, see
    `missing`) if none can be installed.
    """
    try:
        binary = install.livekit_server()
    except install.InstallError as error:
        missing("livekit-server", str(error))
    with tempfile.TemporaryDirectory(prefix="livekit-server-") as folder:
        process, port = _started(binary, log or Path(folder, "log"))
        try:
            yield LiveKitServer(url=f"ws://127.0.0.1:{port}", pid=process.pid)
        finally:
            _stop(process)


def _started(binary: Path, log: Path) -> tuple[subprocess.Popen[bytes], int]:
    for attempt in range(1, START_TRIES + 1):
        port, tcp_port, udp_port = _free_ports()
        config = json.dumps(_config(port, tcp_port, udp_port))  # JSON is YAML
        with log.open("wb") as output:
            process = subprocess.Popen(
                [binary, "--config-body", config], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            _await_ready(process, port, log)
        except ServerNotReadyError:
            _stop(process)
            if attempt == START_TRIES:
                raise
        except BaseException:
            _stop(process)
            raise
        else:
            return process, port
    raise AssertionError("unreachable: the last try raises")


def _config(port: int, tcp_port: int, udp_port: int) -> dict[str, object]:
    return {
        "port": port,
        "bind_addresses": ["127.0.0.1"],
        "rtc": {
            "tcp_port": tcp_port,
            "udp_port": udp_port,
            "node_ip": "127.0.0.1",
            "use_external_ip": False,
            "enable_loopback_candidate": True,
            "interfaces": {"includes": ["lo"]},
            "ips": {"includes": ["127.0.0.1/32"]},
        },
        "keys": {API_KEY: API_SECRET},
        "logging": {"level": "info"},
    }


def _free_ports() -> tuple[int, int, int]:
    kinds = (socket.SOCK_STREAM, socket.SOCK_STREAM, socket.SOCK_DGRAM)
    sockets = [socket.socket(socket.AF_INET, kind) for kind in kinds]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        http, tcp, udp = (int(one.getsockname()[1]) for one in sockets)
        return http, tcp, udp
    finally:
        for one in sockets:
            one.close()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + LIMIT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerNotReadyError(f"livekit-server ended with status {process.returncode}: {_tail(log)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=1) as answer:
                if answer.status == 200:
                    return
        except (URLError, OSError):
            time.sleep(0.05)
    raise ServerNotReadyError(f"livekit-server did not answer within {LIMIT:.0f} s: {_tail(log)}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    for number, limit in STOP_STEPS:
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            continue
    assert process.poll() is not None, f"livekit-server {process.pid} outlived SIGKILL"


def _tail(log: Path) -> str:
    return " | ".join(log.read_text(errors="replace").splitlines()[-3:])

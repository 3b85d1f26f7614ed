"""`vivavoce call` that is interrupted: its result is written all the same."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

import pytest

from kit.e2e.command import Running, running

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

CALLER = "vivavoce.agents.cli.call.caller"


def has_caller(command: Running) -> bool:
    return any(CALLER in line for line in command.family().values())


def until_caller(command: Running, *, is_there: bool) -> None:
    limit = time.monotonic() + 60.0
    while has_caller(command) is not is_there:
        assert time.monotonic() < limit, command.seen
        time.sleep(0.01)


def test_a_second_interrupt_while_the_result_is_written_does_not_lose_it(tmp_path: Path) -> None:
    script = tmp_path / "script.toml"
    script.write_text('[[steps]]\nsay = "hello"\n')
    (tmp_path / "call").mkdir()
    result = tmp_path / "call/result.json"
    os.mkfifo(result)  # the write waits for a reader
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it takes the call's request, and never answers
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        arguments = ("call", str(script), "--wire", "twilio", "--url", url)
        with running(tmp_path, *arguments, TWILIO_AUTH_TOKEN="12345") as command:
            until_caller(command, is_there=True)
            command.process.send_signal(signal.SIGINT)
            until_caller(command, is_there=False)
            command.process.send_signal(signal.SIGINT)
            reader = os.open(result, os.O_RDONLY | os.O_NONBLOCK)
            try:
                assert command.process.wait(20) == 130
                assert json.loads(os.read(reader, 65536))["calls_placed"] == 0
            finally:
                os.close(reader)
        assert "Traceback" not in command.seen

"""The room server's own process: ready, the reasons why not, and its end in every way a parent can end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import ClientSession

from vivavoce.agents.dev_room import RoomProcess, RoomServer, RoomServerOptions, child
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

OWN_SECRET = "an-own-secret-of-at-least-32-characters"
COMMAND = [sys.executable, "-m", "vivavoce.agents.dev_room"]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the child, which loads aiortc, time on a busy machine."""
    monkeypatch.setattr(child, "READY_LIMIT", 100.0)


@pytest.fixture
async def http() -> AsyncIterator[ClientSession]:
    async with ClientSession() as session:
        yield session


def is_alive(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] != "Z"


def shown_to_others(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()


async def ended(pid: int) -> None:
    while is_alive(pid):  # noqa: ASYNC110 - another process's end has no event
        await asyncio.sleep(0.02)  # noqa: TID251 - as above


async def test_it_listens_when_entered_and_is_gone_afterwards(http: ClientSession) -> None:
    async with RoomProcess(RoomServerOptions(port=0, api_key="own", api_secret=OWN_SECRET)) as room:
        assert (room.api_key, room.api_secret) == ("own", OWN_SECRET)
        assert room.is_running
        async with http.get(room.url.replace("ws://", "http://")) as response:
            assert "<title>Talk to the agent · Vivavoce" in await response.text()  # the page
        pid = room.pid
        assert OWN_SECRET.encode() not in shown_to_others(pid)
    assert not is_alive(pid)
    assert not room.is_running


async def test_a_taken_port_says_which_and_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RoomError, match=rf"port {port} on 127.0.0.1 is taken.*port 0"):
            await RoomProcess(RoomServerOptions(port=port)).start()
        with pytest.raises(RoomError, match=rf"port {port} on 127.0.0.1 is taken"):
            await RoomServer(RoomServerOptions(port=port)).start()


async def test_a_foreign_address_says_so() -> None:
    options = RoomServerOptions(host="192.0.2.1", port=0, api_key="own", api_secret=OWN_SECRET)
    with pytest.raises(RoomError, match=r"cannot listen on '192\.0\.2\.1'"):
        await RoomProcess(options).start()


async def test_a_child_that_dies_early_raises_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no such library: libopus' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(RoomError, match=r"(?s)status 3.*no such library: libopus"):
        await RoomProcess().start()


async def test_a_missing_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiortc", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[room\]'"):
        await RoomProcess().start()


async def test_before_the_start_its_address_is_unknown() -> None:
    room = RoomProcess()
    with pytest.raises(RoomError, match="async with"):
        _ = room.url
    with pytest.raises(RoomError, match="async with"):
        _ = room.pid
    await room.aclose()


async def test_ctrl_c_ends_it() -> None:
    async with RoomProcess() as room:
        os.kill(room.pid, signal.SIGINT)
        await ended(room.pid)


async def test_it_does_not_outlive_a_parent_that_is_killed() -> None:
    program = (
        "import asyncio\n"
        "from vivavoce.agents.dev_room import RoomProcess\n"
        "async def main():\n"
        "    async with RoomProcess() as room:\n"
        "        print(room.pid, flush=True)\n"
        "        await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert is_alive(pid)
    parent.kill()
    await parent.wait()
    await ended(pid)


async def test_the_command_runs_on_its_own_ignores_an_empty_stdin_and_ends_at_sigterm(http: ClientSession) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "--port", "0",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    ready = json.loads(await process.stdout.readline())
    async with http.get(ready["url"].replace("ws://", "http://")) as response:
        assert response.status == 200
    process.terminate()
    _, log = await process.communicate()
    assert process.returncode == 0
    assert b"development only" in log


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--host", "192.0.2.1"], b"development keys are public"), (["--port", "70000"], b"0 (any free one) to 65535")],
)
async def test_the_command_says_what_is_wrong(arguments: list[str], said: bytes) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, log = await process.communicate()
    assert process.returncode == 2
    assert said in log
    assert b"Traceback" not in log
    assert said.decode() in json.loads(out)["error"]

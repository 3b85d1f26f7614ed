"""The process of an avatar written with livekit-agents, as a test holds it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process

from kit.servers import install
from kit.servers.missing import missing

APP = Path(__file__).with_name("livekit_avatar_app.py")
LIMIT = 40.0


class AvatarProcess:
    """A running avatar and its reports."""

    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text()

    def reports(self, what: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.log.splitlines() if line.startswith('{"what"')]
        return [line for line in lines if line["what"] == what]

    async def until(self, what: str) -> None:
        with anyio.fail_after(LIMIT):
            while not self.reports(what):
                assert self._process.returncode is None, self.log
                await anyio.sleep(0.05)

    def kill(self) -> None:
        """End it as a crash does: it says goodbye to no server."""
        self._process.kill()


@asynccontextmanager
async def avatar_process(url: str, token: str, folder: Path) -> AsyncIterator[AvatarProcess]:
    """Run the avatar until the block ends. Skips the test, or fails it, where livekit-agents cannot be had."""
    try:
        python = await anyio.to_thread.run_sync(install.livekit_agents_python)
    except install.InstallError as error:
        missing("livekit-agents", str(error))
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "COVERAGE_PROCESS_START")
    }
    environment |= {"LIVEKIT_URL": url, "AVATAR_TOKEN": token}
    log = folder / "avatar.log"
    with log.open("w") as sink:
        process = await anyio.open_process(
            [python, str(APP)], env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink
        )
    try:
        yield AvatarProcess(process, log)
    finally:
        if process.returncode is None:
            process.terminate()
        with anyio.move_on_after(10, shield=True):
            await process.wait()
        await process.aclose()  # kills it if it still runs

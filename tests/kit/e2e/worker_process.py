"""Owns a worker's process as a test holds it: its lines, its signals, its exit status."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

SCRIPT = Path(__file__).with_name("worker_app.py")
LIMIT = 20.0


class WorkerProcess:
    """`async with WorkerProcess(url, key, secret) as worker:` runs `worker_app.py`."""

    def __init__(self, url: str, api_key: str, api_secret: str, *, drain_timeout: float = 0.2) -> None:
        account = {"url": url, "api_key": api_key, "api_secret": api_secret}
        self._options: dict[str, object] = {**account, "drain_timeout": drain_timeout}
        self._process: asyncio.subprocess.Process | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(SCRIPT), json.dumps(self._options), stdout=asyncio.subprocess.PIPE
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def line(self, text: str) -> None:
        """Expect this line next."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            assert (await self.process.stdout.readline()).decode().strip() == text

    async def rest(self) -> list[str]:
        """Return all further lines, once the process has closed its output."""
        assert self.process.stdout is not None
        async with asyncio.timeout(LIMIT):
            return (await self.process.stdout.read()).decode().splitlines()

    async def status(self) -> int:
        """Return the exit status."""
        async with asyncio.timeout(LIMIT):
            return await self.process.wait()

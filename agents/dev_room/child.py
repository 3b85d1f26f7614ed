"""The room server as a child process: starting it, waiting until it is ready, ending it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import deque
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self

from vivavoce.agents.dev_room.extra import check_room_extra
from vivavoce.agents.dev_room.options import RoomServerOptions
from vivavoce.pipelines.core.child_process import kill_child
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError

logger = logging.getLogger(__name__)

READY_LIMIT = 10.0
END_LIMIT = 2.0
KEPT_LINES = 20


class RoomProcess:
    """A development room server in a process of its own; `async with RoomProcess(options) as room: room.url`.

    The child ends with the block, and also when this process dies in any way: it watches a pipe that this process
    holds.
    """

    def __init__(self, options: RoomServerOptions | None = None) -> None:
        self.options = options or RoomServerOptions(port=0)
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._url = ""

    @property
    def url(self) -> str:
        """The address to give to clients and workers, for example `ws://127.0.0.1:7880`."""
        if not self._url:
            raise RoomError("the room process has no address yet: enter it with 'async with' first")
        return self._url

    @property
    def api_key(self) -> str:
        return self.options.api_key

    @property
    def api_secret(self) -> str:
        return self.options.api_secret

    @property
    def pid(self) -> int:
        """The child's process id."""
        if self._process is None:
            raise RoomError("the room process does not run yet: enter it with 'async with' first")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Start the child and wait until it listens, at most `READY_LIMIT` seconds.

        Raises:
            ConfigurationError: The extra `room` is missing, or an option can never work.
            RoomError: The port is taken, or the child died or stayed silent.
        """
        check_room_extra()
        if self._process is not None:
            raise RoomError("the room process has been started already")
        # A process session of its own: Ctrl-C in the terminal must not end the room before the calls in it are closed.
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "vivavoce.agents.dev_room", "--options-from-stdin",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        try:
            self._reader = asyncio.get_running_loop().create_task(self._read_log(), name="room process log")
            await self._wait_ready(self._process)
        except BaseException:
            await asyncio.shield(self.aclose())
            raise

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(READY_LIMIT):
                process.stdin.write(json.dumps(asdict(self.options)).encode() + b"\n")
                await process.stdin.drain()
                line = await process.stdout.readline()
        except TimeoutError as exc:
            raise RoomError(f"the room process was not ready within {READY_LIMIT:g} s{self._last_lines()}") from exc
        except (BrokenPipeError, ConnectionResetError):
            line = b""
        try:
            ready: dict[str, Any] = json.loads(line) if line else {}
        except ValueError as exc:
            raise RoomError(f"the room process said {line[:200]!r} where JSON was needed") from exc
        if "error" in ready:
            if ready["kind"] == "ConfigurationError":
                raise ConfigurationError(ready["error"])
            raise RoomError(ready["error"])
        if "url" not in ready:
            await self._wait_end(process)
            raise RoomError(f"the room process died with status {process.returncode}{self._last_lines()}")
        self._url = ready["url"]

    def _last_lines(self) -> str:
        return "".join(["; its last words:\n", *(f"  {line}\n" for line in self._lines)]) if self._lines else ""

    async def _read_log(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        while line := await self._process.stderr.readline():
            text = line.decode(errors="replace").rstrip()
            self._lines.append(text)
            logger.debug("%s", text)

    async def _wait_end(self, process: asyncio.subprocess.Process) -> None:
        try:
            async with asyncio.timeout(END_LIMIT):
                await process.wait()
        except TimeoutError:
            logger.warning("the room process did not end within %g s: killed", END_LIMIT)
            kill_child(process)
            await process.wait()
        if self._reader is not None:
            await asyncio.wait({self._reader}, timeout=END_LIMIT)

    def kill(self) -> None:
        """End the child as a crash would, without a message to its clients: for tests of reconnecting."""
        if self._process is not None and self._process.returncode is None:
            kill_child(self._process)

    async def aclose(self) -> None:
        """End the child; safe to repeat."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        await self._wait_end(process)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.wait({self._reader})

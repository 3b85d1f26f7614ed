"""Owns a LiveKit client's process as a test holds it: calls, events with limits, a clean or a violent end."""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kit.limits import LIMIT

SCRIPT = Path(__file__).with_name("peer.py")
CALL_LIMIT = LIMIT + 10.0
"""The client's own limits end first: they say what was missing."""


class PeerError(Exception):
    """A command failed in the client's process; the text is the error there."""


class PeerProcess:
    """`async with PeerProcess() as peer: await peer.call("connect", url=…, token=…)`."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self._ids = itertools.count()
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._changed = asyncio.Condition()
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None

    @property
    def process(self) -> asyncio.subprocess.Process:
        assert self._process is not None
        return self._process

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, str(SCRIPT), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1 << 20
        )
        self._reader = asyncio.get_running_loop().create_task(self._read())
        await self.event("started")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process = self.process
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(LIMIT):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        finally:
            assert self._reader is not None
            await self._reader

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            message = json.loads(line)
            if "reply" in message:
                self._replies.pop(message["reply"]).set_result(message)
                continue
            async with self._changed:
                self.events.append(message)
                self._changed.notify_all()
        for waiting in self._replies.values():
            waiting.set_exception(PeerError("the client's process ended"))

    async def call(self, command: str, limit: float = CALL_LIMIT, **arguments: Any) -> Any:
        """Run one command in the client and return its result; PeerError if it failed there."""
        number = next(self._ids)
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[number] = reply
        assert self.process.stdin is not None
        request = {"id": number, "command": command, "arguments": arguments}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(limit):
            message = await reply
        if "error" in message:
            raise PeerError(message["error"])
        return message.get("result")

    async def event(self, event: str, limit: float = LIMIT, **fields: Any) -> dict[str, Any]:
        """Wait for, and take, the first event of that name with these fields."""

        def find() -> dict[str, Any] | None:
            for message in self.events:
                if message["event"] == event and all(message.get(k) == v for k, v in fields.items()):
                    return message
            return None

        try:
            async with asyncio.timeout(limit), self._changed:
                while (found := find()) is None:
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"no event {event} {fields} within {limit:g} s; seen: {self.events}") from None
        self.events.remove(found)
        return found

    def kill(self) -> None:
        """SIGKILL: no goodbye."""
        self.process.kill()

"""AgentProcess: the handle on one child: starts it, sends it commands, receives its messages, ends it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from subprocess import PIPE
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import ByteReceiveStream, Process, TaskStatus
from anyio.streams.text import TextReceiveStream

from vivavoce.agents.cli.dev.child import ChildRequest
from vivavoce.agents.cli.dev.wire import Message, encode, messages
from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.child_process import end_child, kill_child, send_to_child
from vivavoce.pipelines.core.errors import WorkerError

END_LIMIT = 5.0
"""Seconds for the child to end its calls and itself; then it is killed."""

OnMessage = Callable[["AgentProcess", Message], None]
OnLine = Callable[[str], None]


class AgentProcess:
    """One child with one version of the app's code.

    Args:
        number: Number of the version; counts from 1.
        request: The app to run.
        on_message: Called with each of its messages.
        on_line: Called with each line that the app prints or logs.
    """

    def __init__(self, number: int, request: ChildRequest, on_message: OnMessage, on_line: OnLine) -> None:
        self.number = number
        self.jobs: dict[str, dict[str, Any]] = {}
        """Its jobs, by room."""
        self._request = request
        self._on_message = on_message
        self._on_line = on_line
        self._process: Process | None = None
        self._heard: list[Message] = []
        self._news = anyio.Event()
        self._over = anyio.Event()
        self.is_ending = False
        """Whether its end is intended."""
        self._is_loaded = False

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._over.is_set()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Start the process and follow it to its end; cancelled, end it."""
        process = await anyio.open_process(
            [sys.executable, "-m", "vivavoce.agents.cli.dev.child"],
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=native_threads.environment(),
            start_new_session=True,  # Ctrl-C is for the parent; the child ends when its stdin does
        )
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            await self._send(json.dumps(asdict(self._request)).encode() + b"\n")
            task_status.started()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read_lines, process.stderr)
                async for message in messages(process.stdout):
                    self.take(message)
                await process.wait()
        finally:
            with anyio.CancelScope(shield=True):
                await end_child(process, END_LIMIT)
            self._over.set()
            self.take({"is": "died", "status": process.returncode})

    async def send(self, what: str, **fields: Any) -> None:
        """Send it a message; a process that has ended does not receive it."""
        await self._send(encode(what, **fields))

    async def answer(self, *names: str, room: str | None = None, limit: float) -> Message:
        """Return the next message of one of these names that was not returned before, or that the process died.

        Raises:
            WorkerError: It did not come in time.
        """
        with anyio.move_on_after(limit):
            while True:
                for message in self._heard:
                    if message["is"] == "died" or (message["is"] in names and message.get("room") == room):
                        if message["is"] != "died":
                            self._heard.remove(message)
                        return message
                await self._news.wait()
        raise WorkerError(f"the agent's process said nothing of {' or '.join(names)!r} within {limit:g} s")

    def forget(self, room: str) -> None:
        """Drop its messages about a room."""
        self._heard = [message for message in self._heard if message.get("room") != room]

    async def retire(self, *, has_calls: bool) -> None:
        """End it, or let it finish its calls; either way, its end is intended now."""
        if has_calls:
            self.is_ending = True
            await self.send("drain")
        else:
            await self.stop()

    async def stop(self) -> None:
        """Have it end its calls and itself, and wait for that; killed after `END_LIMIT`."""
        self.is_ending = True
        await self.send("stop")
        if self._process is not None and self._process.stdin is not None:
            await self._process.stdin.aclose()
        # a child that is still importing reads no messages
        with anyio.move_on_after(END_LIMIT if self._is_loaded else 0):
            await self._over.wait()
            return
        if self._process is not None and not self.is_over:
            kill_child(self._process)
        await self._over.wait()

    async def _send(self, data: bytes) -> None:
        assert self._process is not None
        await send_to_child(self._process, data)  # the message `died` reports its end

    def take(self, message: Message) -> None:
        """Take a message of the process: those that wait for it, and the owner, see it."""
        match message["is"]:
            case "loaded":
                self._is_loaded = True
            case "call":
                self.jobs[message["room"]] = message["job"]
            case "call_over":
                self.jobs.pop(message["room"], None)
        if message["is"] != "show":
            self._heard.append(message)
            self._news.set()
            self._news = anyio.Event()
        self._on_message(self, message)

    async def _read_lines(self, stream: ByteReceiveStream) -> None:
        rest = ""
        async for text in TextReceiveStream(stream, errors="replace"):
            *whole, rest = (rest + text).split("\n")
            for line in whole:
                self._on_line(line)
        if rest:
            self._on_line(rest)

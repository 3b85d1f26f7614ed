"""The worker's handles of its nursery and of its job processes: connections, files and signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing import Pipe, reduction
from multiprocessing.connection import Connection
from typing import Any

import anyio

from vivavoce.agents.worker.executors.ipc import STACKS_SIGNAL, Reader, Writer, hang_up
from vivavoce.agents.worker.executors.messages import (
    Exited,
    Fork,
    Forked,
    Load,
    Loaded,
    LoadFailed,
    ToProcess,
    ToWorker,
)
from vivavoce.agents.worker.executors.nursery_process import NurseryProcess
from vivavoce.pipelines.core.errors import WorkerError

logger = logging.getLogger(__name__)

STACKS_WAIT = 0.3
"""Seconds for a process to write its stacks."""

EXIT_WAIT = 1.0
"""Seconds from the end of a process's connection to the report of its exit; then it is killed."""

REPORT_WAIT = 10.0
"""Seconds from that kill until the process counts as over without a report: its nursery is stuck."""

UNKNOWN_END = "ended with an unknown status"

EXIT_POLL = 0.01
"""Seconds between two looks whether the nursery has exited."""

NURSERY_LIMIT = 3.0
"""Seconds for the nursery to exit when its connection has ended and its processes are over."""

NurseryReport = Forked | Exited


class NurseryHandle:
    """The running nursery.

    Args:
        started: Its process; `load()` comes next.
        on_report: Called with each process that was made or is over, and with None when the nursery itself is gone.

    Raises:
        RuntimeError: No thread is left.
    """

    def __init__(self, started: NurseryProcess, on_report: Callable[[NurseryReport | None], None]) -> None:
        self._process = started.process
        self._connection = connection = started.connection
        self._on_report = on_report
        self._answer: Loaded | LoadFailed | None = None
        self._answered = anyio.Event()
        self._reader = Reader("nursery", connection, asyncio.get_running_loop(), self._heard)

    async def load(self, load: Load, limit: float) -> Loaded:
        """Have it load the application.

        Raises:
            OSError: It has ended.
            WorkerError: It cannot, or takes longer than `limit` seconds.
        """
        self._connection.send(load)
        with anyio.move_on_after(limit):
            await self._answered.wait()
        match self._answer:
            case Loaded():
                return self._answer
            case LoadFailed(error=error, traceback=traceback):
                if traceback:
                    logger.error("the application fails to load in a process of its own:\n%s", traceback)
                raise WorkerError(f"the application cannot be loaded for the job processes: {error}")
            case None if self._answered.is_set():
                raise ConnectionError("the process that loads the application has ended; see its output above")
            case _:
                raise WorkerError(
                    f"the application was not loaded within {limit:g} s; raise start_limit of ProcessExecution, or "
                    "make its modules load faster"
                )

    def fork(self, number: int, connection: Connection, stacks: int) -> None:
        """Request a process.

        Raises:
            OSError: The nursery is gone.
        """
        handle = self._connection.fileno()
        # Made before the request, since it may be one file too many: a nursery would wait for the rest for ever.
        with socket.fromfd(handle, socket.AF_UNIX, socket.SOCK_STREAM) as end:
            self._connection.send(Fork(number=number))
            for sent in (connection.fileno(), stacks):
                reduction.sendfds(end, [sent])

    async def aclose(self, limit: float) -> None:
        """End the nursery; processes that it has made and that still run get `limit` seconds."""
        hang_up(self._connection)
        with anyio.move_on_after(limit + NURSERY_LIMIT, shield=True):
            while self._process.poll() is None:  # noqa: ASYNC110 - the system has no event for it that needs no thread
                await anyio.sleep(EXIT_POLL)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._connection.close()

    def _heard(self, message: Any) -> None:
        match message:
            case Loaded() | LoadFailed():
                self._answer = message
                self._answered.set()
            case None:
                self._answered.set()
                self._on_report(None)
            case _:
                self._on_report(message)


class ProcessHandle:
    """A job process.

    Args:
        number: Of the process, in this pool.
        on_message: Called with each of its messages.
        on_ended: Called once, when it is over and all its messages were received, with the cause as a predicate.

    Raises:
        OSError: No file handle, or no space for the file of its stacks, is left.
        RuntimeError: No thread is left.
    """

    def __init__(self, number: int, on_message: Callable[[ToWorker], None], on_ended: Callable[[str], None]) -> None:
        self.number = number
        self._on_message = on_message
        self._on_ended = on_ended
        self._pid: int | None = None
        self._cause = ""
        self._is_silent = False
        self._is_forked = False
        self.is_killed = False
        """Whether the worker has killed it."""
        self._is_over = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        with ExitStack() as held:  # each file and each thread may be one too many
            self._stacks = held.enter_context(tempfile.TemporaryFile())
            self._connection, self._its_end = Pipe()
            held.callback(self._its_end.close)
            held.callback(self._connection.close)
            self._writer = Writer(f"to job process {number}", self._connection)
            held.callback(self._writer.join)
            self._reader = Reader(f"job process {number}", self._connection, self._loop, self._heard)
            held.callback(self._reader.join)
            held.callback(hang_up, self._connection)
            self._held = held.pop_all()

    def fork(self, nursery: NurseryHandle) -> None:
        """Have the nursery make it.

        Raises:
            OSError: The nursery is gone.
        """
        nursery.fork(self.number, self._its_end, self._stacks.fileno())
        self._is_forked = True
        self._its_end.close()

    def forked(self, pid: int) -> None:
        """The nursery has made it."""
        self._pid = pid
        if self.is_killed:
            self._signal(signal.SIGKILL)

    def exited(self, cause: str) -> None:
        """The process is over; its last messages may still be on their way."""
        self._cause = cause
        self._its_end.close()
        hang_up(self._connection)
        self._end_when_over()

    def nursery_lost(self) -> None:
        """No exit will be reported: the end of the connection counts instead."""
        if not self._is_forked:  # the next nursery makes it
            return
        self._cause = self._cause or UNKNOWN_END
        if self._pid is None:
            hang_up(self._connection)
        self._end_when_over()

    def send(self, message: ToProcess) -> None:
        """Send a message; never waits."""
        self._writer.send(message)

    def kill(self) -> None:
        """End it at once."""
        if self._is_over:
            return
        self.is_killed = True
        if self._is_forked and self._pid is None:  # the nursery is stuck; a process that it makes yet has no connection
            hang_up(self._connection)
        self._signal(signal.SIGKILL)

    async def log_stacks(self) -> None:
        """Log where its threads are."""
        self._signal(STACKS_SIGNAL)
        await anyio.sleep(STACKS_WAIT)
        if self._is_over:  # its end has logged them
            return
        if stacks := self._written():
            logger.error("job process %d (pid %s) was here:\n%s", self.number, self._pid, stacks)

    def close(self) -> None:
        """Give back what it holds; it is over."""
        if self._timer is not None:
            self._timer.cancel()
        self._held.close()

    def _heard(self, message: ToWorker | None) -> None:
        if message is not None:
            self._on_message(message)
            return
        self._is_silent = True
        if not self._cause:
            self._timer = self._loop.call_later(EXIT_WAIT, self._kill_silent)
        self._end_when_over()

    def _kill_silent(self) -> None:
        """It has closed its connection and runs on, or nothing reports its end."""
        self.kill()
        self._timer = self._loop.call_later(REPORT_WAIT, self._end_unreported)

    def _end_unreported(self) -> None:
        self._cause = self._cause or UNKNOWN_END
        self._end_when_over()

    def _end_when_over(self) -> None:
        if not (self._cause and self._is_silent) or self._is_over:
            return
        self._is_over = True
        if stacks := self._written():
            logger.error("job process %d (pid %s) has left these stacks:\n%s", self.number, self._pid, stacks)
        self._on_ended(self._cause)

    def _written(self) -> str:
        """Return the stacks that it has written since the last call."""
        length = os.fstat(self._stacks.fileno()).st_size
        text = os.pread(self._stacks.fileno(), length, 0).decode(errors="replace").strip()
        self._stacks.truncate(0)
        os.lseek(self._stacks.fileno(), 0, os.SEEK_SET)  # the position is the process's too
        return text

    def _signal(self, number: signal.Signals) -> None:
        if self._pid is None or self._is_over:
            return
        try:
            os.kill(self._pid, number)
        except ProcessLookupError:  # over, which is reported soon
            return


def exit_words(exit_code: int, *, was_killed: bool) -> str:
    """Return the end of a process as a predicate."""
    if exit_code >= 0:
        return f"exited with status {exit_code}"
    try:
        name = signal.Signals(-exit_code).name
    except ValueError:
        name = f"signal {-exit_code}"
    if name == "SIGKILL" and not was_killed:
        return "was ended by SIGKILL (somebody killed it, or the machine had no memory left)"
    return f"was ended by {name}"

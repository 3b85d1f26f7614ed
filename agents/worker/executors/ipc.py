"""Messages between a worker, its nursery and its job processes; how they are sent and read.

All are frozen dataclasses, pickled over a socket pair by `multiprocessing.connection`. A reading thread of each
connection hands messages to the event loop, so that a process that stops in the middle of a message holds up no other.
"""

from __future__ import annotations

import logging
import queue
import signal
import socket
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

STACKS_SIGNAL = signal.SIGUSR1
"""Makes a job process write the stacks of its threads, even if its event loop is blocked."""

# The worker to its nursery


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Get ready to fork: first message.

    Args:
        parcel: The pickled `Parcel`; each process unpacks it after the fork if `is_shared` is false.
        is_shared: Whether to load the application here, once for all processes.
        stop_limit: Seconds that the processes have for their end when the worker is gone.
    """

    parcel: bytes = field(repr=False)
    is_shared: bool
    stop_limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """Make a process; the handles of its connection and of the file for its stacks follow."""

    number: int


# The nursery to its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The nursery can fork.

    Args:
        threads: Threads that the application has started while it was loaded; forking is not safe if there are any.
    """

    threads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFailed:
    """The application could not be loaded.

    Args:
        traceback: For the log; empty for an error that speaks for itself.
    """

    error: str
    traceback: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A process was made."""

    number: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A process is over; a negative `exit_code` is the number of a signal."""

    number: int
    exit_code: int


# The worker to a job process


@dataclass(frozen=True, slots=True, kw_only=True)
class RunJob:
    """Run a job; `url` is where its room is."""

    assigned: JobAssigned
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndJob:
    """End a job if it still runs."""

    job_id: str
    reason: str
    is_forced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndProcess:
    """Leave the rooms of all jobs, then end."""


ToProcess = RunJob | EndJob | EndProcess

# A job process to its worker


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """Prewarm has returned: jobs may come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFailed:
    """Prewarm, or loading the application, has failed; the process ends."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The event loop runs."""

    facts: ProcessFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of the sessions in the process, so far."""

    figures: tuple[Figure, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    """A log record for the worker's handlers."""

    record: logging.LogRecord = field(repr=False)


ToWorker = Warm | WarmFailed | Heartbeat | Figures | Logged | JobEnded


class Reader:
    """Reads a connection in a thread and hands each message to an event loop.

    Args:
        name: Of the thread.
        on_message: Called on the loop with each message, and with None once at the connection's end. A message that
            cannot be read is one line in the log.
    """

    def __init__(
        self, name: str, connection: Connection, loop: AbstractEventLoop, on_message: Callable[[Any], None]
    ) -> None:
        self._connection = connection
        self._loop = loop
        self._on_message = on_message
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait for the thread; the connection has ended or `hang_up()` was called on it."""
        self._thread.join()

    def _read(self) -> None:
        while True:
            try:
                message = self._connection.recv()
            except (EOFError, OSError):
                break
            except Exception as error:  # noqa: BLE001 - unpickling may raise anything; the end must be noticed
                logger.error("a message of %s cannot be read: %s", self._thread.name, describe(error))
                continue
            self._loop.call_soon_threadsafe(self._on_message, message)
        self._loop.call_soon_threadsafe(self._on_message, None)


class Writer:
    """Writes to a connection in a thread: `send` never waits, whatever the other side does."""

    def __init__(self, name: str, connection: Connection) -> None:
        self._connection = connection
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name=name, daemon=True)
        self._thread.start()

    def send(self, message: Any) -> None:
        """Queue a message; it is dropped if the connection has ended."""
        self._queue.put(message)

    def join(self) -> None:
        """End the thread, after the messages so far or at the connection's end."""
        self._queue.put(None)
        self._thread.join()

    def _write(self) -> None:
        while (message := self._queue.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:  # the process is gone, which the reader reports
                return


def hang_up(connection: Connection) -> None:
    """End a connection for both sides; a thread that reads it or writes to it goes on with its end."""
    # Its own file handle, no copy: none may be left.
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=connection.fileno())
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # the other side has ended it already
        return
    finally:
        end.detach()

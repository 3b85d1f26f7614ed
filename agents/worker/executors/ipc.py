"""How a worker, its nursery and its job processes send and read their `messages`: pickled, over a socket pair.

A reading thread of each connection hands messages to the event loop, so that a process that stops in the middle of a
message holds up no other.
"""

from __future__ import annotations

import logging
import queue
import signal
import socket
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)

STACKS_SIGNAL = signal.SIGUSR1
"""Makes a job process write the stacks of its threads, even if its event loop is blocked."""


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

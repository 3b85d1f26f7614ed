"""TraceWriter: writes a session's trace (`agents/turn/trace/record`) to a file, in a thread of its own, off the loop.

Asked for by `SessionOptions(trace_path=...)` or the environment's `VIVAVOCE_TRACE`; the option wins, "" turns it off.
**A trace holds what the user said**, which nothing else writes down: that is why it has to be asked for, and why only
the file's owner may read it (mode 0600). `vivavoce replay` shows it.

`agents.core.session_files` names the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import Future
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

import anyio

from vivavoce.agents.core.session_files import session_file
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.trace.record import RecordedMachine, TraceStep, end_line, header_line, step_line
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.private_file import create_private

logger = logging.getLogger(__name__)

VARIABLE = "VIVAVOCE_TRACE"

MAX_WAITING = 10_000
"""Steps that may wait for the disk, minutes of a lively call; a trace with holes is of no use, so it ends then."""


def make_trace_writer(path: str | Path | None, session_id: str, clock: Clock) -> TraceWriter | None:
    """Return what writes the trace that the option or the environment asks for, None if neither does."""
    wanted = os.environ.get(VARIABLE, "") if path is None else os.fspath(path)
    return TraceWriter(session_file(wanted, session_id, suffix=".jsonl"), session_id, clock) if wanted else None


class TraceWriter:
    """Takes steps without waiting and writes them in order; the thread begins with the first one.

    No failure reaches the session: it is logged once, and the trace ends there. The thread is a daemon and what it has
    taken is on disk at once, so that a process that forgets its session can end.

    Args:
        path: The file; should it exist, a name beside it.
        session_id: For the first line and the log.
        clock: Told of the wait for the thread, so that virtual time stands still.
    """

    def __init__(self, path: Path, session_id: str, clock: Clock) -> None:
        self._path = path
        self._session_id = session_id
        self._clock = clock
        self._options = TurnOptions()
        self._began_at = 0.0
        self._entries: SimpleQueue[TraceStep | str] = SimpleQueue()
        self._written: Future[None] | None = None
        self._is_open = True

    def recorded_machine(self, options: TurnOptions) -> RecordedMachine:
        """Return a turn machine whose steps go here."""
        self._options = options
        return RecordedMachine(options, self.record)

    def record(self, step: TraceStep) -> None:
        """Take a step; after `close()` or a failure nothing happens."""
        if not self._is_open:
            return
        if self._written is None:
            self._begin()
        if self._entries.qsize() < MAX_WAITING:
            self._entries.put(step)
            return
        logger.error(
            "The trace of session %s ends: %d steps wait for the disk; the call goes on", self._session_id, MAX_WAITING
        )
        self._end("the disk was too slow")

    def close(self) -> None:
        """Let the trace end with what was taken."""
        if self._is_open:
            self._end("closed")

    async def written(self, limit: float) -> None:
        """Wait until all is on disk after `close()`, at most `limit` seconds; then it is left to the thread."""
        if self._written is None:
            return
        with self._clock.hold(), anyio.move_on_after(limit) as scope:
            await asyncio.shield(asyncio.wrap_future(self._written))
        if scope.cancelled_caught:
            logger.warning("The trace of session %s is still being written", self._session_id)

    def _begin(self) -> None:
        self._began_at = self._clock.wall()
        self._written = Future()
        threading.Thread(target=self._run, args=(self._written,), name=f"trace {self._session_id}", daemon=True).start()

    def _end(self, why: str) -> None:
        self._is_open = False
        self._entries.put(why)

    # --- in the thread

    def _run(self, written: Future[None]) -> None:
        try:
            with self._open() as file:
                logger.info("Session %s is traced to %s", self._session_id, self._path)
                self._write(file)
        except OSError as error:
            logger.error(
                "Session %s cannot be traced to %s: %s; the call goes on", self._session_id, self._path, error.strerror
            )
        except Exception as error:  # noqa: BLE001 - a bug of ours must not end the call, which is only watched here
            logger.error("The trace of session %s ends by an error: %s", self._session_id, describe(error))
            logger.debug("The trace ends by an error", exc_info=error)
        finally:
            self._is_open = False
            written.set_result(None)

    def _open(self) -> TextIO:
        descriptor, self._path = create_private(self._path)
        # A text typed may hold half a character, which is to be kept as it is.
        return open(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="\n")

    def _write(self, file: TextIO) -> None:
        try:
            ours = version("vivavoce")
        except PackageNotFoundError:  # run from its sources
            ours = ""
        file.write(header_line(self._options, session_id=self._session_id, version=ours, began_at=self._began_at))
        while True:
            entry = self._entries.get()
            if isinstance(entry, str):
                file.write(end_line(entry))
                return
            file.write(step_line(entry))
            if self._entries.empty():
                file.flush()

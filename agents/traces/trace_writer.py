"""TraceWriter: writes a session's trace (`agents/turn/trace/record`) to a file, in a thread of its own, off the loop.

`SessionOptions(trace_path=...)` or the variable `VIVAVOCE_TRACE` asks for it; the option wins, and "" turns it off.
**A trace holds the user's words**, which no other file of the session holds without `capture_content`: it is written on
request only, and only its owner may read it (mode 0600). `vivavoce replay` shows it.

`agents.core.session_files` names the file.
"""

from __future__ import annotations

import asyncio
import logging
import os
from concurrent.futures import Future
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from queue import SimpleQueue
from typing import TextIO

import anyio

from vivavoce.agents.core.session_files import session_file
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.traces.trace_rules import rules_here
from vivavoce.agents.turn.options import TurnOptions
from vivavoce.agents.turn.trace.record import RecordedMachine, TraceStep, end_line, header_line, step_line
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.core.private_file import create_private

logger = logging.getLogger(__name__)

VARIABLE = "VIVAVOCE_TRACE"

MAX_WAITING = 10_000
"""Steps that may wait for the disk, minutes of a lively call. With more the trace ends: one with holes is of no use."""


def make_trace_writer(path: str | Path | None, session_id: str, clock: Clock) -> TraceWriter | None:
    """Return the writer of the trace that the option or the environment asks for, None if neither does."""
    wanted = os.environ.get(VARIABLE, "") if path is None else os.fspath(path)
    return TraceWriter(session_file(wanted, session_id, suffix=".jsonl"), session_id, clock) if wanted else None


class TraceWriter:
    """Takes steps without waiting and writes them in order; the thread begins with the first one.

    No failure reaches the session: it is logged once, and the trace ends there. The thread is a daemon and writes steps
    at once, so that a process that forgets its session can end.

    Args:
        path: The file; if it exists, a name beside it.
        session_id: For the first line and the log.
        clock: Holds virtual time while the session waits for the thread.
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
        """Return a turn machine whose steps are written here."""
        self._options = options
        return RecordedMachine(options, self.record)

    def record(self, step: TraceStep) -> None:
        """Enqueue a step; no effect after `close()` or a failure."""
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
        """End the trace after the steps so far."""
        if self._is_open:
            self._end("closed")

    async def written(self, limit: float) -> None:
        """Wait until all is on disk after `close()`, at most `limit` seconds; then the thread goes on alone."""
        if self._written is None:
            return
        with self._clock.hold(), anyio.move_on_after(limit) as scope:
            await asyncio.shield(asyncio.wrap_future(self._written))
        if scope.cancelled_caught:
            logger.warning("The trace of session %s is still being written", self._session_id)

    def _begin(self) -> None:
        self._began_at = self._clock.wall()
        self._written = SerialThread(f"trace {self._session_id}").submit(self._run)

    def _end(self, why: str) -> None:
        self._is_open = False
        self._entries.put(why)

    # --- in the thread

    def _run(self) -> None:
        try:
            with self._open() as file:
                logger.info("Session %s is traced to %s", self._session_id, self._path)
                self._write(file)
        except OSError as error:
            logger.error(
                "Session %s cannot be traced to %s: %s; the call goes on", self._session_id, self._path, error.strerror
            )
        except Exception as error:  # noqa: BLE001 - a bug here must not end the call, which the trace only watches
            logger.error("The trace of session %s ends by an error: %s", self._session_id, describe(error))
            logger.debug("The trace ends by an error", exc_info=error)
        finally:
            self._is_open = False

    def _open(self) -> TextIO:
        descriptor, self._path = create_private(self._path)
        # A name may hold half a character; the trace keeps it.
        return open(descriptor, "w", encoding="utf-8", errors="surrogatepass", newline="\n")

    def _write(self, file: TextIO) -> None:
        try:
            ours = version("vivavoce")
        except PackageNotFoundError:  # run from its sources
            ours = ""
        about = {"session_id": self._session_id, "version": ours, "rules": rules_here()}
        file.write(header_line(self._options, began_at=self._began_at, **about))
        while True:
            entry = self._entries.get()
            if isinstance(entry, str):
                file.write(end_line(entry))
                return
            file.write(step_line(entry))
            if self._entries.empty():
                file.flush()

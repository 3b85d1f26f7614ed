"""The main of a job process: prewarms, then runs jobs as tasks, on the worker's command.

It ends on command, and at the end of its connection, since its worker is gone then: the jobs leave their rooms first.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import logging.handlers
import math
import multiprocessing
import numbers
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from vivavoce.agents.telemetry.destination import telemetry_for
from vivavoce.agents.telemetry.logs.logs import ContextFilter
from vivavoce.agents.telemetry.metrics.figures import figures_of
from vivavoce.agents.worker.crash_safety import close_store
from vivavoce.agents.worker.executors import ipc
from vivavoce.agents.worker.executors import messages as m
from vivavoce.agents.worker.executors.measure import ProcessMeter
from vivavoce.agents.worker.executors.parcel import Application
from vivavoce.agents.worker.executors.task import TaskExecutor
from vivavoce.agents.worker.heap import freeze_heap
from vivavoce.agents.worker.metrics import metric_reader
from vivavoce.agents.worker.prewarm import SharedParts
from vivavoce.pipelines.core.errors import describe, own_traceback

logger = logging.getLogger(__name__)

FIGURES_INTERVAL = 2.0
"""Seconds between two reports of the figures; a process that is killed loses its last ones."""

HEARTBEAT = 1.0
"""Seconds between two heartbeats."""

PLAIN = (str, bool, type(None))
"""Types of the values in a log record for the worker that stay as they are; numbers become an int or a float."""

UNPREPARED = "could not be prepared for jobs"

CLOSE_LIMIT = 5.0
"""Seconds for closing the parts that jobs share, and for the last export of telemetry."""


def main(number: int, connection: Connection, stacks: int, application: Callable[[], Application]) -> None:
    """Run jobs until the worker ends the process or is gone.

    Args:
        number: Of the process, in this worker.
        connection: To the worker.
        stacks: Handle of the file for the stacks of this process's threads.
        application: Returns the application, loading it if the nursery has not.
    """
    multiprocessing.current_process().name = f"vivavoce-jobs-{number}"
    faulthandler.enable(stacks, all_threads=True)
    faulthandler.register(ipc.STACKS_SIGNAL, stacks, all_threads=True)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()  # the processes would all draw the same numbers
    worker = _Worker(connection)
    _log_to(worker)
    try:
        loaded = application()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the application's modules may raise anything
        logger.error("the application cannot be loaded:\n%s", own_traceback(error))
        worker.send(m.WarmFailed(error=f"{UNPREPARED}: {describe(error, quotes_foreign=True)}"))
        return
    for name, level in loaded.log_levels.items():
        logging.getLogger(name).setLevel(level)
    anyio.run(_JobProcess(loaded, worker).run, connection)


class _Worker:
    """The other side: messages of any thread go out at once, so that none is lost if the process crashes."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: m.ToWorker) -> None:
        """Send a message; without effect if the worker is gone."""
        with self._lock:
            try:
                self._connection.send(message)
            except OSError:
                return  # reading notices it


class _JobProcess:
    def __init__(self, application: Application, worker: _Worker) -> None:
        self._options = options = application.options
        self._worker = worker
        self._shared = SharedParts(options.prewarm)
        self._reader = metric_reader(options)
        self._telemetry, _ = telemetry_for(options.telemetry, self._reader)
        self._meter = ProcessMeter()
        self._jobs = TaskExecutor(application.entrypoint, options, self._shared.parts, self._telemetry, self._meter)

    async def run(self, connection: Connection) -> None:
        commands, received = anyio.create_memory_object_stream[m.ToProcess | None](math.inf)
        ipc.Reader("from the worker", connection, asyncio.get_running_loop(), commands.send_nowait)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._meter.run)
            tasks.start_soon(self._beat)
            tasks.start_soon(self._report_figures)
            if await self._warm():
                await self._obey(received)
            self._send_figures()
            with anyio.move_on_after(CLOSE_LIMIT, shield=True):
                await self._shared.aclose()
                if self._telemetry is not None:
                    await self._telemetry.aclose()
                await close_store(self._options.crash_safety)
            tasks.cancel_scope.cancel()

    async def _warm(self) -> bool:
        try:
            await self._shared.warm()
        except Exception as error:  # noqa: BLE001 - the application's own function
            logger.error("prewarm failed:\n%s", own_traceback(error))
            problem = f"{UNPREPARED}: prewarm failed: {describe(error, quotes_foreign=True)}"
            self._worker.send(m.WarmFailed(error=problem))
            return False
        freeze_heap()
        return True

    async def _obey(self, commands: MemoryObjectReceiveStream[m.ToProcess | None]) -> None:
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._jobs.run, self._worker.send)
            self._worker.send(m.Warm())
            async for command in commands:
                match command:
                    case m.RunJob(assigned=assigned, url=url):
                        self._jobs.start(assigned, url)
                    case m.EndJob(job_id=job_id, reason=reason, is_forced=is_forced):
                        self._jobs.end(job_id, reason, is_forced=is_forced)
                    case m.EndProcess() | None:
                        break
            tasks.cancel_scope.cancel()

    async def _beat(self) -> None:
        while True:
            (facts,) = self._jobs.facts()
            self._worker.send(m.Heartbeat(facts=facts))
            await anyio.sleep(HEARTBEAT)

    async def _report_figures(self) -> None:
        while self._reader is not None:
            await anyio.sleep(FIGURES_INTERVAL)
            await anyio.to_thread.run_sync(self._send_figures)  # takes some milliseconds

    def _send_figures(self) -> None:
        if self._reader is not None:
            self._worker.send(m.Figures(figures=figures_of(self._reader)))


def _plain(value: object) -> int | float | str:
    if isinstance(value, numbers.Integral):  # those of numpy are such, without being an int
        return int(value)
    return float(value) if isinstance(value, numbers.Real) else str(value)


class _ToWorker(logging.handlers.QueueHandler):
    """Sends log records to the worker: its logging configuration counts for all processes."""

    def __init__(self, worker: _Worker) -> None:
        super().__init__(worker)  # type: ignore[arg-type]  # only enqueue() uses it
        self.addFilter(ContextFilter())

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record with plain values only; the worker need not know the application's classes."""
        record = super().prepare(record)
        for name, value in vars(record).items():
            if type(value) not in PLAIN:  # a subclass is a class of the application; a level may be one
                setattr(record, name, _plain(value))
        return record

    def enqueue(self, record: logging.LogRecord) -> None:
        """Send it."""
        self.queue.send(m.Logged(record=record))  # type: ignore[attr-defined]


def _log_to(worker: _Worker) -> None:
    """Send all records to the worker, instead of whatever handlers the application has set up while it was loaded."""
    for given in list(logging.Logger.manager.loggerDict.values()):
        if isinstance(given, logging.Logger):
            given.handlers.clear()
            given.propagate = True
    logging.root.handlers[:] = [_ToWorker(worker)]

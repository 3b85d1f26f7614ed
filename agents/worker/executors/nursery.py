"""The nursery: a process that loads the application once and makes the job processes by fork.

It has one thread and no event loop, so a fork of it is safe, and the processes share its memory. `gc.freeze()` keeps
the collector from writing to the shared pages. It exits at the end of the worker's connection.

`multiprocessing`'s own fork server does the same, but one serves the whole interpreter until its end, cannot load a
file by its path, and dies without a word if the application raises. This one belongs to one executor.
"""

from __future__ import annotations

import gc
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing import reduction
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from vivavoce.agents.worker.executors import child
from vivavoce.agents.worker.executors.messages import Exited, Fork, Forked, Load, Loaded, LoadFailed
from vivavoce.agents.worker.executors.parcel import NURSERY, Application
from vivavoce.agents.worker.prewarm import JOB_MODULES
from vivavoce.pipelines.core.errors import ConfigurationError, describe, own_traceback
from vivavoce.pipelines.core.native_threads import bound_process
from vivavoce.pipelines.core.process_end import run_process

PRELOADED = (
    "anyio._backends._asyncio",
    *JOB_MODULES,
    "vivavoce.agents.session.session",
    "vivavoce.agents.telemetry.session_telemetry",
    "vivavoce.agents.transports.livekit.transport",
)
"""Modules of every job. livekit's native library starts its threads with the first room, not when it is loaded."""


def start(handle: int) -> None:
    """Be the nursery of the worker at the other end of the socket `handle`, until its end."""
    bound_process()
    run_process(lambda: _serve(handle))


def _serve(handle: int) -> None:
    multiprocessing.current_process().name = NURSERY
    worker = Connection(handle)
    # The worker decides when processes end; a signal may reach the whole group. Handlers that do nothing, since
    # programs that the application starts would inherit SIG_IGN.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _ignored)
    for module in PRELOADED:
        importlib.import_module(module)
    try:
        load = worker.recv()
    except EOFError:  # no worker has used it
        return
    assert isinstance(load, Load), "the first message"
    application = _loaded(load, worker)
    gc.collect()
    gc.freeze()
    forks = _Forks(worker, application)
    forks.serve()
    forks.end(load.stop_limit)


def _loaded(load: Load, worker: Connection) -> Callable[[], Application]:
    """Load the application; on failure report it and exit."""
    if not load.is_shared:
        worker.send(Loaded())
        return load.parcel.unpack
    before = _thread_count()
    try:
        application = load.parcel.unpack()
    except ConfigurationError as error:
        worker.send(LoadFailed(error=str(error)))
        sys.exit(1)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the application's modules may raise anything
        worker.send(LoadFailed(error=describe(error, quotes_foreign=True), traceback=own_traceback(error)))
        sys.exit(1)
    names = tuple(thread.name for thread in threading.enumerate() if thread is not threading.main_thread())
    started = _thread_count() - before
    worker.send(Loaded(threads=names or ("native",) * started))
    return lambda: application


def _thread_count() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def _ignored(*_: object) -> None:
    """Do nothing."""


class _Forks:
    """Makes processes on request and reports their ends."""

    def __init__(self, worker: Connection, application: Callable[[], Application]) -> None:
        self._worker = worker
        self._application = application
        self._numbers: dict[int, int] = {}
        self._woken, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        os.set_blocking(self._woken, False)
        signal.signal(signal.SIGCHLD, _ignored)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)

    def end(self, limit: float) -> None:
        """Wait until all processes are over: the end of their own connections makes them leave their rooms."""
        over_at = time.monotonic() + limit  # noqa: TID251 - there is no event loop here
        while self._numbers and (left := over_at - time.monotonic()) > 0:  # noqa: TID251 - as above
            wait([self._woken], left)
            self._reap()
        for pid in self._numbers:
            os.kill(pid, signal.SIGKILL)

    def serve(self) -> None:
        """Return at the end of the connection."""
        while True:
            ready = wait([self._worker, self._woken])
            if self._woken in ready:
                self._reap()
            if self._worker not in ready:
                continue
            try:
                request = self._worker.recv()
                assert isinstance(request, Fork), "after the first message"
                handles = [reduction.recv_handle(self._worker) for _ in range(2)]
            except (EOFError, OSError):
                return
            self._fork(request.number, handles)

    def _fork(self, number: int, handles: list[int]) -> None:
        pid = os.fork()
        if pid == 0:
            self._become_child(number, handles)
        for handle in handles:
            os.close(handle)
        self._numbers[pid] = number
        self._say(Forked(number=number, pid=pid))

    def _become_child(self, number: int, handles: list[int]) -> None:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._worker.close()
        os.close(self._woken)
        os.close(self._wakes)
        connection, stacks = Connection(handles[0]), handles[1]
        run_process(lambda: child.main(number, connection, stacks, self._application))

    def _reap(self) -> None:
        try:
            while os.read(self._woken, 4096):
                pass
        except BlockingIOError:
            pass
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            number = self._numbers.pop(pid, None)
            if number is not None:  # else a program that the application has started while it was loaded
                self._say(Exited(number=number, exit_code=os.waitstatus_to_exitcode(status)))

    def _say(self, message: Any) -> None:
        try:
            self._worker.send(message)
        except OSError:
            return  # the worker is gone, which the loop notices

"""Care: the worker's tasks for callers without an agent: `Rescue` of lost calls, `Healer` of lost dispatches."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from vivavoce.agents.worker.effects import (
    Effect,
    ExecutorChanged,
    Input,
    JobEnded,
    MessageReceived,
    StartJob,
)
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.healer import Healer
from vivavoce.agents.worker.protocol import JobAssigned, Registered
from vivavoce.agents.worker.rescue import INTERVAL, Rescue
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.agents.worker.worker_view import WorkerView

SETTLE_LIMIT = 2.0
"""Seconds for the last words to the server at the end of the worker."""


class Care:
    """Runs beside the worker's loop, from its first registration until the worker takes no more jobs."""

    def __init__(self, worker: WorkerView) -> None:
        self._worker = worker
        self._news = anyio.Event()
        self._has_registered = False
        self._server = ServerApi(worker.account)
        safety = worker.options.crash_safety
        self._rescue = None if safety is None else Rescue(self._server, worker, safety)
        self._healer: Healer | None = None
        if worker.options.healing and worker.options.job_type == "room":
            self._healer = Healer(self._server, worker, recall=None if self._rescue is None else self._rescue.recall)

    def note(self, input: Input, effects: Sequence[Effect]) -> None:
        """Take a step of the supervisor: registrations, and its jobs."""
        is_registered = isinstance(input, MessageReceived) and isinstance(input.message, Registered)
        self._has_registered |= is_registered
        is_ready = isinstance(input, ExecutorChanged) and input.is_ready
        started = [effect.assigned for effect in effects if isinstance(effect, StartJob)]
        for assigned in started:
            self._keep(assigned)
        if isinstance(input, JobEnded):
            self._keep(input)
        if self._healer is not None:
            for assigned in started:
                self._healer.job_taken(assigned)
            if isinstance(input, JobEnded):
                self._healer.job_over(input)
            if is_registered:
                self._healer.look_now()
        if is_registered or is_ready or (isinstance(input, JobEnded) and input.is_process_lost):
            self._news.set()

    async def check(self) -> None:
        """Check the store of running calls, before the worker registers.

        Raises:
            ConfigurationError: It cannot be used as it is configured.
        """
        if self._rescue is not None:
            await self._rescue.check()

    async def run(self) -> None:
        """Look for lost calls and dispatches until cancelled."""
        async with self._server, anyio.create_task_group() as tasks:
            if self._healer is not None:
                tasks.start_soon(self._healer.run)
            if self._rescue is not None:
                tasks.start_soon(self._rescue.keep_records)
                await self._rescue_calls(self._rescue)

    async def settle(self) -> None:
        """Wait until the end of each job so far is settled, while `run()` runs.

        The dispatch of a call that is over is deleted: otherwise another worker takes it for a lost one. The ghost of
        an agent whose process has died is removed, and another worker finds the call. Without an answer of the server
        for so long, they stay.
        """
        with anyio.move_on_after(SETTLE_LIMIT):
            async with anyio.create_task_group() as tasks:
                if self._healer is not None:
                    tasks.start_soon(self._healer.settle)
                if self._rescue is not None and self._has_registered:
                    tasks.start_soon(self._rescue.look)

    def _keep(self, note: JobAssigned | JobEnded) -> None:
        # A job in the worker's own process begins at once, and needs no record before that.
        if self._rescue is not None and isinstance(self._worker.options.executor, ProcessExecution):
            self._rescue.note(note)

    async def _rescue_calls(self, rescue: Rescue) -> None:
        await self._news.wait()
        while True:
            self._news = anyio.Event()
            if self._worker.status().is_registered:
                await rescue.look()
            with anyio.move_on_after(INTERVAL):
                await self._news.wait()

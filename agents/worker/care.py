"""Care: the worker's tasks for callers without an agent: `Rescue` of lost calls, `Healer` of lost dispatches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.effects import (
    CallClaimed,
    Effect,
    ExecutorChanged,
    Input,
    JobEnded,
    MessageReceived,
    StartJob,
    WorkerStatus,
)
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.healer import Healer
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import JobAssigned, Registered
from vivavoce.agents.worker.rescue import INTERVAL, Rescue
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.pipelines.core.clock import Clock

SETTLE_LIMIT = 2.0
"""Seconds for the last words to the server at the end of the worker."""


class Care:
    """Runs beside the worker's loop, from its first registration until the worker takes no more jobs.

    Args:
        account: URL, key and secret of the server.
        agent_name: The name that the worker registers.
        options: Options of the worker.
        post: Takes inputs for the worker's supervisor.
        status: Returns the worker's state.
        clock: The loop's time.
    """

    def __init__(
        self,
        account: Credentials,
        agent_name: str,
        options: WorkerOptions,
        *,
        post: Callable[[Input], None],
        status: Callable[[], WorkerStatus],
        clock: Clock,
    ) -> None:
        self._account = account
        self._agent_name = agent_name
        self._options = options
        self._post = post
        self._status = status
        self._clock = clock
        self._news = anyio.Event()
        self._server = ServerApi(account)
        self._rescue = self._make_rescue(options.crash_safety)
        self._healer = Healer(
            self._server,
            account,
            agent_name,
            options,
            recall=None if self._rescue is None else self._rescue.recall,
            post=post,
            status=status,
            clock=clock,
        )

    def note(self, input: Input, effects: Sequence[Effect]) -> None:
        """Take a step of the supervisor: registrations, and its jobs."""
        for effect in effects:
            if isinstance(effect, StartJob):
                self._healer.job_taken(effect.assigned)
                self._keep(effect.assigned)
        if isinstance(input, JobEnded):
            self._healer.job_over(input)
            self._keep(input)
        is_registered = isinstance(input, MessageReceived) and isinstance(input.message, Registered)
        is_ready = isinstance(input, ExecutorChanged) and input.is_ready
        if is_registered:
            self._healer.look_now()
        if is_registered or is_ready or (isinstance(input, JobEnded) and input.is_process_lost):
            self._news.set()

    async def run(self) -> None:
        """Look for lost calls and dispatches until cancelled."""
        async with self._server, anyio.create_task_group() as tasks:
            if self._heals:
                tasks.start_soon(self._healer.run)
            if self._rescue is not None:
                tasks.start_soon(self._rescue.keep_records)
                await self._rescue_calls(self._rescue)

    async def settle(self) -> None:
        """Wait until the end of each job so far is settled: the dispatch of a call that is over is deleted.

        Otherwise another worker takes it for a lost one. Without an answer of the server for so long, it stays.
        """
        if self._heals:
            with anyio.move_on_after(SETTLE_LIMIT):
                await self._healer.settle()

    def _keep(self, note: JobAssigned | JobEnded) -> None:
        # A job in the worker's own process begins at once, and needs no record before that.
        if self._rescue is not None and isinstance(self._options.executor, ProcessExecution):
            self._rescue.note(note)

    @property
    def _heals(self) -> bool:
        return self._options.healing and self._options.job_type == "room"

    def _make_rescue(self, safety: CrashSafety | None) -> Rescue | None:
        if safety is None:
            return None
        return Rescue(
            self._server,
            url=self._account.url,
            agent_name=self._agent_name,
            safety=safety,
            claimed=lambda lease: self._post(CallClaimed(lease=lease)),
            free_slots=self._free_slots,
            clock=self._clock,
        )

    def _free_slots(self) -> int:
        status = self._status()
        return status.max_jobs - len(status.active_jobs) if status.takes_jobs else 0

    async def _rescue_calls(self, rescue: Rescue) -> None:
        await self._news.wait()
        while True:
            self._news = anyio.Event()
            if self._status().is_registered:
                await rescue.look()
            with anyio.move_on_after(INTERVAL):
                await self._news.wait()

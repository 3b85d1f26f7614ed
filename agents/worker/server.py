"""The worker's shell: one loop that feeds the supervisor and carries out its effects. It moves bytes and decides
nothing.
"""

from __future__ import annotations

import logging
import math
import random
from typing import assert_never

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vivavoce.agents.job import JobInfo
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.care import Care
from vivavoce.agents.worker.connection import Loss, run_connection
from vivavoce.agents.worker.effects import (
    AskHandler,
    Connect,
    Connected,
    ConnectionLost,
    DeadlinePassed,
    Disconnect,
    DrainRequested,
    Effect,
    EndJob,
    Finish,
    Input,
    JobDecided,
    JobEnded,
    LoadMeasured,
    MessageReceived,
    ReportDraining,
    ReportRefusal,
    ReportRegistered,
    ReportRetry,
    Send,
    Started,
    StartJob,
    StopRequested,
    WorkerStatus,
)
from vivavoce.agents.worker.executors.executor import JobExecutor
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.load import Limits, LoadMeter
from vivavoce.agents.worker.machine import Machine
from vivavoce.agents.worker.metrics import WorkerState
from vivavoce.agents.worker.options import WorkerOptions, websocket_url
from vivavoce.agents.worker.protocol import JobAssigned, Registered, encode
from vivavoce.agents.worker.request import JobRequest, Rejection
from vivavoce.agents.worker.supervisor import Supervisor
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError
from vivavoce.pipelines.core.owned_call import OwnedCall

logger = logging.getLogger(__name__)

FLUSH_LIMIT = 2.0
"""Seconds to send the queued frames of a connection that is being closed."""


class _Connection:
    """The loop's handle of a connection that runs in a task."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.outgoing, self.queued = anyio.create_memory_object_stream[bytes](math.inf)
        self.scope = anyio.CancelScope()
        self.is_open = False

    def open(self) -> None:
        """The server has accepted the connection."""
        self.is_open = True


class WorkerServer:
    """Runs one worker until it has finished.

    Args:
        agent_name: Name that the worker registers.
        credentials: URL, key and secret of the server.
        options: Options of the worker.
        executor: Runs the jobs.
        clock: The loop's time.
    """

    def __init__(
        self, agent_name: str, credentials: Credentials, options: WorkerOptions, executor: JobExecutor, clock: Clock
    ) -> None:
        self._credentials = credentials
        self._options = options
        self._executor = executor
        self._clock = clock
        self._machine = Machine()
        self._meter = LoadMeter()
        self._supervisor = Supervisor(agent_name, options, random.random)
        view = WorkerView(
            account=credentials,
            agent_name=agent_name,
            options=options,
            post=self._post,
            status=self.status,
            clock=clock,
        )
        self._care = Care(view)
        self._inputs: MemoryObjectSendStream[Input] | None = None
        self._early: list[Input] = []
        self._tasks: TaskGroup | None = None
        self._connection: _Connection | None = None
        self._task_status: TaskStatus[None] | None = None

    def status(self) -> WorkerStatus:
        """Return the worker's state."""
        return self._supervisor.status()

    def state(self) -> WorkerState:
        """Return the worker's state with its load and its processes."""
        return WorkerState(status=self.status(), measured=self._meter.measured, processes=self._executor.facts())

    def figures(self) -> tuple[Figure, ...]:
        """Return the figures of the sessions in processes other than this one."""
        return self._executor.figures()

    def drain(self) -> None:
        """Take no more jobs, let the running ones finish, then end."""
        self._post(DrainRequested())

    def stop(self) -> None:
        """End the running jobs, then end."""
        self._post(StopRequested())

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Work until drained, stopped or failed; `started()` on the first register reply.

        Raises:
            ConfigurationError: The store of running calls can never be used.
            WorkerError: The server could not be reached, or refused us.
        """
        self._task_status = task_status
        self._inputs, inputs = anyio.create_memory_object_stream[Input](math.inf)
        with self._inputs, inputs:
            async with anyio.create_task_group() as self._tasks:
                async with anyio.create_task_group() as starts:
                    starts.start_soon(self._care.check)
                    await self._tasks.start(self._executor.run, self._post, self._post)
                self._tasks.start_soon(self._care.run)
                for early in (*self._early, Started()):
                    self._post(early)
                error = await self._decide(inputs)
                await self._care.settle()
                self._tasks.cancel_scope.cancel()
            self._inputs = None
        if error:
            raise WorkerError(error)

    async def _decide(self, inputs: MemoryObjectReceiveStream[Input]) -> str:
        while True:
            finish = self._step(await self._next_input(inputs))
            if finish is not None:
                return finish.error

    async def _next_input(self, inputs: MemoryObjectReceiveStream[Input]) -> Input:
        deadline = self._supervisor.next_deadline()
        wait = math.inf if deadline is None else max(0.0, deadline - self._clock.now())
        with anyio.move_on_after(wait):
            return await inputs.receive()
        return DeadlinePassed()

    def _step(self, input: Input) -> Finish | None:
        if isinstance(input, ConnectionLost):
            self._connection = None
        effects: list[Effect] = []
        if (load := self._measure(input)) is not None:
            effects += self._supervisor.handle(LoadMeasured(load=load), now=self._clock.now())
        effects += self._supervisor.handle(input, now=self._clock.now())
        self._care.note(input, effects)
        for effect in effects:
            if isinstance(effect, Finish):
                return effect
            self._do(effect)
        return None

    def _do(self, effect: Effect) -> None:
        match effect:
            case Connect(connection=number):
                self._connect(number)
            case Disconnect():
                self._disconnect()
            case Send(message=message):
                if self._connection is not None:
                    self._connection.outgoing.send_nowait(encode(message))
            case AskHandler(job=job):
                self._task_group().start_soon(self._ask, job)
            case StartJob(assigned=assigned):
                self._start_job(assigned)
            case EndJob():
                self._executor.end(effect.job_id, effect.reason, is_forced=effect.is_forced)
            case ReportRegistered(worker_id=worker_id):
                logger.info("registered as %s at %s: %s", worker_id, self._credentials.url, self._described())
                if self._task_status is not None:
                    self._task_status.started()
                    self._task_status = None
            case ReportRetry():
                logger.warning("%s; try %d in %.1f s", effect.reason, effect.attempt, effect.delay)
            case ReportDraining():
                jobs = "1 job" if effect.job_count == 1 else f"{effect.job_count} jobs"
                logger.info("draining: %s left, for %.0f s at most", jobs, effect.limit)
            case ReportRefusal():
                logger.warning("the server assigned job %s, which starts nothing: %s", effect.job_id, effect.reason)
            case Finish():
                raise AssertionError("ends the loop")
            case _:
                assert_never(effect)

    def _described(self) -> str:
        """Return the worker's name, number of jobs and their place, for people."""
        name, options = self.status().agent_name, self._options
        place = "this process"
        if isinstance(options.executor, ProcessExecution):
            place = f"{len(self._executor.facts())} processes"
        jobs = {"room": "each new room", "publisher": "each publisher", "participant": "each participant"}
        whom = f"agent {name!r}" if name else jobs[options.job_type]
        return f"{whom}, at most {options.max_jobs} jobs in {place}"

    def _connect(self, number: int) -> None:
        self._connection = _Connection(number)
        self._task_group().start_soon(self._hold, self._connection)

    def _disconnect(self) -> None:
        connection = self._connection
        if connection is None:
            return
        if connection.is_open:
            connection.outgoing.close()
            connection.scope.deadline = self._clock.now() + FLUSH_LIMIT
        else:
            connection.scope.cancel()

    async def _hold(self, connection: _Connection) -> None:
        def on_open() -> None:
            connection.open()
            self._post(Connected(connection=connection.number))

        loss = Loss(reason="the server did not answer in time")
        with connection.outgoing, connection.queued:
            with connection.scope:
                loss = await run_connection(
                    self._credentials,
                    connection.queued,
                    on_open,
                    lambda message: self._post(MessageReceived(connection=connection.number, message=message)),
                )
        lost = ConnectionLost(connection=connection.number, reason=loss.reason, is_refused=loss.is_refused)
        self._post(lost)

    async def _ask(self, job: JobInfo) -> None:
        assert self._options.on_request is not None, "asked for only where there is a handler"
        handler, request = self._options.on_request, JobRequest(job)
        call = OwnedCall(f"the request handler, asked about job {job.id},", lambda: handler(request))
        self._task_group().start_soon(call.run)
        await call.finish(self._options.request_timeout)
        if request.decision is None:
            logger.warning("job %s is rejected: the request handler did not decide on it", job.id)
        self._post(JobDecided(job_id=job.id, decision=request.decision or Rejection()))

    def _start_job(self, assigned: JobAssigned) -> None:
        try:
            url = websocket_url(assigned.url) if assigned.url else self._credentials.url
        except ConfigurationError as error:
            self._post(JobEnded(job_id=assigned.job.id, error=str(error)))
        else:
            self._executor.start(assigned, url)

    def _measure(self, input: Input) -> float | None:
        """Return the load if it is due before this input, such as for a status that is sent now; else None."""
        is_registration = isinstance(input, MessageReceived) and isinstance(input.message, Registered)
        if not is_registration and not isinstance(input, DeadlinePassed):
            return None
        if self._meter.is_due(now := self._clock.now()):
            machine = self._machine
            limits = Limits(
                cores=machine.cores(), memory=machine.memory_limit(), available_memory=machine.available_memory()
            )
            self._meter.measure(self._executor.facts(), limits, now)
        if self._options.load is None:
            return self._meter.measured.largest
        try:
            return float(self._options.load())
        except Exception as error:  # noqa: BLE001 - a failing user callback must not end the worker
            logger.error("the load function failed: %s", error, exc_info=error)
            return self._supervisor.status().load

    def _post(self, input: Input) -> None:
        if self._inputs is None:
            self._early.append(input)  # the request to end came during the warm-up
        else:
            self._inputs.send_nowait(input)

    def _task_group(self) -> TaskGroup:
        assert self._tasks is not None, "run() comes first"
        return self._tasks

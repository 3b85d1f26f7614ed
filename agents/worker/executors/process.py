"""Jobs in processes of their own: the shell of the pool. It moves messages and signals and decides nothing."""

from __future__ import annotations

import logging
import math
from typing import assert_never

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from vivavoce.agents.telemetry.metrics.figures import Figure, FiguresOfProcesses
from vivavoce.agents.worker.executors import messages as m
from vivavoce.agents.worker.executors import pool_events as pe
from vivavoce.agents.worker.executors.executor import Entrypoint, JobExecutor, OnEnded, OnState, ProcessFacts, ignored
from vivavoce.agents.worker.executors.handles import NurseryHandle, NurseryReport, ProcessHandle, exit_words
from vivavoce.agents.worker.executors.nursery_process import NurseryProcess, start_nursery
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.executors.parcel import Parcel, pack
from vivavoce.agents.worker.executors.pool import Pool
from vivavoce.agents.worker.machine import Machine
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import WorkerError

logger = logging.getLogger(__name__)


class ProcessExecutor(JobExecutor):
    """Runs jobs in a pool of processes.

    Args:
        entrypoint: Run once for each job, in the job's process.
        options: Options of the worker.
        execution: Options of the pool.
        nursery: The process that is to load the application, if it was started early.
    """

    def __init__(
        self,
        entrypoint: Entrypoint,
        options: WorkerOptions,
        execution: ProcessExecution,
        nursery: NurseryProcess | None = None,
    ) -> None:
        self._early = nursery
        self._entrypoint = entrypoint
        self._options = options
        self._execution = execution
        self._pool = Pool(pool_size(execution, options.max_jobs), execution)
        self._processes: dict[int, ProcessHandle] = {}
        self._figures = FiguresOfProcesses()
        self._parcel: Parcel | None = None
        self._nursery: NurseryHandle | None = None
        self._lost_nurseries: list[NurseryHandle] = []
        self._opening = anyio.Lock()
        self._shares_application = True
        self._inputs: MemoryObjectSendStream[pe.PoolInput] | None = None
        self._tasks: TaskGroup | None = None
        self._on_ended: OnEnded | None = None
        self._on_state: OnState = ignored
        self._task_status: TaskStatus[None] | None = None
        self._failure = ""
        self._is_over = False

    async def run(
        self, on_ended: OnEnded, on_state: OnState = ignored, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
    ) -> None:
        self._parcel = pack(self._entrypoint, self._options)
        self._on_ended, self._on_state, self._task_status = on_ended, on_state, task_status
        self._inputs, received = anyio.create_memory_object_stream[pe.PoolInput](math.inf)
        with self._inputs, received:
            async with anyio.create_task_group() as self._tasks:
                try:
                    self._post(pe.PoolBegun())
                    await self._decide(received)
                finally:
                    with anyio.CancelScope(shield=True):
                        self._post(pe.PoolEndRequested())
                        await self._decide(received)
                        await self._close_nursery()
        raise WorkerError(self._failure)

    def start(self, assigned: JobAssigned, url: str) -> None:
        self._post(m.RunJob(assigned=assigned, url=url))

    def end(self, job_id: str, reason: str, *, is_forced: bool) -> None:
        self._post(m.EndJob(job_id=job_id, reason=reason, is_forced=is_forced))

    def facts(self) -> tuple[ProcessFacts, ...]:
        return self._pool.facts()

    def figures(self) -> tuple[Figure, ...]:
        return self._figures.total()

    def _post(self, input: pe.PoolInput) -> None:
        assert self._inputs is not None, "run() comes first"
        self._inputs.send_nowait(input)

    async def _decide(self, inputs: MemoryObjectReceiveStream[pe.PoolInput]) -> None:
        """Feed the pool until it is over."""
        clock = LoopClock()
        while not self._is_over:
            deadline = self._pool.next_deadline()
            input: pe.PoolInput = pe.PoolDeadlinePassed()
            with anyio.move_on_after(math.inf if deadline is None else max(0.0, deadline - clock.now())):
                input = await inputs.receive()
            for effect in self._pool.handle(input, now=clock.now()):
                self._do(effect)

    def _do(self, effect: pe.PoolEffect) -> None:
        match effect:
            case pe.MakeProcess(number=number):
                self._make(number)
            case pe.Send(number=number, message=message):
                if (handle := self._processes.get(number)) is not None:  # else it is over: the pool reads that next
                    handle.send(message)
            case pe.KillProcess(number=number, shows_stacks=shows_stacks):
                if (handle := self._processes.get(number)) is not None:  # else as above
                    self._task_group().start_soon(self._kill, handle, shows_stacks)
            case pe.ReportJob(ended=ended):
                assert self._on_ended is not None, "run() comes first"
                self._on_ended(ended)
            case pe.ReportState(state=state):
                self._on_state(state)
            case pe.ReportPoolReady():
                assert self._task_status is not None, "run() comes first"
                self._task_status.started()
            case pe.ReportPoolFailed(error=error):
                self._failure = error
            case pe.ReportTrouble(text=text, is_error=is_error):
                logger.log(logging.ERROR if is_error else logging.WARNING, "%s", text)
            case pe.FinishPool():
                self._is_over = True
            case _:
                assert_never(effect)

    # Processes

    def _make(self, number: int) -> None:
        try:
            handle = ProcessHandle(
                number, lambda message: self._heard(number, message), lambda cause: self._over(number, cause)
            )
        except (OSError, RuntimeError) as error:  # no file or no thread is left; the calls of other processes go on
            self._post(pe.ProcessEnded(number=number, cause=f"could not be made: {error}"))
            return
        self._processes[number] = handle
        self._task_group().start_soon(self._fork, handle)

    async def _fork(self, handle: ProcessHandle) -> None:
        cause = "was not made, since the worker ends"
        try:
            async with self._opening:
                nursery = await self._open_nursery()
            handle.fork(nursery)
            cause = ""
        except (OSError, RuntimeError, WorkerError) as error:
            cause = f"could not be made: {error}"
            if isinstance(error, WorkerError):  # else the nursery was killed, or the like: the next one may work
                self._post(pe.MessageReceived(number=handle.number, message=m.WarmFailed(error=cause)))
        finally:
            if cause:
                handle.exited(cause)

    async def _kill(self, handle: ProcessHandle, shows_stacks: bool) -> None:
        with anyio.CancelScope(shield=True):
            if shows_stacks:
                await handle.log_stacks()
            handle.kill()

    def _heard(self, number: int, message: m.ToWorker) -> None:
        match message:
            case m.Figures(figures=figures):
                self._figures.update(number, figures)
            case m.Logged(record=record):
                logging.getLogger(record.name).handle(record)
            case _:
                self._post(pe.MessageReceived(number=number, message=message))

    def _over(self, number: int, cause: str) -> None:
        self._processes.pop(number).close()
        self._figures.end(number)
        self._post(pe.ProcessEnded(number=number, cause=cause))

    # The nursery

    async def _open_nursery(self) -> NurseryHandle:
        """Return the nursery; make it if there is none.

        Raises:
            OSError: No process can be made.
            RuntimeError: No thread is left.
            WorkerError: The application cannot be loaded.
        """
        await self._bury_nurseries()
        if self._nursery is None:
            nursery, threads = await self._load_nursery()
            if threads:
                logger.warning(
                    "the application starts threads while it is loaded (%s), so each job process loads it anew: start "
                    "them in prewarm, and the processes share memory and begin sooner",
                    ", ".join(sorted(set(threads))),
                )
                self._shares_application = False
                await nursery.aclose(0.0)
                nursery, _ = await self._load_nursery()
            self._nursery = nursery
        return self._nursery

    async def _load_nursery(self) -> tuple[NurseryHandle, tuple[str, ...]]:
        assert self._parcel is not None, "run() comes first"
        execution = self._execution
        early, self._early = self._early, None
        started = early or start_nursery()
        try:
            nursery = NurseryHandle(started, self._nursery_reported)
        except RuntimeError:
            started.close()
            raise
        load = m.Load(parcel=self._parcel, is_shared=self._shares_application, stop_limit=execution.stop_limit)
        try:
            loaded = await nursery.load(load, execution.start_limit)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await nursery.aclose(0.0)
            raise
        return nursery, loaded.threads

    def _nursery_reported(self, report: NurseryReport | None) -> None:
        match report:
            case m.Forked(number=number, pid=pid):
                if (handle := self._processes.get(number)) is not None:
                    handle.forked(pid)
            case m.Exited(number=number, exit_code=exit_code):
                if (handle := self._processes.get(number)) is not None:
                    handle.exited(exit_words(exit_code, was_killed=handle.is_killed))
            case None:
                self._nursery_lost()
            case _:
                assert_never(report)

    def _nursery_lost(self) -> None:
        if self._nursery is None:  # it is being closed, or could not load
            return
        logger.error("the process that makes the job processes has ended; the next one is made by a new one")
        self._lost_nurseries.append(self._nursery)
        self._nursery = None
        for handle in list(self._processes.values()):
            handle.nursery_lost()

    async def _close_nursery(self) -> None:
        nursery, self._nursery = self._nursery, None
        with anyio.CancelScope(shield=True):
            if nursery is not None:
                await nursery.aclose(self._execution.stop_limit)
            await self._bury_nurseries()

    async def _bury_nurseries(self) -> None:
        """Give back what lost ones held."""
        while self._lost_nurseries:
            with anyio.CancelScope(shield=True):
                await self._lost_nurseries.pop().aclose(0.0)

    def _task_group(self) -> TaskGroup:
        assert self._tasks is not None, "run() comes first"
        return self._tasks


def pool_size(execution: ProcessExecution, max_jobs: int) -> int:
    """Return the number of processes."""
    if execution.processes is not None:
        return execution.processes
    if execution.jobs_per_process is not None:
        return math.ceil(max_jobs / execution.jobs_per_process)
    return math.ceil(Machine().cores())

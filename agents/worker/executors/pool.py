"""The pool's decisions: which process gets a job, when one is replaced or killed, how soon the next try comes.

Pure: no I/O, no clock, no task. One input in, effects out; `next_deadline()` returns when `PoolDeadlinePassed` is due.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import assert_never

from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.executors import pool_events as pe
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.executors.messages import EndJob, EndProcess, Heartbeat, RunJob, ToPool, Warm, WarmFailed
from vivavoce.agents.worker.executors.options import ProcessExecution

LATE_AFTER = 3.0
"""Seconds without a heartbeat after which a process gets no new job."""

STABLE_AFTER = 30.0
"""Seconds after which the end of a process does not count as a failed start."""

MAX_DELAY = 30.0
"""Longest wait before the next try to replace a process, in seconds; the first try comes at once, the second after 1 s,
then the wait doubles.
"""

FAILING_AFTER = 3
"""Failed starts in a row after which the worker counts as broken, if it has no process left. Before its first processes
are ready, it ends then; at once if the application itself has failed. Processes that end together, as with their
nursery, are one failed start.
"""

JOB_WAIT = 10.0
"""Seconds that an assigned job waits for a process: its caller hears nothing meanwhile."""

HELD_UP = 1.0
"""Seconds that an input may come after a deadline; if it is more, the worker itself was held up."""

MB = 1_000_000


class _Stage(Enum):
    STARTING = "loads the application and prewarms"
    READY = "takes jobs"
    ENDING = "leaves its rooms"
    KILLED = "was killed"


@dataclass(slots=True)
class _Process:
    number: int
    deadline: float | None
    """End of the start limit or of the stop limit."""
    stage: _Stage = _Stage.STARTING
    ready_at: float | None = None
    beat_at: float = 0.0
    facts: ProcessFacts | None = None
    jobs: set[str] = field(default_factory=set)
    cause: str = ""
    """Why the pool ends it, as a predicate; its jobs fail with that."""
    is_warned: bool = False


@dataclass(slots=True)
class _Waiting:
    job: RunJob
    deadline: float


class Pool:
    """Decides for one pool.

    Args:
        size: Number of processes.
        options: Limits of the processes.
    """

    def __init__(self, size: int, options: ProcessExecution) -> None:
        self._size = size
        self._options = options
        self._made = 0
        self._processes: dict[int, _Process] = {}
        self._waiting: deque[_Waiting] = deque()
        self._replacements: list[float] = []
        """When each missing process is due."""
        self._failures = 0
        self._counted = 0
        """The last process made before the last failed start was counted: the others up to it ended with that one."""
        self._last_cause = ""
        self._is_open = False
        self._is_ending = False
        self._is_over = False
        self._state = ExecutorChanged(is_ready=False)
        self._now = 0.0
        self._effects: list[pe.PoolEffect] = []

    def handle(self, input: pe.PoolInput, *, now: float) -> list[pe.PoolEffect]:
        """Take one input and return the effects in order."""
        if self._is_over:
            return []
        self._excuse_delay(now)
        self._now = now
        self._take(input, now)
        self._pass_deadlines(now)
        self._give_waiting(now)
        self._report_state(now)
        if self._is_ending and not self._processes:
            self._is_over = True
            self._effects.append(pe.FinishPool())
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        """Return when `PoolDeadlinePassed` is due; None if only an input can change anything."""
        if self._is_over:
            return None
        deadlines = [process.deadline for process in self._processes.values()]
        deadlines += [waiting.deadline for waiting in self._waiting]
        deadlines += self._replacements
        for process in self._processes.values():
            if process.stage is _Stage.READY:
                # One that is late by now changes nothing until it counts as stuck.
                is_late = process.beat_at + LATE_AFTER <= self._now
                deadlines.append(process.beat_at + (self._options.heartbeat_limit if is_late else LATE_AFTER))
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def facts(self) -> tuple[ProcessFacts, ...]:
        """Return the last facts of each process that runs or takes jobs."""
        shown = (process for process in self._processes.values() if process.stage in (_Stage.READY, _Stage.ENDING))
        return tuple(process.facts for process in shown if process.facts is not None)

    def _take(self, input: pe.PoolInput, now: float) -> None:
        match input:
            case pe.PoolBegun():
                for _ in range(self._size):
                    self._make(now)
            case RunJob():
                self._run_job(input, now)
            case EndJob():
                self._end_job(input)
            case pe.MessageReceived(number=number, message=message):
                self._take_message(self._processes[number], message, now)
            case pe.ProcessEnded(number=number, cause=cause):
                self._ended(self._processes.pop(number), cause, now)
            case pe.PoolEndRequested():
                self._end(now)
            case pe.PoolDeadlinePassed():
                pass
            case _:
                assert_never(input)

    def _take_message(self, process: _Process, message: ToPool, now: float) -> None:
        match message:
            case Warm():
                self._warm(process, now)
            case WarmFailed(error=error):
                self._let_go(process, error, now)
            case Heartbeat(facts=facts):
                self._beat(process, facts, now)
            case JobEnded():
                self._job_over(process, message)
            case _:
                assert_never(message)

    # Jobs

    def _run_job(self, job: RunJob, now: float) -> None:
        if self._is_ending:
            self._report_lost(job.assigned.job.id, "the worker is ending")
        else:
            self._waiting.append(_Waiting(job, now + JOB_WAIT))

    def _give_waiting(self, now: float) -> None:
        while self._waiting and (process := self._choice(now)) is not None:
            job = self._waiting.popleft().job
            process.jobs.add(job.assigned.job.id)
            self._effects.append(pe.Send(number=process.number, message=job))

    def _choice(self, now: float) -> _Process | None:
        """Return the process for a new job: of those that can take one, one with the fewest jobs."""
        limit = self._options.jobs_per_process
        able = [process for process in self._alive(now) if limit is None or len(process.jobs) < limit]
        return min(able, key=lambda process: (len(process.jobs), process.number), default=None)

    def _alive(self, now: float) -> list[_Process]:
        """Return the processes that can run jobs, full ones too."""
        ready = [process for process in self._processes.values() if process.stage is _Stage.READY]
        return [process for process in ready if now - process.beat_at < LATE_AFTER]

    def _end_job(self, end: EndJob) -> None:
        for waiting in self._waiting:
            if waiting.job.assigned.job.id == end.job_id:
                self._waiting.remove(waiting)
                ended = JobEnded(job_id=end.job_id, error=f"ended before it could begin: {end.reason}")
                self._effects.append(pe.ReportJob(ended=ended))
                return
        for process in self._processes.values():
            if end.job_id in process.jobs:
                self._effects.append(pe.Send(number=process.number, message=end))

    def _job_over(self, process: _Process, ended: JobEnded) -> None:
        if ended.job_id not in process.jobs:
            return
        process.jobs.remove(ended.job_id)
        if process.cause:
            self._report_lost(ended.job_id, f"the job's process {process.cause}")
        else:
            self._effects.append(pe.ReportJob(ended=ended))

    def _report_lost(self, job_id: str, error: str) -> None:
        self._effects.append(pe.ReportJob(ended=JobEnded(job_id=job_id, error=error, is_process_lost=True)))

    # Processes

    def _make(self, now: float) -> None:
        self._made += 1
        self._processes[self._made] = _Process(self._made, now + self._options.start_limit)
        self._effects.append(pe.MakeProcess(number=self._made))

    def _warm(self, process: _Process, now: float) -> None:
        if process.stage is not _Stage.STARTING:
            return
        process.stage, process.deadline = _Stage.READY, None
        process.ready_at = process.beat_at = now
        are_ready = not self._replacements and all(one.stage is _Stage.READY for one in self._processes.values())
        if not self._is_open and are_ready:
            self._is_open, self._failures = True, 0
            self._effects.append(pe.ReportPoolReady())

    def _beat(self, process: _Process, facts: ProcessFacts, now: float) -> None:
        process.beat_at = now
        process.facts = facts
        if process.stage not in (_Stage.STARTING, _Stage.READY):
            return
        limit, warning = self._options.memory_limit_mb, self._options.memory_warning_mb
        used = facts.memory / MB
        if limit is not None and used >= limit:
            self._let_go(process, f"used {used:.0f} MB of memory, with memory_limit_mb={limit}", now)
            self._effects.append(pe.Send(number=process.number, message=EndProcess()))
        elif warning is not None and used >= warning and not process.is_warned:
            process.is_warned = True
            jobs = len(process.jobs)
            text = f"job process {process.number} uses {used:.0f} MB of memory, with {jobs} jobs (memory_warning_mb)"
            self._effects.append(pe.ReportTrouble(text=text, is_error=False))

    def _let_go(self, process: _Process, cause: str, now: float) -> None:
        """A process takes no more jobs, and has `stop_limit` for its end."""
        if process.stage in (_Stage.STARTING, _Stage.READY):
            self._note(process, cause)
            process.stage, process.deadline = _Stage.ENDING, now + self._options.stop_limit
            self._replace(process, now)

    def _kill(self, process: _Process, cause: str, now: float) -> None:
        """End a process that does not do what it should; the log shows its stacks."""
        is_missing = process.stage in (_Stage.STARTING, _Stage.READY)
        if not process.cause and cause:
            self._note(process, cause)
        process.stage, process.deadline = _Stage.KILLED, None
        self._effects.append(pe.KillProcess(number=process.number, shows_stacks=True))
        if is_missing:
            self._replace(process, now)

    def _ended(self, process: _Process, cause: str, now: float) -> None:
        if process.stage in (_Stage.STARTING, _Stage.READY):
            self._note(process, cause)
            self._replace(process, now, was_lost=True)
        for job_id in sorted(process.jobs):
            self._report_lost(job_id, f"the job's process {process.cause or cause}")

    def _note(self, process: _Process, cause: str) -> None:
        process.cause = self._last_cause = cause
        jobs = f"; jobs in it: {len(process.jobs)}" if process.jobs else ""
        self._effects.append(pe.ReportTrouble(text=f"job process {process.number} {cause}{jobs}", is_error=True))

    def _replace(self, process: _Process, now: float, *, was_lost: bool = False) -> None:
        if self._is_ending:
            return
        if process.ready_at is not None and now - process.ready_at >= STABLE_AFTER:
            self._failures = 0
        elif process.number > self._counted:
            self._failures, self._counted = self._failures + 1, self._made
        if not self._is_open and not (was_lost and self._failures < FAILING_AFTER):
            self._effects.append(pe.ReportPoolFailed(error=f"a job process {self._last_cause}"))
            self._end(now)
            return
        delay = 0.0 if self._failures <= 1 else min(2.0 ** (self._failures - 2), MAX_DELAY)
        self._replacements.append(now + delay)

    def _end(self, now: float) -> None:
        if self._is_ending:
            return
        self._is_ending = True
        self._replacements.clear()
        while self._waiting:
            self._report_lost(self._waiting.popleft().job.assigned.job.id, "the worker is ending")
        for process in self._processes.values():
            if process.stage is _Stage.STARTING:
                process.stage, process.deadline = _Stage.KILLED, None
                self._effects.append(pe.KillProcess(number=process.number, shows_stacks=False))
            elif process.stage is _Stage.READY:
                process.stage, process.deadline = _Stage.ENDING, now + self._options.stop_limit
                self._effects.append(pe.Send(number=process.number, message=EndProcess()))

    # Time

    def _excuse_delay(self, now: float) -> None:
        """Give each process the time for which the worker could not run: what it has sent has waited unread."""
        due = self.next_deadline()
        if due is None or now - due <= HELD_UP:
            return
        for process in self._processes.values():
            process.beat_at = max(process.beat_at + now - due, now - LATE_AFTER)
            if process.deadline is not None:
                process.deadline = max(process.deadline + now - due, now + LATE_AFTER)

    def _pass_deadlines(self, now: float) -> None:
        options = self._options
        for process in list(self._processes.values()):
            if process.stage is _Stage.READY and process.beat_at + options.heartbeat_limit <= now:
                self._kill(process, f"gave no sign of life for {options.heartbeat_limit:g} s and was killed", now)
            if process.deadline is None or process.deadline > now:
                continue
            if process.stage is _Stage.STARTING:
                self._kill(process, f"was not ready within start_limit={options.start_limit:g} s and was killed", now)
            else:
                self._kill(process, f"did not end within stop_limit={options.stop_limit:g} s and was killed", now)
        while self._waiting and self._waiting[0].deadline <= now:
            job = self._waiting.popleft().job.assigned.job
            why = f": the last one {self._last_cause}" if self._last_cause else ""
            self._report_lost(job.id, f"no job process could take the job within {JOB_WAIT:g} s{why}")
        due = [at for at in self._replacements if at <= now]
        self._replacements = [at for at in self._replacements if at > now]
        for _ in due:
            self._make(now)

    def _report_state(self, now: float) -> None:
        if not self._is_open or self._is_ending:
            return
        has_process = any(process.stage is _Stage.READY for process in self._processes.values())
        is_failing = not has_process and self._failures >= FAILING_AFTER
        failure = f"no job process is left, the last one {self._last_cause}" if is_failing else ""
        is_ready = self._choice(now) is not None
        state = ExecutorChanged(is_ready=is_ready, is_full=not is_ready and bool(self._alive(now)), failure=failure)
        if state != self._state:
            self._state = state
            self._effects.append(pe.ReportState(state=state))

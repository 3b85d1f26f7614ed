"""The worker's decisions: slots, job reports, load, draining. Pure: no I/O, no clock, no task.

One input in, effects out; `next_deadline()` returns when `DeadlinePassed` is due. A slot is reserved before the answer
is sent, so over-booking is impossible; reports stay here until the connection that carried them has lived for a while.
The connection itself is `Registration`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import assert_never

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.agent_token import agent_identity
from vivavoce.agents.worker.effects import (
    AskHandler,
    CallClaimed,
    CallLeft,
    Connected,
    ConnectionLost,
    DeadlinePassed,
    DrainRequested,
    Effect,
    EndJob,
    ExecutorChanged,
    Finish,
    Input,
    JobDecided,
    JobEnded,
    JoinRequested,
    LoadMeasured,
    MessageReceived,
    ReportDraining,
    ReportRefusal,
    ReportRegistered,
    Send,
    Started,
    StartJob,
    StopRequested,
    WorkerCounts,
    WorkerStatus,
)
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    GoAway,
    JobAssigned,
    JobTerminated,
    MigrateJobs,
    Register,
    Registered,
    ServerMessage,
    UpdateWorker,
    WorkerMessage,
)
from vivavoce.agents.worker.registration import Phase, Registration
from vivavoce.agents.worker.reports import JobReports
from vivavoce.agents.worker.request import Acceptance, Decision, Rejection

STATUS_INTERVAL = 2.5
"""Seconds between two reports of the worker's load."""

MOST_LOAD = 0.69
"""The most that an available worker reports: a server loses a call if each worker's load is at least its `target_load`.

Source: livekit-server 1.13.5, JobRequestAffinity in pkg/service/agentservice.go; the default of `target_load` is 0.7.
"""

ASSIGNMENT_LIMIT = 7.5
"""Seconds that a slot stays reserved for an accepted job."""

SETTLED_MEMORY = 60.0
"""Seconds for which the id of a job that has ended, or that the worker has rejected, is remembered: an assignment of it
starts nothing.
"""

CLAIM_MEMORY = 15.0
"""Seconds after its new dispatch in which the job of a claimed call can come."""

LOST_LIMIT = 15.0
"""Seconds in which a call whose process has died can go on in a worker that drains; then the worker ends."""

DECISION_GRACE = 0.2
"""Seconds beyond `request_timeout` for a handler that is being cancelled."""

REJECTED = "this worker has rejected it"

LEAVE_LIMIT = 3.0
"""Seconds to deliver the last job reports, and to close the connection, when the worker ends."""


class _Stage(Enum):
    REQUESTED = "the user's handler is asked"
    ANSWERED = "waiting for the assignment"
    RUNNING = "running"


@dataclass(slots=True)
class _Slot:
    job: JobInfo
    stage: _Stage
    deadline: float | None
    is_ending: bool = False
    is_forced: bool = False

    @property
    def lease(self) -> str:
        """The lease of its call."""
        return self.job.resumes or self.job.id


class Supervisor:
    """Decides for one worker.

    Args:
        agent_name: Name that the worker registers.
        options: Options of the worker.
        jitter: Returns 0 … 1 s to add to a back-off, so that workers do not all reconnect at once.
    """

    def __init__(self, agent_name: str, options: WorkerOptions, jitter: Callable[[], float]) -> None:
        self._agent_name = agent_name
        self._options = options
        self._registration = Registration(options.max_retry, jitter)
        self._slots: dict[str, _Slot] = {}
        self._settled: dict[str, tuple[float, str]] = {}
        self._claims: dict[str, tuple[float, str]] = {}
        """Leases of the calls that this worker dispatches again, until when their jobs can come, and for whom."""
        self._lost: dict[str, float] = {}
        """Leases of the calls whose processes have died here or that are claimed, until when they can go on."""
        self._reports = JobReports()
        self._measured_load: float | None = None
        self._status_at = 0.0
        self._is_draining = False
        self._drain_deadline: float | None = None
        self._leave_deadline: float | None = None
        self._executor = ExecutorChanged(is_ready=True)
        self._counts = WorkerCounts()
        self._is_finished = False
        self._effects: list[Effect] = []

    def handle(self, input: Input, *, now: float) -> list[Effect]:
        """Take one input and return the effects in order."""
        if self._is_finished:
            return []
        available = self._is_available()
        jobs = len(self._slots)
        self._take(input, now)
        self._pass_deadlines(now)
        if self._is_registered and (available, jobs) != (self._is_available(), len(self._slots)):
            self._send_status(now)
        self._leave_when_done(now)
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float | None:
        """Return when `DeadlinePassed` is due; None if only an input can change anything."""
        if self._is_finished:
            return None
        deadlines = [self._registration.next_deadline(), self._drain_deadline, self._leave_deadline]
        deadlines += [slot.deadline for slot in self._slots.values()]
        deadlines += self._lost.values() if self._is_draining else ()
        if self._is_registered:
            deadlines.append(self._status_at)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def status(self) -> WorkerStatus:
        """Return the worker's state."""
        return WorkerStatus(
            agent_name=self._agent_name,
            worker_id=self._registration.worker_id,
            is_registered=self._is_registered,
            is_draining=self._is_draining,
            failure=self._registration.failure or self._executor.failure,
            max_jobs=self._options.max_jobs,
            load=self._load(),
            active_jobs=tuple(slot.job for slot in self._slots.values() if slot.stage is _Stage.RUNNING),
            counts=self._counts,
            can_run_jobs=self._executor.is_ready or self._executor.is_full,
            takes_jobs=self._is_registered and self._is_available(),
            lost_calls=self._lost_calls(),
        )

    def _take(self, input: Input, now: float) -> None:
        match input:
            case Started():
                self._registration.begin(now)
            case Connected(connection=connection):
                if self._registration.opened(connection):
                    self._send(
                        Register(
                            agent_name=self._agent_name,
                            permissions=self._options.permissions,
                            job_type=self._options.job_type,
                        )
                    )
            case MessageReceived(connection=connection, message=message):
                if self._registration.is_current(connection):
                    self._take_message(message, now)
            case ConnectionLost():
                if input.connection == self._registration.number and self._registration.phase is not Phase.APART:
                    self._lose_connection(input, now)
            case JobDecided(job_id=job_id, decision=decision):
                slot = self._slots.get(job_id)
                if slot is not None and slot.stage is _Stage.REQUESTED:
                    self._answer(slot, decision, now)
            case JobEnded():
                slot = self._slots.get(input.job_id)
                if slot is not None and slot.stage is _Stage.RUNNING:
                    self._job_ended(slot, input, now)
            case CallLeft(lease=lease):
                self._lost.pop(lease, None)
            case CallClaimed(lease=lease, participant=participant):
                self._claims[lease] = (now + CLAIM_MEMORY, participant)
                self._lose(lease, now)
            case ExecutorChanged():
                self._executor = input
            case JoinRequested(assigned=assigned):
                goes_on = assigned.job.resumes in self._lost_calls()
                if goes_on or (assigned.job.id not in self._slots and self._is_available()):
                    self._start(assigned)
            case LoadMeasured(load=load):
                self._measured_load = min(1.0, max(0.0, load))
            case DrainRequested():
                self._drain(now)
                self._report_draining(now)
            case StopRequested():
                self._drain(now)
                self._end_jobs("the worker is stopping", is_forced=True)
            case DeadlinePassed():
                pass
            case _:
                assert_never(input)

    def _take_message(self, message: ServerMessage, now: float) -> None:
        if not self._is_registered:
            if isinstance(message, Registered):
                self._registered(message, now)
            else:
                reason = "the server's first message was no register reply: is it a LiveKit server?"
                self._effects += self._registration.close(reason)
            return
        match message:
            case AvailabilityAsked(job=job):
                self._offered(job, now)
            case JobAssigned():
                self._assigned(message, now)
            case JobTerminated(job_id=job_id):
                slot = self._slots.get(job_id)
                if slot is not None and slot.stage is _Stage.RUNNING:
                    self._end_job(slot, "the server ended the job", is_forced=False)
                elif slot is not None:
                    del self._slots[job_id]
                    self._settle(job_id, "the server has ended it", now)
            case GoAway():
                self._effects += self._registration.close("the server is going away")
            case Registered():
                pass
            case _:
                assert_never(message)

    # Connections

    def _registered(self, message: Registered, now: float) -> None:
        self._registration.registered(message)
        self._effects.append(ReportRegistered(worker_id=message.worker_id))
        self._send_status(now)
        running = tuple(slot.job.id for slot in self._slots.values() if slot.stage is _Stage.RUNNING)
        if running:
            self._send(MigrateJobs(job_ids=running))
        self._send_reports(now)

    def _lose_connection(self, lost: ConnectionLost, now: float) -> None:
        if self._registration.phase is Phase.CLOSING and self._leave_deadline is not None:
            self._registration.left()
            self._leave_deadline = now
            return
        self._counts = replace(self._counts, connections_lost=self._counts.connections_lost + 1)
        self._reports.connection_lost(now)
        promised = (_Stage.REQUESTED, _Stage.ANSWERED)
        for job_id in [job_id for job_id, slot in self._slots.items() if slot.stage in promised]:
            del self._slots[job_id]  # its assignment cannot come any more
        self._effects += self._registration.lost(lost, now)
        if self._registration.failure:
            self._drain(now)

    def _send(self, message: WorkerMessage) -> None:
        if isinstance(message, AnswerAvailability):
            counts = self._counts
            self._counts = (
                replace(counts, accepted=counts.accepted + 1)
                if message.is_available
                else replace(counts, rejected=counts.rejected + 1)
            )
        self._effects.append(Send(connection=self._registration.number, message=message))

    # Jobs

    def _offered(self, job: JobInfo, now: float) -> None:
        if job.id in self._slots or self._continues_elsewhere(job) or not self._is_available():
            self._send(AnswerAvailability(job_id=job.id, is_available=False))
            if job.id not in self._slots:
                self._settle(job.id, REJECTED, now)
            return
        self._settled.pop(job.id, None)
        slot = self._slots[job.id] = _Slot(job, _Stage.REQUESTED, now + self._options.request_timeout + DECISION_GRACE)
        if self._options.on_request is None:
            self._answer(slot, Acceptance(), now)
        else:
            self._effects.append(AskHandler(job=job))

    def _continues_elsewhere(self, job: JobInfo) -> bool:
        """Return whether the job names a call that this worker has not claimed, or another participant's call."""
        if not job.resumes:
            return False
        _, participant = self._claims.get(job.resumes, (0.0, None))
        return participant is None or participant not in ("", job.participant_identity)

    def _answer(self, slot: _Slot, decision: Decision, now: float) -> None:
        job = slot.job
        if isinstance(decision, Rejection) or self._is_draining:
            del self._slots[job.id]
            self._settle(job.id, REJECTED, now)
            terminate = isinstance(decision, Rejection) and decision.terminate
            self._send(AnswerAvailability(job_id=job.id, is_available=False, terminate=terminate))
            return
        slot.stage, slot.deadline = _Stage.ANSWERED, now + ASSIGNMENT_LIMIT
        template = decision.identity or self._options.identity
        shared = job.heals if job.type == "room" else ""  # the dispatch is one for all participants of its room
        answer = AnswerAvailability(
            job_id=job.id,
            is_available=True,
            identity=agent_identity(template, job_id=shared or job.id, room=job.room),
            name=decision.name,
            metadata=decision.metadata,
            attributes=decision.attributes,
        )
        self._send(answer)

    def _assigned(self, assigned: JobAssigned, now: float) -> None:
        job_id = assigned.job.id
        slot = self._slots.get(job_id)
        settled = self._settled.get(job_id)
        if slot is None and settled is not None:
            reason = settled[1]
            self._effects.append(ReportRefusal(job_id=job_id, reason=reason))
            if reason == REJECTED:  # the server counts it as running here, and gives it to no other worker
                self._reports.ended(job_id, f"assigned to this worker, but {reason}")
                self._send_reports(now)
        elif slot is not None and slot.stage is _Stage.RUNNING:
            self._effects.append(ReportRefusal(job_id=job_id, reason="it runs already"))
        elif slot is None and not self._is_available():  # the assignment came after its reservation had expired
            why = "is ending" if self._is_draining else "has no slot left"
            self._reports.ended(job_id, f"assigned too late (limit {ASSIGNMENT_LIMIT} s): the worker {why}")
            self._send_reports(now)
        else:
            self._start(assigned)
            self._reports.running(job_id)
            self._send_reports(now)

    def _start(self, assigned: JobAssigned) -> None:
        self._lost.pop(assigned.job.resumes, None)
        self._slots[assigned.job.id] = _Slot(assigned.job, _Stage.RUNNING, None)
        self._effects.append(StartJob(assigned=assigned))

    def _job_ended(self, slot: _Slot, ended: JobEnded, now: float) -> None:
        del self._slots[slot.job.id]
        self._settle(slot.job.id, "it has ended", now)
        self._count_end(ended.error)
        self._reports.ended(slot.job.id, ended.error)
        self._send_reports(now)
        if ended.is_process_lost and not slot.is_ending and self._options.crash_safety is not None:
            self._lose(slot.lease, now)
        if self._slots or self._lost:
            self._report_draining(now)

    def _lose(self, lease: str, now: float) -> None:
        if not self._is_draining or self._drain_deadline is not None:
            self._lost[lease] = now + LOST_LIMIT

    def _lost_calls(self) -> tuple[str, ...]:
        """The leases of the calls that go on in free slots: a draining worker gets no dispatch, but promised jobs."""
        leases, free = self._lost if self._is_draining else (), max(0, self._options.max_jobs - len(self._slots))
        promised = {slot.lease for slot in self._slots.values()}
        return tuple(lease for lease in leases if lease not in promised)[:free]

    def _count_end(self, error: str) -> None:
        counts = self._counts
        self._counts = (
            replace(counts, failed=counts.failed + 1) if error else replace(counts, succeeded=counts.succeeded + 1)
        )

    def _settle(self, job_id: str, reason: str, now: float) -> None:
        self._settled[job_id] = (now + SETTLED_MEMORY, reason)

    def _forget_old(self, now: float) -> None:
        for job_id in [job_id for job_id, (until, _) in self._settled.items() if until <= now]:
            del self._settled[job_id]
        for lease in [lease for lease, (until, _) in self._claims.items() if until <= now]:
            del self._claims[lease]

    def _end_job(self, slot: _Slot, reason: str, *, is_forced: bool) -> None:
        if slot.is_ending and (slot.is_forced or not is_forced):
            return
        slot.is_ending = True
        slot.is_forced = is_forced
        self._effects.append(EndJob(job_id=slot.job.id, reason=reason, is_forced=is_forced))

    def _end_jobs(self, reason: str, *, is_forced: bool) -> None:
        self._drain_deadline = None
        self._lost.clear()
        for slot in list(self._slots.values()):
            if slot.stage is _Stage.RUNNING:
                self._end_job(slot, reason, is_forced=is_forced)
            else:
                del self._slots[slot.job.id]

    def _send_reports(self, now: float) -> None:
        if self._is_registered:
            for report in self._reports.take(now):
                self._send(report)

    def _send_status(self, now: float) -> None:
        self._status_at = now + STATUS_INTERVAL
        is_available, load = self._is_available(), self._load()
        status = UpdateWorker(
            is_available=is_available,
            load=min(MOST_LOAD, load) if is_available else load,
            job_count=len(self._slots),
            is_draining=self._is_draining,
        )
        self._send(status)

    @property
    def _is_registered(self) -> bool:
        return self._registration.phase is Phase.REGISTERED

    def _is_available(self) -> bool:
        has_slot = not self._is_draining and len(self._slots) < self._options.max_jobs
        return has_slot and self._executor.is_ready and not self._is_overloaded()

    def _is_overloaded(self) -> bool:
        measured, limit = self._measured_load, self._options.max_load
        return measured is not None and limit is not None and measured >= limit

    def _load(self) -> float:
        by_jobs = len(self._slots) / self._options.max_jobs
        if self._measured_load is None:
            return by_jobs
        return self._measured_load if self._options.load is not None else max(by_jobs, self._measured_load)

    # Time, and the end

    def _pass_deadlines(self, now: float) -> None:
        for slot in list(self._slots.values()):
            if slot.deadline is not None and slot.deadline <= now:
                if slot.stage is _Stage.REQUESTED:
                    self._answer(slot, Rejection(), now)
                else:
                    del self._slots[slot.job.id]  # the server gave the job to another worker, or to none
        self._lost = {lease: until for lease, until in self._lost.items() if until > now}
        if self._drain_deadline is not None and self._drain_deadline <= now:
            self._end_jobs("the worker is ending", is_forced=False)
        self._effects += self._registration.pass_deadlines(now)
        if self._is_registered and self._status_at <= now:
            self._reports.confirm(now)
            self._forget_old(now)
            self._send_status(now)

    def _drain(self, now: float) -> None:
        if self._is_draining:
            return
        self._is_draining = True
        self._drain_deadline = now + self._options.drain_timeout
        self._lost = {lease: now + LOST_LIMIT for lease, until in self._lost.items() if until > now}
        for slot in [slot for slot in self._slots.values() if slot.stage is _Stage.REQUESTED]:
            self._answer(slot, Rejection(), now)

    def _report_draining(self, now: float) -> None:
        if self._drain_deadline is not None:
            limit = max(0.0, self._drain_deadline - now)
            self._effects.append(ReportDraining(job_count=len(self._slots) + len(self._lost_calls()), limit=limit))

    def _leave_when_done(self, now: float) -> None:
        if not self._is_draining or self._slots or self._lost:
            return
        self._drain_deadline = None
        if self._leave_deadline is None:
            self._leave_deadline = now + LEAVE_LIMIT
        phase, failure = self._registration.phase, self._registration.failure
        nothing_to_say = bool(failure) or not self._reports.has_unsent()
        if phase is Phase.REGISTERED or (phase is Phase.DIALLING and nothing_to_say):
            self._leave_deadline = now + LEAVE_LIMIT
            self._effects += self._registration.close()
        elif self._leave_deadline <= now or (phase is Phase.APART and nothing_to_say):
            self._is_finished = True
            self._effects.append(Finish(error=failure))

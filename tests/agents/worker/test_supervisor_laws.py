"""Laws of the supervisor for any behaviour of server, network and jobs, in any order and at any time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import (
    CallClaimed,
    CallLeft,
    Connect,
    Connected,
    ConnectionLost,
    DeadlinePassed,
    Disconnect,
    DrainRequested,
    Effect,
    EndJob,
    ExecutorChanged,
    Finish,
    Input,
    JobEnded,
    JoinRequested,
    LoadMeasured,
    MessageReceived,
    ReportRetry,
    Send,
    Started,
    StartJob,
    StopRequested,
)
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    GoAway,
    JobAssigned,
    JobStatus,
    JobTerminated,
    Register,
    Registered,
    ServerMessage,
    UpdateJob,
)
from vivavoce.agents.worker.reports import CONFIRM_AFTER
from vivavoce.agents.worker.supervisor import ASSIGNMENT_LIMIT, SETTLED_MEMORY, Supervisor

MAX_JOBS = 2


class World(RuleBasedStateMachine):
    """A server, a network and jobs with random behaviour; messages written shortly before a loss never arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        options = WorkerOptions(max_jobs=MAX_JOBS, max_retry=5, drain_timeout=20.0)
        self.supervisor = Supervisor("host", options, lambda: 0.0)
        self.open: int | None = None
        self.is_upgraded = self.is_registered = self.is_closing = self.is_finished = False
        self.losses = 0
        self.offered = self.joined = 0
        self.promised: dict[str, float] = {}
        self.running: set[str] = set()
        self.ended: set[str] = set()
        self.settled: dict[str, float] = {}
        """Jobs that are over or were rejected, and since when."""
        self.delivered: set[str] = set()
        self.on_the_way: dict[str, float] = {}
        self.has_process = True
        self._give(Started())
        self.server_upgrades()
        self.server_registers()

    def _give(self, input: Input) -> list[Effect]:
        effects = self.supervisor.handle(input, now=self.now)
        for effect in effects:
            self._check(effect)
        return effects

    def _check(self, effect: Effect) -> None:
        assert not self.is_finished, "nothing comes after the end"
        match effect:
            case Connect(connection=connection):
                assert self.open is None, "never two live connections"
                self.open = connection
                self.is_upgraded = self.is_registered = self.is_closing = False
            case Disconnect(connection=connection):
                assert connection == self.open
                self.is_closing = True
            case Send(connection=connection, message=message):
                assert connection == self.open
                assert self.is_registered or isinstance(message, Register), "register comes first"
                if isinstance(message, UpdateJob) and message.status is not JobStatus.RUNNING:
                    self.on_the_way[message.job_id] = self.now
                if isinstance(message, AnswerAvailability) and not message.is_available:
                    self.settled[message.job_id] = self.now
                if isinstance(message, AnswerAvailability) and message.is_available:
                    assert self.has_process, "no promise while no process can take a job"
                    held = [job for job, since in self.promised.items() if self.now - since < ASSIGNMENT_LIMIT]
                    assert len(held) + len(self.running) < MAX_JOBS, "never more promises than slots"
                    self.promised[message.job_id] = self.now
            case StartJob(assigned=assigned):
                assert assigned.job.id not in self.running | self.ended, "a job starts once"
                assert assigned.job.id not in self.settled, "a rejected job never starts"
                self.promised.pop(assigned.job.id, None)
                self.running.add(assigned.job.id)
            case EndJob(job_id=job_id):
                assert job_id in self.running
            case ReportRetry(delay=delay):
                assert delay == min(2.0 * (self.losses - 1), 10.0), "only a register reply resets the back-off"
            case Finish():
                assert not self.running, "a worker ends after its jobs"
                assert not self.supervisor.status().lost_calls, "and after its lost calls"
                self.is_finished = True
            case _:
                pass

    def _hear(self, message: ServerMessage) -> list[Effect]:
        assert self.open is not None
        return self._give(MessageReceived(connection=self.open, message=message))

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 2.5, 5.0, 10.0, 25.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while (deadline := self.supervisor.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self._give(DeadlinePassed())
            later = self.supervisor.next_deadline()
            assert later is None or later > self.now, "a deadline that stays is a busy loop"
        self.now = end

    @precondition(lambda self: self.open is not None and not self.is_upgraded)
    @rule()
    def server_upgrades(self) -> None:
        assert self.open is not None
        self.is_upgraded = True
        self._give(Connected(connection=self.open))

    @precondition(lambda self: self.is_upgraded and not self.is_registered)
    @rule()
    def server_registers(self) -> None:
        self.is_registered = True
        if not self.is_closing:  # the worker does not listen any more
            self.losses = 0
        self._hear(Registered(worker_id="AW_1"))

    @precondition(lambda self: self.open is not None)
    @rule()
    def connection_is_lost(self) -> None:
        assert self.open is not None
        lost, self.open = self.open, None
        self.is_upgraded = self.is_registered = False
        self.promised.clear()
        self.losses += 1
        self.delivered |= {job for job, sent in self.on_the_way.items() if self.now - sent >= CONFIRM_AFTER}
        self.on_the_way.clear()
        self._give(ConnectionLost(connection=lost, reason="lost"))

    @precondition(lambda self: self.is_registered)
    @rule()
    def server_offers(self) -> None:
        self.offered += 1
        self._hear(AvailabilityAsked(job=_job(f"AJ_{self.offered}")))

    @precondition(lambda self: self.is_registered)
    @rule()
    def server_offers_and_assigns(self) -> None:
        self.server_offers()
        if (job_id := f"AJ_{self.offered}") in self.promised:
            self._hear(JobAssigned(job=_job(job_id), url="", token="t"))

    @precondition(lambda self: self.is_registered and self.promised)
    @rule(data=st.data())
    def server_assigns(self, data: st.DataObject) -> None:
        job = _job(data.draw(st.sampled_from(sorted(self.promised))))
        del self.promised[job.id]
        self._hear(JobAssigned(job=job, url="", token="t"))

    @precondition(lambda self: self.is_registered and self.lately_settled())
    @rule(data=st.data())
    def server_assigns_a_job_that_is_over_or_was_rejected(self, data: st.DataObject) -> None:
        self._hear(JobAssigned(job=_job(data.draw(st.sampled_from(self.lately_settled()))), url="", token="t"))

    @precondition(lambda self: self.is_registered and self.running)
    @rule(data=st.data())
    def server_assigns_a_running_job_again(self, data: st.DataObject) -> None:
        self._hear(JobAssigned(job=_job(data.draw(st.sampled_from(sorted(self.running)))), url="", token="t"))

    def lately_settled(self) -> list[str]:
        """Jobs that the worker has not forgotten yet."""
        return sorted(job for job, since in self.settled.items() if self.now - since < SETTLED_MEMORY)

    @precondition(lambda self: self.is_registered and self.offered)
    @rule(data=st.data())
    def server_terminates(self, data: st.DataObject) -> None:
        job_id = f"AJ_{data.draw(st.integers(1, self.offered))}"
        self.promised.pop(job_id, None)
        self._hear(JobTerminated(job_id=job_id))

    @precondition(lambda self: self.is_registered)
    @rule()
    def server_goes_away(self) -> None:
        self._hear(GoAway())

    @precondition(lambda self: self.running)
    @rule(data=st.data(), error=st.sampled_from(["", "ValueError: no"]), is_process_lost=st.booleans())
    def job_ends(self, data: st.DataObject, error: str, is_process_lost: bool) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.running)))
        self.running.discard(job_id)
        self.ended.add(job_id)
        self.settled[job_id] = self.now
        self._give(JobEnded(job_id=job_id, error=error, is_process_lost=is_process_lost))

    @rule(call=st.integers(1, 3))
    def call_of_another_process_is_claimed(self, call: int) -> None:
        self._give(CallClaimed(lease=f"AJ_other_{call}"))

    @precondition(lambda self: self.supervisor.status().lost_calls)
    @rule(data=st.data(), goes_on=st.booleans())
    def lost_call_goes_on_or_is_left(self, data: st.DataObject, goes_on: bool) -> None:
        status = self.supervisor.status()
        assert status.is_draining, "else the call is dispatched again"
        lease = data.draw(st.sampled_from(status.lost_calls))
        self.joined += 1
        job = JobInfo(id=f"job_{self.joined}", room="r", resumes=lease)
        assigned = JobAssigned(job=job, url="", token="t")
        self._give(JoinRequested(assigned=assigned) if goes_on else CallLeft(lease=lease))
        assert (job.id in self.running) == goes_on

    @rule(is_ready=st.booleans())
    def executor_changes(self, is_ready: bool) -> None:
        self.has_process = is_ready
        self._give(ExecutorChanged(is_ready=is_ready))

    @rule(load=st.floats(allow_nan=False))
    def load_is_measured(self, load: float) -> None:
        self._give(LoadMeasured(load=load))

    @precondition(lambda self: self.now > 30.0)
    @rule(stop=st.booleans())
    def worker_is_asked_to_end(self, stop: bool) -> None:
        self._give(StopRequested() if stop else DrainRequested())

    @invariant()
    def no_more_jobs_than_slots(self) -> None:
        assert len(self.running) <= MAX_JOBS
        status = self.supervisor.status()
        assert {job.id for job in status.active_jobs} == self.running
        assert 0.0 <= status.load <= 1.0

    def teardown(self) -> None:
        """Give the worker one connection that lives: every report arrives."""
        status = self.supervisor.status()
        if self.is_finished or status.failure or status.is_draining:
            return
        if not self.is_registered or self.is_closing:
            if self.open is not None:
                self.connection_is_lost()
            if self.open is None:
                self.time_passes(10.0)
            if self.open is None or self.supervisor.status().failure:
                return
            self.server_upgrades()
            self.server_registers()
        assert self.ended <= self.delivered | set(self.on_the_way), "no job report is lost"


def _job(job_id: str) -> JobInfo:
    return JobInfo(id=job_id, room="r")


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)

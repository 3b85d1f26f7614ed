"""Laws of the pool for any behaviour of its processes and jobs, in any order and at any time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import ExecutorChanged, JobEnded
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.executors.messages import EndJob, EndProcess, Heartbeat, RunJob, Warm, WarmFailed
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.executors.pool import JOB_WAIT, LATE_AFTER, MAX_DELAY, MB, Pool
from vivavoce.agents.worker.executors.pool_events import (
    FinishPool,
    KillProcess,
    MakeProcess,
    MessageReceived,
    PoolBegun,
    PoolDeadlinePassed,
    PoolEffect,
    PoolEndRequested,
    PoolInput,
    ProcessEnded,
    ReportJob,
    ReportPoolFailed,
    ReportPoolReady,
    ReportState,
    Send,
)
from vivavoce.agents.worker.protocol import JobAssigned

SIZE = 2
JOBS_PER_PROCESS = 2
EXECUTION = ProcessExecution(
    processes=SIZE, jobs_per_process=JOBS_PER_PROCESS, memory_limit_mb=100, memory_warning_mb=50, start_limit=20.0
)


class World(RuleBasedStateMachine):
    """Processes that warm up, fail, crash, hang and eat memory; jobs that come and end."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.pool = Pool(SIZE, EXECUTION)
        self.starting: dict[int, float] = {}
        self.ready: dict[int, float] = {}
        """When each ready process gave its last sign of life."""
        self.leaving: dict[int, float] = {}
        """Processes that the pool has asked to end, or that end by themselves, and since when."""
        self.killed: set[int] = set()
        self.jobs: dict[int, set[str]] = {}
        self.given: dict[str, float] = {}
        self.reported: dict[str, JobEnded] = {}
        self.made_at: list[float] = []
        self.is_open = self.has_failed = self.is_ending = self.is_finished = False
        self.state = ExecutorChanged(is_ready=False)
        self._give(PoolBegun())

    @property
    def present(self) -> list[int]:
        return sorted([*self.starting, *self.ready, *self.leaving, *self.killed])

    def _give(self, input: PoolInput) -> None:
        for effect in self.pool.handle(input, now=self.now):
            self._check(effect)

    def _check(self, effect: PoolEffect) -> None:
        assert not self.is_finished, "nothing comes after the end"
        match effect:
            case MakeProcess(number=number):
                assert not self.is_ending, "no process is made for a pool that ends"
                assert number not in self.jobs, "a number is used once"
                self.starting[number] = self.now
                self.jobs[number] = set()
                self.made_at.append(self.now)
            case Send(number=number, message=RunJob(assigned=assigned)):
                assert number in self.ready, "only a process that is ready gets a job"
                assert self.now - self.ready[number] < LATE_AFTER, "no job for a process that gives no sign of life"
                assert len(self.jobs[number]) < JOBS_PER_PROCESS
                assert all(len(self.jobs[number]) <= len(self.jobs[other]) for other in self._able()), "the emptiest"
                assert all(assigned.job.id not in jobs for jobs in self.jobs.values()), "a job starts once"
                assert assigned.job.id not in self.reported
                self.jobs[number].add(assigned.job.id)
            case Send(number=number, message=EndJob(job_id=job_id)):
                assert job_id in self.jobs[number]
            case Send(number=number, message=EndProcess()):
                self.leaving[number] = self.now
                assert self.ready.pop(number, None) is not None or self.starting.pop(number, None) is not None
            case KillProcess(number=number):
                assert number in self.present, "no process is killed after its end"
                assert number not in self.killed, "a process is killed once"
                for place in (self.starting, self.ready, self.leaving):
                    place.pop(number, None)
                self.killed.add(number)
            case ReportJob(ended=ended):
                assert ended.job_id in self.given, "no end is invented"
                assert ended.job_id not in self.reported, "a job ends once"
                self.reported[ended.job_id] = ended
                for jobs in self.jobs.values():
                    jobs.discard(ended.job_id)
            case ReportPoolReady():
                assert not self.is_open
                assert len(self.ready) == SIZE
                self.is_open = True
            case ReportPoolFailed(error=error):
                assert not self.is_open, "a pool that has run once tries on for ever"
                assert error.startswith("a job process ")
                self.has_failed = self.is_ending = True
            case ReportState(state=state):
                assert state != self.state, "only changes are reported"
                self.state = state
            case FinishPool():
                assert not self.present, "the pool ends after its processes"
                self.is_finished = True
            case _:
                pass

    def _able(self) -> list[int]:
        return [
            number
            for number, beat_at in self.ready.items()
            if self.now - beat_at < LATE_AFTER and len(self.jobs[number]) < JOBS_PER_PROCESS
        ]

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 3.0, 10.0, 60.0]), beats=st.booleans())
    def time_passes(self, seconds: float, beats: bool) -> None:
        """Let time pass; with `beats`, each ready process gives a sign of life every second."""
        end = self.now + seconds
        while True:
            deadline = self.pool.next_deadline()
            beat_at = self.now + 1.0 if beats and self.ready else None
            due = [at for at in (deadline, beat_at) if at is not None and at <= end]
            if not due:
                break
            self.now = max(self.now, min(due))
            if deadline is not None and deadline <= self.now:
                self._give(PoolDeadlinePassed())
                later = self.pool.next_deadline()
                assert later is None or later > self.now, "a deadline that stays is a busy loop"
            else:
                for number in list(self.ready):
                    self._beat(number, 10)
        self.now = end

    def _beat(self, number: int, megabytes: int) -> None:
        if number in self.ready:
            self.ready[number] = self.now
        facts = ProcessFacts(pid=number, jobs=0, cpu_time=0.0, memory=megabytes * MB, loop_delay=0.0)
        self._give(MessageReceived(number=number, message=Heartbeat(facts=facts)))

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def process_is_warm(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.starting)))
        del self.starting[number]
        self.ready[number] = self.now
        self._give(MessageReceived(number=number, message=Warm()))

    @precondition(lambda self: self.starting)
    @rule()
    def all_are_warm(self) -> None:
        for number in sorted(self.starting):
            del self.starting[number]
            self.ready[number] = self.now
            self._give(MessageReceived(number=number, message=Warm()))

    @precondition(lambda self: self.starting)
    @rule(data=st.data())
    def warm_up_fails(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.starting)))
        del self.starting[number]
        self.leaving[number] = self.now
        self._give(MessageReceived(number=number, message=WarmFailed(error="could not be prepared")))

    @precondition(lambda self: self.present)
    @rule(data=st.data())
    def process_ends(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(self.present))
        lost = set(self.jobs[number])
        for place in (self.starting, self.ready, self.leaving):
            place.pop(number, None)
        self.killed.discard(number)
        self._give(ProcessEnded(number=number, cause="was ended by SIGKILL"))
        for job_id in lost:
            ended = self.reported[job_id]
            assert ended.is_process_lost
            assert ended.error, "a lost job has failed, with a cause"

    @precondition(lambda self: self.ready)
    @rule(data=st.data(), megabytes=st.sampled_from([10, 60, 99, 100, 500]))
    def process_reports_its_memory(self, data: st.DataObject, megabytes: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.ready)))
        self._beat(number, megabytes)
        assert (number in self.ready) == (megabytes < 100), "from its limit on, a process takes no job"

    @precondition(lambda self: self.is_open and not self.is_finished)
    @rule()
    def job_is_given(self) -> None:
        job_id = f"AJ_{len(self.given)}"
        self.given[job_id] = self.now
        job = JobInfo(id=job_id, room="r")
        self._give(RunJob(assigned=JobAssigned(job=job, url="", token="t"), url="ws://x"))

    @precondition(lambda self: any(self.jobs.values()))
    @rule(data=st.data(), error=st.sampled_from(["", "ValueError: no"]))
    def job_ends(self, data: st.DataObject, error: str) -> None:
        number = data.draw(st.sampled_from([number for number, jobs in self.jobs.items() if jobs]))
        job_id = data.draw(st.sampled_from(sorted(self.jobs[number])))
        was_ready = number in self.ready
        self._give(MessageReceived(number=number, message=JobEnded(job_id=job_id, error=error)))
        if was_ready:
            assert self.reported[job_id] == JobEnded(job_id=job_id, error=error), "a job's own end is told as it was"

    @precondition(lambda self: self.given)
    @rule(data=st.data())
    def job_is_to_end(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.given)))
        self._give(EndJob(job_id=job_id, reason="asked", is_forced=False))

    @precondition(lambda self: self.now > 30.0)
    @rule()
    def pool_is_to_end(self) -> None:
        self.is_ending = True
        self._give(PoolEndRequested())

    @invariant()
    def there_are_never_more_processes_than_wanted(self) -> None:
        assert len(self.starting) + len(self.ready) <= SIZE

    @invariant()
    def no_job_waits_longer_than_its_limit(self) -> None:
        held = {job_id for jobs in self.jobs.values() for job_id in jobs}
        for job_id in self.given.keys() - self.reported.keys() - held:
            assert self.now - self.given[job_id] <= JOB_WAIT

    @invariant()
    def the_state_says_whether_a_job_begins_at_once(self) -> None:
        if self.is_open and not self.is_ending:
            assert self.state.is_ready == bool(self._able())
            assert not (self.state.failure and self.ready), "a pool with a process has not failed"

    @invariant()
    def the_facts_are_those_of_processes_that_live(self) -> None:
        assert {facts.pid for facts in self.pool.facts()} <= {*self.ready, *self.leaving}

    def teardown(self) -> None:
        """Let the processes behave: the pool is full again; then it ends, and each job has ended once."""
        if self.is_open and not self.is_ending:
            for number in [*self.leaving, *self.killed]:
                self.leaving.pop(number, None)
                self.killed.discard(number)
                self._give(ProcessEnded(number=number, cause="was ended by SIGKILL"))
            for _ in range(int(MAX_DELAY) + 1):
                self.all_are_warm()
                self.time_passes(1.0, beats=True)
            assert len(self.ready) == SIZE, "every lost process is replaced"
            assert not self.state.failure
        self.is_ending = True
        self._give(PoolEndRequested())
        self.time_passes(EXECUTION.stop_limit, beats=False)
        assert set(self.present) <= self.killed | self.leaving.keys()
        self.time_passes(EXECUTION.stop_limit, beats=False)
        assert set(self.present) == self.killed, "a process that does not end in time is killed"
        for number in list(self.killed):
            self.killed.discard(number)
            self._give(ProcessEnded(number=number, cause="was ended by SIGKILL"))
        assert self.is_finished
        assert self.given.keys() == self.reported.keys(), "each job ends once"


TestWorld = World.TestCase
TestWorld.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)

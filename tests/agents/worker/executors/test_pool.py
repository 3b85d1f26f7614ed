"""Rules of the pool in known situations; the laws of all situations: `test_pool_laws.py`."""

from __future__ import annotations

import pytest

from kit.supervisor_bench import Bench as SupervisorBench
from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import JobEnded
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.executors.messages import Heartbeat, RunJob, Warm, WarmFailed
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.executors.pool import FAILING_AFTER, MB, STABLE_AFTER, Pool
from vivavoce.agents.worker.executors.pool_events import (
    KillProcess,
    MakeProcess,
    MessageReceived,
    PoolBegun,
    PoolDeadlinePassed,
    PoolEffect,
    PoolInput,
    ProcessEnded,
    ReportJob,
    ReportPoolFailed,
    ReportState,
    ReportTrouble,
)
from vivavoce.agents.worker.executors.process import pool_size
from vivavoce.agents.worker.protocol import JobAssigned


class Bench:
    """A pool, its time and all that it wanted."""

    def __init__(self, *, size: int = 1, is_warm: bool = True, **options: object) -> None:
        self.pool = Pool(size, ProcessExecution(processes=size, **options))  # type: ignore[arg-type]
        self.now = 0.0
        self.give(PoolBegun())
        if is_warm:
            for number in range(1, size + 1):
                self.give(MessageReceived(number=number, message=Warm()))

    def give(self, input: PoolInput) -> list[PoolEffect]:
        return self.pool.handle(input, now=self.now)

    def wait(self, seconds: float) -> list[tuple[float, PoolEffect]]:
        """Let time pass, without a sign of life; return the effects with their times."""
        end, effects = self.now + seconds, []
        while (deadline := self.pool.next_deadline()) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            effects += [(self.now, effect) for effect in self.give(PoolDeadlinePassed())]
        self.now = end
        return effects

    def beat(self, megabytes: int = 10, *, number: int = 1) -> list[PoolEffect]:
        facts = ProcessFacts(pid=1, jobs=0, cpu_time=0.0, memory=megabytes * MB, loop_delay=0.0)
        return self.give(MessageReceived(number=number, message=Heartbeat(facts=facts)))


def _job(job_id: str) -> RunJob:
    return RunJob(assigned=JobAssigned(job=JobInfo(id=job_id, room="r"), url="", token="t"), url="ws://x")


def test_a_lost_process_is_replaced_at_once_and_each_failure_in_a_row_doubles_the_wait() -> None:
    bench = Bench()
    waits = []
    for number in range(1, 9):
        lost_at = bench.now
        effects = [(bench.now, effect) for effect in bench.give(ProcessEnded(number=number, cause="ended"))]
        effects += bench.wait(40.0)
        waits.append(next(at for at, effect in effects if isinstance(effect, MakeProcess)) - lost_at)

    assert waits == [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_a_first_process_that_was_killed_is_made_again_and_one_whose_application_failed_ends_the_pool() -> None:
    bench = Bench(is_warm=False)
    assert MakeProcess(number=2) in bench.give(ProcessEnded(number=1, cause="could not be made: Broken pipe"))
    bench.give(ProcessEnded(number=2, cause="was ended by SIGKILL"))
    assert (1.0, MakeProcess(number=3)) in bench.wait(1.0)
    third = bench.give(ProcessEnded(number=3, cause="was ended by SIGKILL"))
    assert ReportPoolFailed(error="a job process was ended by SIGKILL") in third

    failed = Bench(is_warm=False).give(
        MessageReceived(number=1, message=WarmFailed(error="could not be prepared for jobs: no model"))
    )
    assert ReportPoolFailed(error="a job process could not be prepared for jobs: no model") in failed


@pytest.mark.parametrize("is_warm", [False, True], ids=["starting", "ready"])
def test_processes_that_end_together_count_as_one_failed_start(is_warm: bool) -> None:
    bench = Bench(size=4, is_warm=is_warm)
    effects: list[PoolEffect] = []
    for number in range(1, 5):
        effects += bench.give(ProcessEnded(number=number, cause="was ended by SIGKILL"))
        bench.now += 0.01
    assert [effect.number for effect in effects if isinstance(effect, MakeProcess)] == [5, 6, 7, 8]

    for number in range(5, 9):
        effects += bench.give(ProcessEnded(number=number, cause="was ended by SIGKILL"))
    assert [effect for _, effect in bench.wait(1.0)] == [MakeProcess(number=number) for number in range(9, 13)]

    effects += bench.give(ProcessEnded(number=9, cause="was ended by SIGKILL"))
    failed = [effect for effect in effects if isinstance(effect, ReportPoolFailed)]
    assert len(failed) == (not is_warm), "the third time, a worker that starts ends"


def test_a_process_that_worked_for_a_while_is_replaced_at_once_whatever_was_before() -> None:
    bench = Bench()
    for number in (1, 2, 3):
        bench.give(ProcessEnded(number=number, cause="ended"))
        bench.wait(10.0)
    bench.give(MessageReceived(number=4, message=Warm()))
    for _ in range(int(STABLE_AFTER)):
        bench.now += 1.0
        bench.beat(0, number=4)

    assert MakeProcess(number=5) in bench.give(ProcessEnded(number=4, cause="ended"))


def test_without_a_process_the_pool_is_not_ready_and_after_some_failures_it_says_why() -> None:
    bench = Bench()
    states = []
    for number in range(1, FAILING_AFTER + 1):
        for effect in bench.give(ProcessEnded(number=number, cause="was ended by SIGSEGV")):
            if isinstance(effect, ReportState):
                states.append((effect.state.is_ready, effect.state.failure))
        bench.wait(10.0)

    assert states == [(False, ""), (False, "no job process is left, the last one was ended by SIGSEGV")]


def test_a_silent_process_gets_no_job_then_it_is_killed_and_the_waiting_job_goes_to_the_next_one() -> None:
    bench = Bench(heartbeat_limit=6)
    bench.wait(3.0)
    assert not [effect for effect in bench.give(_job("AJ_1")) if not isinstance(effect, ReportState)]

    (killed_at,) = [at for at, effect in bench.wait(5.0) if isinstance(effect, KillProcess)]

    assert killed_at == 6.0
    assert "AJ_1" in str(bench.give(MessageReceived(number=2, message=Warm())))


def test_a_worker_that_was_held_up_itself_kills_no_process_whose_signs_of_life_have_waited() -> None:
    bench = Bench(size=2, heartbeat_limit=6)
    bench.now += 60.0
    effects = [*bench.beat(number=1), *bench.beat(number=2)]
    assert not [effect for effect in effects if isinstance(effect, KillProcess)]

    bench.now += 2.0
    bench.beat(number=1)
    killed = [(at - bench.now, effect.number) for at, effect in bench.wait(5.0) if isinstance(effect, KillProcess)]
    assert killed == [(-1.0, 2)], "silence counts again"


def test_a_worker_that_was_held_up_itself_leaves_its_processes_the_time_for_their_start() -> None:
    bench = Bench(size=2, is_warm=False, start_limit=10.0)
    bench.now += 60.0
    effects = [
        *bench.give(MessageReceived(number=1, message=Warm())),
        *bench.give(MessageReceived(number=2, message=Warm())),
    ]
    assert not [effect for effect in effects if isinstance(effect, KillProcess)]


def test_a_job_that_no_process_can_take_fails_as_one_that_another_worker_may_continue() -> None:
    bench = Bench()
    bench.give(ProcessEnded(number=1, cause="was ended by SIGKILL"))
    bench.give(_job("AJ_1"))

    ((at, report),) = [(at, effect) for at, effect in bench.wait(15.0) if isinstance(effect, ReportJob)]

    cause = "no job process could take the job within 10 s: the last one was ended by SIGKILL"
    assert (at, report.ended) == (10.0, JobEnded(job_id="AJ_1", error=cause, is_process_lost=True))


def test_a_worker_whose_processes_have_all_their_jobs_takes_no_more_and_is_ready_all_the_same() -> None:
    bench = Bench(jobs_per_process=1)
    worker = SupervisorBench(max_jobs=2)
    for effect in bench.give(_job("AJ_1")):
        if isinstance(effect, ReportState):
            worker.give(effect.state)

    status = worker.supervisor.status()
    assert (status.is_ready, status.takes_jobs) == (True, False)

    for effect in bench.give(ProcessEnded(number=1, cause="was ended by SIGKILL")):
        if isinstance(effect, ReportState):
            worker.give(effect.state)
    assert not worker.supervisor.status().is_ready


def test_memory_is_named_in_the_log_once_for_each_process() -> None:
    bench = Bench(memory_warning_mb=100)

    lines = [effect.text for _ in range(3) for effect in bench.beat(120) if isinstance(effect, ReportTrouble)]

    assert lines == ["job process 1 uses 120 MB of memory, with 0 jobs (memory_warning_mb)"]


def test_the_number_of_processes_comes_from_the_options_the_jobs_or_the_cores() -> None:
    assert pool_size(ProcessExecution(processes=3), max_jobs=10) == 3
    assert pool_size(ProcessExecution(jobs_per_process=4), max_jobs=10) == 3
    assert pool_size(ProcessExecution(), max_jobs=10) >= 1

"""The supervisor step by step: connecting, retries, reports, draining; time is stepped by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kit.supervisor_bench import Bench, answer_in, job_info, job_update, no_decision, sent
from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.effects import (
    CallClaimed,
    CallLeft,
    Connect,
    Connected,
    ConnectionLost,
    Disconnect,
    DrainRequested,
    Effect,
    EndJob,
    Finish,
    JobEnded,
    JoinRequested,
    LoadMeasured,
    MessageReceived,
    ReportDraining,
    ReportRetry,
    Started,
    StartJob,
    StopRequested,
)
from vivavoce.agents.worker.protocol import (
    AvailabilityAsked,
    GoAway,
    JobAssigned,
    JobStatus,
    MigrateJobs,
    Register,
    Registered,
    UpdateJob,
    UpdateWorker,
)


def test_register_is_the_first_message_and_the_load_follows_the_reply() -> None:
    bench = Bench(is_registered=False)
    assert bench.give(Started()) == [Connect(connection=1)]

    assert sent(bench.give(Connected(connection=1))) == [Register(agent_name="host")]
    assert sent(bench.hear(Registered(worker_id="AW_1"))) == [
        UpdateWorker(is_available=True, load=0.0, job_count=0, is_draining=False)
    ]
    assert bench.supervisor.status().is_healthy


def test_a_first_message_that_is_no_register_reply_closes_the_connection() -> None:
    bench = Bench(is_registered=False)
    bench.give(Started())
    bench.give(Connected(connection=1))

    assert bench.hear(AvailabilityAsked(job=job_info())) == [Disconnect(connection=1)]


def test_the_load_is_sent_every_two_and_a_half_seconds() -> None:
    bench = Bench()

    assert len(sent(bench.wait(10.0), UpdateWorker)) == 4


def test_back_off_grows_by_two_seconds_to_ten_and_the_register_reply_resets_it() -> None:
    bench = Bench()
    delays = []
    for _ in range(8):
        [retry] = [effect for effect in bench.lose() if isinstance(effect, ReportRetry)]
        delays.append(retry.delay)
        bench.wait(retry.delay)
        bench.give(Connected(connection=bench.connection))  # upgraded, then hung up on

    assert delays == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 10.0, 10.0]
    bench.hear(Registered(worker_id="AW_2"))
    assert ReportRetry(reason="gone", delay=0.0, attempt=1) in bench.lose()


def test_jitter_is_added_to_every_delay() -> None:
    bench = Bench(jitter=0.75)

    assert ReportRetry(reason="gone", delay=0.75, attempt=1) in bench.lose()
    assert [e for e in bench.wait(0.5) if isinstance(e, Connect)] == []
    assert [e for e in bench.wait(0.25) if isinstance(e, Connect)] == [Connect(connection=2)]


def test_a_server_that_never_answers_is_left_after_ten_seconds() -> None:
    bench = Bench(is_registered=False)
    bench.give(Started())

    assert bench.wait(9.9) == []
    assert bench.wait(0.2) == [Disconnect(connection=1)]


def test_too_many_failures_in_a_row_end_the_worker_unhealthy_with_the_last_reason() -> None:
    bench = Bench(is_registered=False, max_retry=2)
    bench.give(Started())
    bench.lose()
    bench.wait(0.0)
    bench.lose()
    bench.wait(2.0)

    assert bench.lose() == [Finish(error="could not register with the LiveKit server: gone (tried 3 times)")]
    assert not bench.supervisor.status().is_healthy
    assert bench.supervisor.next_deadline() is None


def test_refused_credentials_end_a_worker_that_never_registered_and_are_retried_by_one_that_did() -> None:
    fresh, known = Bench(is_registered=False), Bench()
    fresh.give(Started())

    assert fresh.lose(is_refused=True) == [Finish(error="could not register with the LiveKit server: gone")]
    assert any(isinstance(effect, ReportRetry) for effect in known.lose(is_refused=True))


def test_a_failed_worker_lets_its_running_jobs_finish_first() -> None:
    bench = Bench(max_retry=0, drain_timeout=60.0)
    bench.start_job()

    assert not any(isinstance(effect, Finish) for effect in bench.lose())
    assert [effect for effect in bench.wait(60.0) if isinstance(effect, EndJob)] == [
        EndJob(job_id="AJ_1", reason="the worker is ending")
    ]
    [finish] = bench.give(JobEnded(job_id="AJ_1"))
    assert isinstance(finish, Finish)
    assert finish.error


def test_running_jobs_outlive_a_lost_connection_and_move_to_the_next() -> None:
    bench = Bench()
    bench.start_job()

    assert not any(isinstance(effect, EndJob) for effect in bench.lose())
    assert MigrateJobs(job_ids=("AJ_1",)) in sent(bench.reconnect())


def test_a_slot_whose_assignment_was_awaited_on_a_lost_connection_is_free_again() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=job_info("AJ_1")))
    bench.lose()
    bench.reconnect()

    assert answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_2")))).is_available


def test_a_report_made_while_disconnected_is_sent_after_the_next_register_reply() -> None:
    bench = Bench()
    bench.start_job()
    bench.lose()
    assert sent(bench.give(JobEnded(job_id="AJ_1"))) == []

    assert job_update("AJ_1", JobStatus.SUCCESS) in sent(bench.reconnect())


def test_a_report_sent_just_before_the_connection_died_is_sent_again_and_an_old_one_is_not() -> None:
    bench = Bench()
    bench.start_job("AJ_1")
    bench.start_job("AJ_2")
    bench.give(JobEnded(job_id="AJ_1"))
    bench.wait(25.0)
    bench.give(JobEnded(job_id="AJ_2"))
    bench.lose()

    assert sent(bench.reconnect(), UpdateJob) == [job_update("AJ_2", JobStatus.SUCCESS)]


def test_load_is_not_saved_up_while_disconnected() -> None:
    bench = Bench()
    bench.lose()
    bench.give(LoadMeasured(load=0.3))

    assert len(sent(bench.reconnect(), UpdateWorker)) == 1


def test_words_of_an_earlier_connection_are_ignored() -> None:
    bench = Bench()
    old = bench.connection
    bench.lose()
    bench.reconnect()

    assert bench.give(MessageReceived(connection=old, message=AvailabilityAsked(job=job_info()))) == []
    assert bench.give(ConnectionLost(connection=old, reason="twice")) == []


def test_a_server_that_goes_away_is_left_and_the_worker_comes_back() -> None:
    bench = Bench()

    assert bench.hear(GoAway()) == [Disconnect(connection=1)]
    assert Connect(connection=2) in bench.lose()


def test_a_draining_worker_says_so_takes_nothing_and_ends_with_its_last_job() -> None:
    bench = Bench()
    bench.start_job()

    assert UpdateWorker(is_available=False, load=0.1, job_count=1, is_draining=True) in sent(
        bench.give(DrainRequested())
    )
    assert not answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_2")))).is_available
    effects = bench.give(JobEnded(job_id="AJ_1"))
    assert effects[-1] == Disconnect(connection=1)
    assert job_update("AJ_1", JobStatus.SUCCESS) in sent(effects)
    assert bench.lose() == [Finish()]


def test_a_draining_worker_reports_the_jobs_and_the_time_that_are_left() -> None:
    bench = Bench(drain_timeout=60.0)
    bench.start_job("AJ_1")
    bench.start_job("AJ_2")

    assert ReportDraining(job_count=2, limit=60.0) in bench.give(DrainRequested())
    bench.wait(20.0)
    assert ReportDraining(job_count=1, limit=40.0) in bench.give(JobEnded(job_id="AJ_1"))


def test_draining_ends_the_jobs_at_its_limit_and_stopping_ends_them_at_once() -> None:
    bench = Bench(drain_timeout=30.0)
    bench.start_job()
    bench.give(DrainRequested())

    assert not any(isinstance(effect, EndJob) for effect in bench.wait(29.0))
    assert EndJob(job_id="AJ_1", reason="the worker is ending") in bench.wait(1.0)
    assert EndJob(job_id="AJ_1", reason="the worker is stopping", is_forced=True) in bench.give(StopRequested())


def lost_while_draining(**options: Any) -> tuple[Bench, list[Effect]]:
    """Kill the process of the only job of a worker that drains; return what the worker does then."""
    bench = Bench(drain_timeout=60.0, **options)
    bench.start_job()
    bench.give(DrainRequested())
    return bench, bench.give(JobEnded(job_id="AJ_1", error="ended by SIGKILL", is_process_lost=True))


def join(lease: str, job_id: str = "job_1") -> JoinRequested:
    job = JobInfo(id=job_id, room="r", resumes=lease)
    return JoinRequested(assigned=JobAssigned(job=job, url="", token="own"))


def test_a_call_whose_process_dies_while_the_worker_drains_goes_on_in_a_job_of_the_worker_s_own() -> None:
    bench, effects = lost_while_draining()
    assert job_update("AJ_1", JobStatus.FAILED, "ended by SIGKILL") in sent(effects)
    assert not any(isinstance(effect, Disconnect) for effect in effects)
    assert bench.supervisor.status().lost_calls == ("AJ_1",)

    assert not any(isinstance(effect, StartJob) for effect in bench.give(join("AJ_7")))
    goes_on = join("AJ_1")
    assert StartJob(assigned=goes_on.assigned) in bench.give(goes_on)
    assert bench.supervisor.status().lost_calls == ()

    again = JobEnded(job_id="job_1", error="ended by SIGKILL", is_process_lost=True)
    assert not any(isinstance(effect, Disconnect) for effect in bench.give(again))
    assert bench.supervisor.status().lost_calls == ("AJ_1",), "the record keeps its lease"
    bench.give(join("AJ_1", "job_2"))
    assert bench.give(JobEnded(job_id="job_2"))[-1] == Disconnect(connection=1)


def test_a_draining_worker_does_not_wait_for_a_lost_call_that_is_over_or_cannot_go_on() -> None:
    bench, _ = lost_while_draining()
    assert bench.give(CallLeft(lease="AJ_1"))[-1] == Disconnect(connection=1)

    bench, _ = lost_while_draining()
    assert not any(isinstance(effect, Disconnect) for effect in bench.wait(14.9))
    assert Disconnect(connection=1) in bench.wait(0.1)

    bench, _ = lost_while_draining()
    assert bench.give(StopRequested())[-1] == Disconnect(connection=1)

    _, effects = lost_while_draining(crash_safety=None)
    assert effects[-1] == Disconnect(connection=1)

    bench = Bench()
    bench.start_job()
    bench.give(JobEnded(job_id="AJ_1", error="ended by SIGKILL", is_process_lost=True))
    assert bench.supervisor.status().lost_calls == (), "a worker that takes jobs gets it by a dispatch"


def lost_before_the_drain(*, drain_timeout: float = 60.0, **options: Any) -> Bench:
    """Kill the process of the only job of a worker."""
    bench = Bench(drain_timeout=drain_timeout, **options)
    bench.start_job()
    bench.give(JobEnded(job_id="AJ_1", error="ended by SIGKILL", is_process_lost=True))
    return bench


@pytest.mark.parametrize("is_dispatched", [False, True])
def test_a_call_whose_process_died_just_before_the_drain_goes_on_in_a_job_of_the_worker_s_own(
    is_dispatched: bool,
) -> None:
    bench = lost_before_the_drain()
    if is_dispatched:
        bench.give(CallClaimed(lease="AJ_1"))
    bench.wait(1.0)

    assert not any(isinstance(effect, Disconnect) for effect in bench.give(DrainRequested()))
    assert bench.supervisor.status().lost_calls == ("AJ_1",)
    assert not answer_in(bench.hear(AvailabilityAsked(job=JobInfo(id="AJ_2", room="r", resumes="AJ_1")))).is_available
    goes_on = join("AJ_1")
    assert StartJob(assigned=goes_on.assigned) in bench.give(goes_on)
    assert bench.give(JobEnded(job_id="job_1"))[-1] == Disconnect(connection=1)


def test_a_call_that_the_worker_has_dispatched_again_for_another_goes_on_in_it_when_it_drains() -> None:
    bench = Bench(drain_timeout=60.0)
    bench.give(CallClaimed(lease="AJ_7"))
    assert bench.supervisor.status().lost_calls == (), "a worker that takes jobs gets it by a dispatch"
    bench.give(DrainRequested())
    assert bench.supervisor.status().lost_calls == ("AJ_7",)


def test_a_draining_worker_goes_on_with_no_more_lost_calls_than_it_has_free_slots() -> None:
    bench = Bench(drain_timeout=60.0, max_jobs=2)
    bench.start_job("AJ_1")
    bench.start_job("AJ_2")
    bench.give(CallClaimed(lease="AJ_7"))
    bench.give(DrainRequested())
    assert bench.supervisor.status().lost_calls == ()
    goes_on = join("AJ_7")
    assert not any(isinstance(effect, StartJob) for effect in bench.give(goes_on))

    bench.give(JobEnded(job_id="AJ_1"))

    assert bench.supervisor.status().lost_calls == ("AJ_7",)
    assert StartJob(assigned=goes_on.assigned) in bench.give(goes_on)


@pytest.mark.parametrize("is_promised", [False, True])
def test_a_call_whose_next_job_is_being_asked_about_when_the_worker_drains_goes_on_in_it(is_promised: bool) -> None:
    bench = lost_before_the_drain(on_request=None if is_promised else no_decision)
    bench.give(CallClaimed(lease="AJ_1"))
    bench.hear(AvailabilityAsked(job=JobInfo(id="AJ_2", room="r", resumes="AJ_1")))

    bench.give(DrainRequested())

    assert bench.supervisor.status().lost_calls == (() if is_promised else ("AJ_1",))
    bench.wait(7.5)
    assert bench.supervisor.status().lost_calls == ("AJ_1",), "its assignment did not come"


def test_a_worker_that_drains_does_not_wait_for_a_call_that_went_on_or_was_lost_long_ago() -> None:
    bench = lost_before_the_drain()
    bench.give(CallClaimed(lease="AJ_1"))
    job = JobInfo(id="AJ_2", room="r", resumes="AJ_1")
    bench.hear(AvailabilityAsked(job=job))
    bench.hear(JobAssigned(job=job, url="", token="t"))
    bench.give(JobEnded(job_id="AJ_2"))
    assert bench.give(DrainRequested())[-1] == Disconnect(connection=1)

    bench = lost_before_the_drain()
    bench.give(CallLeft(lease="AJ_1"))
    assert bench.give(DrainRequested())[-1] == Disconnect(connection=1)

    bench = lost_before_the_drain()
    bench.wait(15.0)
    assert bench.give(DrainRequested())[-1] == Disconnect(connection=1)

    bench = lost_before_the_drain()
    assert bench.give(StopRequested())[-1] == Disconnect(connection=1)

    bench = lost_before_the_drain(drain_timeout=3.0)
    assert not any(isinstance(effect, Disconnect) for effect in bench.give(DrainRequested()))
    assert Disconnect(connection=1) in bench.wait(3.0)


def test_a_call_that_is_claimed_when_the_worker_ends_does_not_hold_it_up() -> None:
    bench = Bench(drain_timeout=60.0)
    bench.start_job()
    bench.give(StopRequested())
    bench.give(CallClaimed(lease="AJ_7"))
    assert bench.supervisor.status().lost_calls == ()
    assert bench.give(JobEnded(job_id="AJ_1"))[-1] == Disconnect(connection=1)


def test_a_worker_asked_to_end_before_it_registered_ends() -> None:
    before, dialling = Bench(is_registered=False), Bench(is_registered=False)
    dialling.give(Started())

    assert before.give(StopRequested()) == [Finish()]
    assert dialling.give(DrainRequested())[-1] == Disconnect(connection=1)
    assert dialling.lose() == [Finish()]


def test_a_worker_that_ends_while_disconnected_waits_a_moment_to_deliver_its_last_report() -> None:
    bench = Bench()
    bench.start_job()
    bench.give(DrainRequested())
    bench.lose()
    assert bench.give(JobEnded(job_id="AJ_1")) == []

    effects = bench.reconnect()

    assert job_update("AJ_1", JobStatus.SUCCESS) in sent(effects)
    assert effects[-1] == Disconnect(connection=2)
    assert bench.lose() == [Finish()]


def test_a_server_that_stays_away_does_not_hold_up_the_end() -> None:
    bench = Bench()
    bench.start_job()
    bench.lose()
    bench.give(DrainRequested())
    bench.give(JobEnded(job_id="AJ_1"))

    assert bench.wait(3.0)[-1] == Finish()
    assert bench.give(StopRequested()) == []

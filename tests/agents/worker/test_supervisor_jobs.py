"""The supervisor step by step: offers, slots, assignments, load, the end of jobs; time is stepped by hand."""

from __future__ import annotations

import pytest

from kit.supervisor_bench import Bench, answer_in, job_info, job_update, no_decision, sent
from vivavoce.agents.worker.effects import (
    AskHandler,
    Connected,
    EndJob,
    JobDecided,
    JobEnded,
    LoadMeasured,
    ReportRefusal,
    Started,
    StartJob,
)
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    JobAssigned,
    JobStatus,
    JobTerminated,
    Register,
    UpdateJob,
    UpdateWorker,
)
from vivavoce.agents.worker.request import Acceptance, Rejection


def test_an_offer_is_answered_in_the_same_step_with_its_slot_reserved() -> None:
    bench = Bench(max_jobs=1)

    first = bench.hear(AvailabilityAsked(job=job_info("AJ_1")))
    second = bench.hear(AvailabilityAsked(job=job_info("AJ_2")))

    assert answer_in(first) == AnswerAvailability(job_id="AJ_1", is_available=True, identity="agent-AJ_1")
    assert sent(first)[-1] == UpdateWorker(is_available=False, load=1.0, job_count=1, is_draining=False)
    assert not answer_in(second).is_available


def test_the_identity_option_names_the_agent_after_job_and_room() -> None:
    bench = Bench(identity="{room}/bot-{job_id}")

    assert answer_in(bench.hear(AvailabilityAsked(job=job_info()))).identity == "room-of-AJ_1/bot-AJ_1"


def test_an_assignment_starts_the_job_and_reports_it_running() -> None:
    bench = Bench()

    effects = bench.start_job()

    assert StartJob(assigned=JobAssigned(job=job_info(), url="", token="t")) in effects
    assert sent(effects, UpdateJob) == [job_update("AJ_1", JobStatus.RUNNING)]


def test_an_assignment_that_does_not_come_frees_the_slot_after_its_limit() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=job_info("AJ_1")))

    bench.wait(7.4)
    assert not answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_2")))).is_available
    bench.wait(0.2)
    assert answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_3")))).is_available


def test_an_assignment_later_than_that_still_runs_while_there_is_room_and_fails_with_its_reason_when_not() -> None:
    bench = Bench(max_jobs=1)
    bench.hear(AvailabilityAsked(job=job_info("AJ_1")))
    bench.wait(8.0)

    late = bench.hear(JobAssigned(job=job_info("AJ_1"), url="", token="t"))
    later = bench.hear(JobAssigned(job=job_info("AJ_2"), url="", token="t"))

    assert any(isinstance(effect, StartJob) for effect in late)
    assert sent(later) == [
        job_update("AJ_2", JobStatus.FAILED, "assigned too late (limit 7.5 s): the worker has no slot left")
    ]


def test_jobs_count_at_once_and_measured_load_if_it_is_more() -> None:
    bench = Bench(max_jobs=2)
    bench.give(LoadMeasured(load=0.7))
    assert bench.supervisor.status().load == 0.7

    bench.start_job("AJ_1")
    assert bench.supervisor.status().load == 0.7
    bench.start_job("AJ_2")
    assert bench.supervisor.status().load == 1.0


def test_a_load_from_max_load_on_refuses_jobs_until_it_falls() -> None:
    bench = Bench(max_jobs=5, max_load=0.8)

    full = bench.give(LoadMeasured(load=0.8))
    assert sent(full) == [UpdateWorker(is_available=False, load=0.8, job_count=0, is_draining=False)]
    assert not answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_1")))).is_available

    free = bench.give(LoadMeasured(load=0.5))
    assert sent(free) == [UpdateWorker(is_available=True, load=0.5, job_count=0, is_draining=False)]
    assert answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_2")))).is_available


def test_without_max_load_only_the_slots_are_limited() -> None:
    bench = Bench(max_jobs=2)
    bench.give(LoadMeasured(load=1.0))

    assert answer_in(bench.hear(AvailabilityAsked(job=job_info()))).is_available


def test_a_running_job_that_is_assigned_again_starts_once() -> None:
    bench = Bench()
    bench.start_job()

    assert bench.hear(JobAssigned(job=job_info(), url="", token="t")) == [
        ReportRefusal(job_id="AJ_1", reason="it runs already")
    ]


def test_a_job_that_is_over_and_assigned_again_starts_nothing_and_keeps_its_report() -> None:
    bench = Bench()
    bench.start_job()
    bench.give(JobEnded(job_id="AJ_1"))

    assert bench.hear(JobAssigned(job=job_info(), url="", token="t")) == [
        ReportRefusal(job_id="AJ_1", reason="it has ended")
    ]


def test_a_rejected_job_that_is_assigned_nevertheless_fails_with_its_reason() -> None:
    bench = Bench(max_jobs=1)
    bench.start_job("AJ_1")
    bench.hear(AvailabilityAsked(job=job_info("AJ_2")))
    bench.give(JobEnded(job_id="AJ_1"))

    effects = bench.hear(JobAssigned(job=job_info("AJ_2"), url="", token="t"))

    assert not any(isinstance(effect, StartJob) for effect in effects)
    assert sent(effects) == [
        job_update("AJ_2", JobStatus.FAILED, "assigned to this worker, but this worker has rejected it")
    ]


def test_a_job_that_is_offered_again_after_a_rejection_can_be_taken() -> None:
    bench = Bench(max_jobs=1)
    bench.start_job("AJ_1")
    bench.hear(AvailabilityAsked(job=job_info("AJ_2")))
    bench.give(JobEnded(job_id="AJ_1"))

    assert any(isinstance(effect, StartJob) for effect in bench.start_job("AJ_2"))


def test_the_job_type_is_registered() -> None:
    bench = Bench(is_registered=False, job_type="publisher")
    bench.give(Started())

    assert sent(bench.give(Connected(connection=1))) == [Register(agent_name="host", job_type="publisher")]


@pytest.mark.parametrize(
    ("decision", "answer"),
    [
        (
            Acceptance(identity="bob", name="Bob", metadata="m", attributes={"a": "b"}),
            AnswerAvailability(
                job_id="AJ_1", is_available=True, identity="bob", name="Bob", metadata="m", attributes={"a": "b"}
            ),
        ),
        (Rejection(), AnswerAvailability(job_id="AJ_1", is_available=False)),
        (Rejection(terminate=True), AnswerAvailability(job_id="AJ_1", is_available=False, terminate=True)),
    ],
)
def test_a_request_handler_decides_on_offers(decision: Acceptance | Rejection, answer: AnswerAvailability) -> None:
    bench = Bench(on_request=no_decision, max_jobs=1)

    assert AskHandler(job=job_info()) in bench.hear(AvailabilityAsked(job=job_info()))
    refused = answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_2"))))
    assert not refused.is_available  # the slot of the first is reserved meanwhile

    assert answer_in(bench.give(JobDecided(job_id="AJ_1", decision=decision))) == answer


def test_a_request_handler_that_does_not_decide_in_time_rejects_the_offer() -> None:
    bench = Bench(on_request=no_decision, request_timeout=1.0)
    bench.hear(AvailabilityAsked(job=job_info()))

    assert not answer_in(bench.wait(1.5)).is_available
    assert sent(bench.give(JobDecided(job_id="AJ_1", decision=Acceptance()))) == []


def test_the_end_of_a_job_is_reported_with_its_error_and_frees_its_slot() -> None:
    bench = Bench(max_jobs=1)
    bench.start_job()

    effects = bench.give(JobEnded(job_id="AJ_1", error="ValueError: no"))

    assert sent(effects)[0] == job_update("AJ_1", JobStatus.FAILED, "ValueError: no")
    assert sent(effects)[-1] == UpdateWorker(is_available=True, load=0.0, job_count=0, is_draining=False)


def test_a_termination_ends_the_job_gently_and_only_once() -> None:
    bench = Bench()
    bench.start_job()

    assert bench.hear(JobTerminated(job_id="AJ_1")) == [EndJob(job_id="AJ_1", reason="the server ended the job")]
    assert bench.hear(JobTerminated(job_id="AJ_1")) == []
    assert bench.hear(JobTerminated(job_id="AJ_unknown")) == []


def test_an_available_worker_reports_less_than_the_server_s_target_load_so_that_it_gets_jobs() -> None:
    bench = Bench(max_jobs=10)
    for number in range(7):
        bench.start_job(f"AJ_{number}")

    [by_jobs] = sent(bench.wait(2.5))
    assert by_jobs == UpdateWorker(is_available=True, load=0.69, job_count=7, is_draining=False)
    bench.give(LoadMeasured(load=7.0))
    [measured] = sent(bench.wait(2.5))
    assert measured == UpdateWorker(is_available=True, load=0.69, job_count=7, is_draining=False)
    assert bench.supervisor.status().load == 1.0, "people and autoscalers see all of it"

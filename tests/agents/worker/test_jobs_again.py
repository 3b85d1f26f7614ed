"""The supervisor and jobs that are dispatched again: who takes a kept call, identities, jobs without an offer."""

from __future__ import annotations

from dataclasses import replace

from kit.supervisor_bench import Bench, answer_in, job_info
from vivavoce.agents.worker.effects import CallClaimed, DrainRequested, ExecutorChanged, JoinRequested, StartJob
from vivavoce.agents.worker.protocol import AvailabilityAsked, JobAssigned
from vivavoce.agents.worker.supervisor import CLAIM_MEMORY


def _resuming(job_id: str = "AJ_2") -> AvailabilityAsked:
    return AvailabilityAsked(job=replace(job_info(job_id), resumes="AJ_1", heals="AD_1"))


def _own(job_id: str = "job_1") -> JoinRequested:
    return JoinRequested(assigned=JobAssigned(job=job_info(job_id), url="", token="t"))


def test_a_kept_call_is_taken_by_the_worker_that_claimed_it_and_passed_on_by_all_others() -> None:
    claimer, other = Bench(), Bench()
    claimer.give(CallClaimed(lease="AJ_1"))

    assert answer_in(claimer.hear(_resuming())).is_available
    assert not answer_in(other.hear(_resuming())).is_available


def test_a_kept_call_with_one_participant_of_a_room_is_taken_for_that_one_alone() -> None:
    bench = Bench(job_type="participant")
    bench.give(CallClaimed(lease="AJ_1", participant="ann"))  # the server makes a job for each one in the room
    for job_id, whom in (("AJ_2", "bob"), ("AJ_3", "ann")):
        job = replace(_resuming(job_id).job, type="participant", participant_identity=whom)
        assert answer_in(bench.hear(AvailabilityAsked(job=job))).is_available == (whom == "ann")


def test_agents_for_participants_that_are_sent_again_have_identities_of_their_own() -> None:
    bench = Bench(job_type="participant")
    jobs = [replace(job_info(job_id), type="participant", heals="AD_1") for job_id in ("AJ_2", "AJ_3")]

    identities = [answer_in(bench.hear(AvailabilityAsked(job=job))).identity for job in jobs]

    assert identities == ["agent-AJ_2", "agent-AJ_3"], "all of a room have one dispatch"


def test_a_claim_is_forgotten_after_a_while() -> None:
    bench = Bench()
    bench.give(CallClaimed(lease="AJ_1"))
    bench.wait(CLAIM_MEMORY + 5.0)

    assert not answer_in(bench.hear(_resuming())).is_available


def test_an_agent_sent_again_has_the_identity_of_the_first_dispatch() -> None:
    bench = Bench()
    healed = AvailabilityAsked(job=replace(job_info("AJ_2"), heals="AD_1"))

    assert answer_in(bench.hear(healed)).identity == "agent-AD_1"


def test_so_it_has_with_a_template_of_the_application() -> None:
    bench = Bench(identity="host-{job_id}")
    healed = AvailabilityAsked(job=replace(job_info("AJ_2"), heals="AD_1"))

    assert answer_in(bench.hear(healed)).identity == "host-AD_1"


def test_a_job_that_the_worker_gives_itself_takes_a_slot() -> None:
    bench = Bench(max_jobs=1)

    assert [effect for effect in bench.give(_own()) if isinstance(effect, StartJob)] == [
        StartJob(assigned=_own().assigned)
    ]
    assert not answer_in(bench.hear(AvailabilityAsked(job=job_info("AJ_9")))).is_available


def test_a_worker_knows_whether_it_takes_a_job_now() -> None:
    idle, apart, full, draining, without_process = (Bench(is_registered=number != 1, max_jobs=1) for number in range(5))
    full.start_job()
    draining.give(DrainRequested())
    without_process.give(ExecutorChanged(is_ready=False))

    assert idle.supervisor.status().takes_jobs
    for bench in (apart, full, draining, without_process):
        assert not bench.supervisor.status().takes_jobs


def test_a_full_or_draining_worker_gives_itself_no_job() -> None:
    full, draining = Bench(max_jobs=1), Bench()
    full.start_job("AJ_1")
    draining.start_job("AJ_1")
    draining.give(DrainRequested())

    for bench in (full, draining):
        assert not any(isinstance(effect, StartJob) for effect in bench.give(_own()))

"""The notes that a worker takes for callers without an agent."""

from __future__ import annotations

import gc

from kit.supervisor_bench import Bench
from vivavoce.agents.job import JobInfo
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.care import Care
from vivavoce.agents.worker.effects import JobEnded, StartJob
from vivavoce.agents.worker.healing import JobOver, JobTaken
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.clock import LoopClock


async def test_a_worker_that_does_not_heal_keeps_no_notes_of_its_jobs() -> None:
    view = WorkerView(
        account=Credentials(url="ws://127.0.0.1:9", api_key="devkey", api_secret="secret" * 8),
        agent_name="host",
        options=WorkerOptions(healing=False, crash_safety=None),
        post=lambda input: None,
        status=Bench().supervisor.status,
        clock=LoopClock(),
    )
    care = Care(view)
    assigned = JobAssigned(job=JobInfo(id="AJ_care_1", room="r"), url="", token="t")

    care.note(JobEnded(job_id="AJ_care_0"), [StartJob(assigned=assigned)])

    assert _noted() & {"AJ_care_0", "AJ_care_1"} == set()


def _noted() -> set[str]:
    """Return the jobs of which a note is kept, by this worker or by those of other tests."""
    # Not `isinstance`: it asks each object for its class, and an SDK's proxy imports its package to answer.
    return {one.job_id for one in gc.get_objects() if type(one) in (JobTaken, JobOver)}

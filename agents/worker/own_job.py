"""Jobs that a worker gives itself, by a token of its own, without a dispatch of the server."""

from __future__ import annotations

from vivavoce.agents.job import JobInfo
from vivavoce.agents.worker.agent_token import agent_identity, agent_token
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.room_facts import NewDispatch
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.ids import new_id


def own_assignment(worker: WorkerView, wanted: NewDispatch, *, participant: str = "") -> JobAssigned:
    """Return the assignment of a job in the place of a dispatch.

    Args:
        participant: The participant that the job is for; empty for a job of the room.
    """
    job = JobInfo(
        id=new_id("job"),
        room=wanted.room,
        agent_name=wanted.agent_name,
        metadata=wanted.metadata,
        dispatch_id=wanted.heals,
        participant_identity=participant,
        attributes=wanted.attributes,
        type=worker.options.job_type if participant else "room",
        heals=wanted.heals,
        resumes=wanted.resumes,
    )
    shared = "" if participant else wanted.heals  # the dispatch is one for all participants of its room
    identity = agent_identity(None, job_id=shared or job.id, room=wanted.room)
    permissions = worker.options.permissions
    token = agent_token(worker.account, wanted.room, identity, permissions, agent_name=worker.agent_name)
    return JobAssigned(job=job, url="", token=token)

"""Messages to and from the bytes that LiveKit's own protobuf classes read and write."""

from __future__ import annotations

import pytest
from google.protobuf import json_format
from livekit.protocol import agent as wire
from livekit.protocol import models

from vivavoce.agents.job import JobInfo, JobType
from vivavoce.agents.worker.options import AgentPermissions
from vivavoce.agents.worker.protocol import (
    AnswerAvailability,
    AvailabilityAsked,
    GoAway,
    JobAssigned,
    JobStatus,
    JobTerminated,
    MigrateJobs,
    Register,
    Registered,
    ServerMessage,
    UpdateJob,
    UpdateWorker,
    WorkerMessage,
    decode,
    encode,
)
from vivavoce.pipelines.core.errors import WorkerError


def _sent(message: WorkerMessage) -> wire.WorkerMessage:
    return wire.WorkerMessage.FromString(encode(message))


def test_register_names_the_agent_and_asks_for_what_it_may_do_as_an_agent() -> None:
    register = _sent(Register(agent_name="host", permissions=AgentPermissions(hidden=True))).register

    assert (register.type, register.agent_name) == (wire.JT_ROOM, "host")
    allowed = register.allowed_permissions
    assert allowed.agent
    assert allowed.hidden
    assert allowed.can_publish
    assert allowed.can_subscribe
    assert allowed.can_publish_data
    assert allowed.can_update_metadata


@pytest.mark.parametrize(("is_available", "status"), [(True, wire.WS_AVAILABLE), (False, wire.WS_FULL)])
def test_a_worker_says_how_busy_it_is(is_available: bool, status: wire.WorkerStatus) -> None:
    update = _sent(UpdateWorker(is_available=is_available, load=0.5, job_count=3, is_draining=True)).update_worker

    assert (update.status, update.load, update.job_count, update.draining) == (status, 0.5, 3, True)


def test_an_answer_carries_the_participant_that_will_join() -> None:
    answer = _sent(
        AnswerAvailability(
            job_id="AJ_1", is_available=True, identity="bob", name="Bob", metadata="m", attributes={"a": "b"}
        )
    ).availability

    assert (answer.job_id, answer.available, answer.terminate) == ("AJ_1", True, False)
    assert (answer.participant_identity, answer.participant_name, answer.participant_metadata) == ("bob", "Bob", "m")
    assert dict(answer.participant_attributes) == {"a": "b"}


@pytest.mark.parametrize(
    ("status", "value"),
    [(JobStatus.RUNNING, wire.JS_RUNNING), (JobStatus.SUCCESS, wire.JS_SUCCESS), (JobStatus.FAILED, wire.JS_FAILED)],
)
def test_a_job_report_carries_status_and_error(status: JobStatus, value: wire.JobStatus) -> None:
    report = _sent(UpdateJob(job_id="AJ_1", status=status, error="ValueError: no")).update_job

    assert (report.job_id, report.status, report.error) == ("AJ_1", value, "ValueError: no")


@pytest.mark.parametrize(
    ("job_type", "value"),
    [("room", wire.JT_ROOM), ("publisher", wire.JT_PUBLISHER), ("participant", wire.JT_PARTICIPANT)],
)
def test_the_type_of_a_worker_s_jobs_is_registered_and_read(job_type: JobType, value: wire.JobType) -> None:
    message = wire.ServerMessage(availability=wire.AvailabilityRequest(job=wire.Job(id="AJ_1", type=value)))

    assert _sent(Register(agent_name="host", job_type=job_type)).register.type == value
    assert decode(message.SerializeToString()) == AvailabilityAsked(job=JobInfo(id="AJ_1", room="", type=job_type))


def test_running_jobs_are_named_on_a_new_connection() -> None:
    assert list(_sent(MigrateJobs(job_ids=("AJ_1", "AJ_2"))).migrate_job.job_ids) == ["AJ_1", "AJ_2"]


JOB = wire.Job(
    id="AJ_1",
    dispatch_id="AD_1",
    room=models.Room(name="lobby", metadata="quiet"),
    participant=models.ParticipantInfo(identity="caller"),
    metadata="a table",
    agent_name="host",
    attributes={"lang": "en"},
)
INFO = JobInfo(
    id="AJ_1",
    room="lobby",
    agent_name="host",
    metadata="a table",
    dispatch_id="AD_1",
    room_metadata="quiet",
    participant_identity="caller",
    attributes={"lang": "en"},
)
HEARD = [
    (
        wire.ServerMessage(
            register=wire.RegisterWorkerResponse(worker_id="AW_1", server_info=models.ServerInfo(version="1.13.5"))
        ),
        Registered(worker_id="AW_1", server_version="1.13.5"),
    ),
    (wire.ServerMessage(availability=wire.AvailabilityRequest(job=JOB)), AvailabilityAsked(job=INFO)),
    (
        wire.ServerMessage(assignment=wire.JobAssignment(job=JOB, url="ws://a", token="t")),
        JobAssigned(job=INFO, url="ws://a", token="t"),
    ),
    (wire.ServerMessage(termination=wire.JobTermination(job_id="AJ_1")), JobTerminated(job_id="AJ_1")),
    (wire.ServerMessage(go_away={"reason": "update"}), GoAway(reason="update")),
    (wire.ServerMessage(pong=wire.WorkerPong(timestamp=1)), None),
]


@pytest.mark.parametrize(("message", "expected"), HEARD)
def test_what_the_server_says_is_read_from_binary_and_from_text(
    message: wire.ServerMessage, expected: ServerMessage | None
) -> None:
    assert decode(message.SerializeToString()) == expected
    assert decode(json_format.MessageToJson(message)) == expected


@pytest.mark.parametrize("frame", [b"\xff\xff\xff", "{]", '{"register": 3}'])
def test_a_frame_that_is_no_message_is_refused(frame: bytes | str) -> None:
    with pytest.raises(WorkerError, match="expected a ServerMessage"):
        decode(frame)


def test_neither_token_nor_metadata_shows_in_a_repr() -> None:
    shown = repr(JobAssigned(job=INFO, url="", token="secret-token"))

    assert "secret-token" not in shown
    assert "a table" not in shown

"""LiveKit's agent protocol, the worker's side: messages as plain values, to and from bytes. No I/O.

Source: `livekit.protocol.agent` (protobuf), which loads on first use. Frames are written in binary; text frames (the
JSON form of the same messages) are understood too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from vivavoce.agents.job import JobInfo, JobType
from vivavoce.agents.worker.options import AgentPermissions
from vivavoce.pipelines.core.errors import WorkerError

if TYPE_CHECKING:
    from livekit.protocol import agent as wire

WORKER_VERSION = "0.2.0.dev0"

HEALS = "vivavoce.heals"
"""Attribute of a dispatch that was made in the place of another one: the first dispatch of the call."""
RESUMES = "vivavoce.resumes"
"""Attribute of a dispatch that continues a call after a crash: the call's lease."""


class JobStatus(StrEnum):
    """State of a job in its reports; only success and failure end the job."""

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """First message of every connection."""

    agent_name: str
    permissions: AgentPermissions = AgentPermissions()
    job_type: JobType = "room"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateWorker:
    """How busy the worker is."""

    is_available: bool
    load: float
    job_count: int
    is_draining: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerAvailability:
    """Whether the worker takes a job, and the participant as which the agent joins.

    Args:
        terminate: With `is_available=False`: end the job instead of offering it to the next worker.
    """

    job_id: str
    is_available: bool
    terminate: bool = False
    identity: str = ""
    name: str = ""
    metadata: str = field(default="", repr=False)
    attributes: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateJob:
    """The state of a job; `error` is the full text of its failure."""

    job_id: str
    status: JobStatus
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrateJobs:
    """The jobs that continue, sent on a new connection."""

    job_ids: tuple[str, ...]


WorkerMessage = Register | UpdateWorker | AnswerAvailability | UpdateJob | MigrateJobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The server has registered this worker; must be the first message received."""

    worker_id: str
    server_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityAsked:
    """The server offers a job. The worker must answer at once."""

    job: JobInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAssigned:
    """The server assigns a job; the token joins the room at `url`, or at the worker's own URL if that is empty."""

    job: JobInfo
    url: str
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTerminated:
    """The server wants the job to end."""

    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GoAway:
    """The server is about to shut down; its workers connect again."""

    reason: str = ""


ServerMessage = Registered | AvailabilityAsked | JobAssigned | JobTerminated | GoAway


ERROR_CHARACTERS = 4000
"""Most characters of a job's error in its report: a server may drop a connection for a frame that is too long."""


def encode(message: WorkerMessage) -> bytes:
    """Return the binary frame of a message."""
    return _to_wire(message).SerializeToString()


def decode(frame: bytes | str) -> ServerMessage | None:
    """Return the message in a frame; None for a message that workers ignore.

    Raises:
        WorkerError: The frame holds no message of the protocol.
    """
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from livekit.protocol import agent as wire

    try:
        if isinstance(frame, str):
            message = json_format.Parse(frame, wire.ServerMessage(), ignore_unknown_fields=True)
        else:
            message = wire.ServerMessage.FromString(frame)
    except (DecodeError, json_format.ParseError) as error:
        raise WorkerError(
            f"expected a ServerMessage of LiveKit's agent protocol, got a frame of {len(frame)}"
        ) from error
    return _from_wire(message)


def _to_wire(message: WorkerMessage) -> wire.WorkerMessage:
    from livekit.protocol import agent as wire
    from livekit.protocol import models

    match message:
        case Register():
            allowed = message.permissions
            permissions = models.ParticipantPermission(
                can_publish=allowed.can_publish,
                can_subscribe=allowed.can_subscribe,
                can_publish_data=allowed.can_publish_data,
                can_update_metadata=allowed.can_update_metadata,
                hidden=allowed.hidden,
                agent=True,
            )
            register = wire.RegisterWorkerRequest(
                type=_wire_job_types()[message.job_type],
                agent_name=message.agent_name,
                version=WORKER_VERSION,
                allowed_permissions=permissions,
            )
            return wire.WorkerMessage(register=register)
        case UpdateWorker():
            update = wire.UpdateWorkerStatus(
                status=wire.WS_AVAILABLE if message.is_available else wire.WS_FULL,
                load=message.load,
                job_count=message.job_count,
                draining=message.is_draining,
            )
            return wire.WorkerMessage(update_worker=update)
        case AnswerAvailability():
            answer = wire.AvailabilityResponse(
                job_id=message.job_id,
                available=message.is_available,
                terminate=message.terminate,
                participant_identity=message.identity,
                participant_name=message.name,
                participant_metadata=message.metadata,
                participant_attributes=dict(message.attributes),
            )
            return wire.WorkerMessage(availability=answer)
        case UpdateJob():
            status = {
                JobStatus.RUNNING: wire.JS_RUNNING,
                JobStatus.SUCCESS: wire.JS_SUCCESS,
                JobStatus.FAILED: wire.JS_FAILED,
            }[message.status]
            error = _sendable(message.error)
            return wire.WorkerMessage(
                update_job=wire.UpdateJobStatus(job_id=message.job_id, status=status, error=error)
            )
        case MigrateJobs():
            return wire.WorkerMessage(migrate_job=wire.MigrateJobRequest(job_ids=message.job_ids))
        case _:
            assert_never(message)


def _sendable(error: str) -> str:
    """Return an application's error text as the protocol can carry it."""
    text = error if len(error) <= ERROR_CHARACTERS else f"{error[:ERROR_CHARACTERS]}…"
    return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair, from the name of a file


def _from_wire(message: wire.ServerMessage) -> ServerMessage | None:
    match message.WhichOneof("message"):
        case "register":
            answer = message.register
            return Registered(worker_id=answer.worker_id, server_version=answer.server_info.version)
        case "availability":
            return AvailabilityAsked(job=_job(message.availability.job))
        case "assignment":
            assigned = message.assignment
            return JobAssigned(job=_job(assigned.job), url=assigned.url, token=assigned.token)
        case "termination":
            return JobTerminated(job_id=message.termination.job_id)
        case "go_away":
            return GoAway(reason=message.go_away.reason)
        case _:  # a pong, or a message of a later server version
            return None


def _job(job: wire.Job) -> JobInfo:
    return JobInfo(
        id=job.id,
        room=job.room.name,
        agent_name=job.agent_name,
        metadata=job.metadata,
        dispatch_id=job.dispatch_id,
        room_metadata=job.room.metadata,
        participant_identity=job.participant.identity,
        attributes={name: value for name, value in job.attributes.items() if name not in (HEALS, RESUMES)},
        heals=job.attributes.get(HEALS, ""),
        resumes=job.attributes.get(RESUMES, ""),
        type={number: name for name, number in _wire_job_types().items()}.get(job.type, "room"),
    )


def _wire_job_types() -> dict[JobType, wire.JobType]:
    from livekit.protocol import agent as wire

    return {"room": wire.JT_ROOM, "publisher": wire.JT_PUBLISHER, "participant": wire.JT_PARTICIPANT}

"""Agent dispatch: chooses a worker for the job of a room, and follows the job to its end."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from livekit.api import VideoGrants
from livekit.protocol import agent, agent_dispatch, models
from livekit.protocol.room import RoomConfiguration

from vivavoce.agents.dev_room.auth import Authority
from vivavoce.agents.dev_room.info import new_sid
from vivavoce.agents.dev_room.options import RoomServerOptions
from vivavoce.agents.dev_room.tasks import TaskSet
from vivavoce.pipelines.core.clock import LoopClock

logger = logging.getLogger(__name__)

MIGRATION_MEMORY = 15.0
FORGOTTEN = "as on a real server, a later one gets no offer"
_ENDED = (agent.JS_SUCCESS, agent.JS_FAILED)


class WorkerSocket(Protocol):
    """Receives a worker's messages."""

    def send(self, message: agent.ServerMessage) -> None: ...


@dataclass(slots=True, eq=False)
class RegisteredWorker:
    """One worker as the dispatcher sees it."""

    id: str
    request: agent.RegisterWorkerRequest
    socket: WorkerSocket
    load: float = 0.0
    is_available: bool = True


@dataclass(slots=True)
class _RoomState:
    """The dispatcher's memory of one room."""

    dispatches: dict[str, agent_dispatch.AgentDispatch] = field(default_factory=dict)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)
    agent_returned: anyio.Event = field(default_factory=anyio.Event)


class Dispatcher:
    """Keeps workers and jobs, and applies the rules of dispatch."""

    def __init__(self, options: RoomServerOptions, authority: Authority, tasks: TaskSet) -> None:
        self._options = options
        self._authority = authority
        self._tasks = tasks
        self._workers: dict[str, RegisteredWorker] = {}
        self._jobs: dict[str, agent.Job] = {}
        """Running jobs: the same messages as in their dispatches."""
        self._rooms: dict[str, _RoomState] = {}
        self._answers: dict[str, tuple[str, asyncio.Future[agent.AvailabilityResponse | None]]] = {}
        self._migrated_at: float | None = None
        self._registered = anyio.Event()
        """Set and renewed when a worker registers."""

    # Reports of workers

    def add_worker(self, request: agent.RegisterWorkerRequest, socket: WorkerSocket) -> RegisteredWorker:
        worker = RegisteredWorker(new_sid("AW"), request, socket)
        self._workers[worker.id] = worker
        self._registered.set()
        self._registered = anyio.Event()
        logger.info("worker %s registered (agent_name %r)", worker.id, request.agent_name)
        return worker

    def remove_worker(self, worker: RegisteredWorker) -> None:
        """Remove a worker; its running jobs continue, offers to it pass to the next."""
        self._workers.pop(worker.id, None)
        for worker_id, answer in list(self._answers.values()):
            if worker_id == worker.id and not answer.done():
                answer.set_result(None)
        logger.info("worker %s is gone", worker.id)

    def handle(self, worker: RegisteredWorker, message: agent.WorkerMessage) -> None:
        match message.WhichOneof("message"):
            case "availability":
                waiting = self._answers.get(message.availability.job_id)
                if waiting is not None and waiting[0] == worker.id and not waiting[1].done():
                    waiting[1].set_result(message.availability)
            case "update_worker":
                update = message.update_worker
                worker.load = update.load
                worker.is_available = update.status == agent.WS_AVAILABLE and not update.draining
            case "update_job":
                self._update_job(message.update_job)
            case "migrate_job":
                self._note_jobs([*message.migrate_job.job_ids, *(job.id for job in message.migrate_job.jobs)])
            case "ping":
                pong = agent.WorkerPong(last_timestamp=message.ping.timestamp, timestamp=int(LoopClock().wall() * 1000))
                worker.socket.send(agent.ServerMessage(pong=pong))

    def _update_job(self, update: agent.UpdateJobStatus) -> None:
        job = self._jobs.get(update.job_id)
        if job is None:
            return
        job.state.status, job.state.error = update.status, update.error
        job.state.updated_at = int(LoopClock().wall() * 1e9)
        if update.status == agent.JS_FAILED:
            logger.warning("job %s failed: %s", update.job_id, update.error)
        if update.status in _ENDED:
            job.state.ended_at = job.state.updated_at
            del self._jobs[update.job_id]

    def _note_jobs(self, job_ids: list[str]) -> None:
        if not self._jobs.keys() >= set(job_ids):
            self._migrated_at = LoopClock().now()

    def expects_returning_agents(self) -> bool:
        """Return whether a worker came with jobs that this server never assigned: they are from before a restart."""
        now = LoopClock().now()
        return self._migrated_at is not None and now - self._migrated_at < MIGRATION_MEMORY

    # Reports of rooms

    def on_join(
        self,
        room: models.Room,
        participant: models.ParticipantInfo,
        config: RoomConfiguration | None,
        *,
        is_first_caller: bool,
        is_restarted: bool,
    ) -> None:
        """Dispatch into a room that gets its first caller: the agents that its token names, or one without a name."""
        if participant.kind == models.ParticipantInfo.AGENT:
            if not any(job.state.participant_identity == participant.identity for job in self._jobs.values()):
                self._room(room.name).agent_returned.set()
        elif is_first_caller:
            named = list(config.agents) if config is not None else []
            for wanted in named:
                self.create_dispatch(
                    room,
                    wanted.agent_name,
                    wanted.metadata,
                    attributes=wanted.attributes,
                    wait_for_return=is_restarted,
                )
            if not named:
                self.create_dispatch(room, "", "", wait_for_return=is_restarted)

    def create_dispatch(
        self,
        room: models.Room,
        agent_name: str,
        metadata: str,
        *,
        attributes: Mapping[str, str] | None = None,
        wait_for_return: bool = False,
    ) -> agent_dispatch.AgentDispatch:
        """Offer a new job to the workers of that name; returns at once."""
        dispatch = agent_dispatch.AgentDispatch(
            id=new_sid("AD"),
            agent_name=agent_name,
            room=room.name,
            metadata=metadata,
            attributes=dict(attributes or {}),
        )
        dispatch.state.created_at = int(LoopClock().wall() * 1e9)
        state = self._room(room.name)
        state.dispatches[dispatch.id] = dispatch
        snapshot = models.Room()
        snapshot.CopyFrom(room)
        task = self._tasks.spawn_task(self._run(state, dispatch, snapshot, wait_for_return), name="dispatch")
        state.tasks.add(task)
        task.add_done_callback(state.tasks.discard)
        return dispatch

    def list_dispatches(self, room_name: str) -> list[agent_dispatch.AgentDispatch]:
        state = self._rooms.get(room_name)
        return list(state.dispatches.values()) if state is not None else []

    def delete_dispatch(self, room_name: str, dispatch_id: str) -> agent_dispatch.AgentDispatch | None:
        """Remove a dispatch and have its running jobs ended; None if there is none of that id."""
        state = self._rooms.get(room_name)
        dispatch = state.dispatches.pop(dispatch_id, None) if state is not None else None
        if dispatch is None:
            return None
        dispatch.state.deleted_at = int(LoopClock().wall() * 1e9)
        for job in dispatch.state.jobs:
            worker = self._workers.get(job.state.worker_id)
            if worker is not None and self._jobs.pop(job.id, None) is not None:
                termination = agent.JobTermination(job_id=job.id)
                worker.socket.send(agent.ServerMessage(termination=termination))
        return dispatch

    def end_room(self, room_name: str) -> None:
        """Remove the jobs of a closed room and stop offering new ones for it.

        As from a real server, workers learn it from the room: their agents are disconnected.
        """
        state = self._rooms.pop(room_name, None)
        for task in set(state.tasks) if state is not None else ():
            task.cancel()
        self._jobs = {job_id: job for job_id, job in self._jobs.items() if job.room.name != room_name}

    def _room(self, name: str) -> _RoomState:
        return self._rooms.setdefault(name, _RoomState())

    # Offering

    async def _run(
        self, state: _RoomState, dispatch: agent_dispatch.AgentDispatch, room: models.Room, wait_for_return: bool
    ) -> None:
        if wait_for_return:
            # The caller has returned first and its agent may follow: a second agent beside that one would answer too.
            try:
                with anyio.fail_after(self._options.restart_wait):
                    await state.agent_returned.wait()
                logger.info("room %s: its agent of before the restart came back, none dispatched", room.name)
                return
            except TimeoutError:
                logger.info("room %s: no agent of before the restart came back", room.name)
        job = agent.Job(
            id=new_sid("AJ"),
            dispatch_id=dispatch.id,
            type=agent.JT_ROOM,
            room=room,
            metadata=dispatch.metadata,
            agent_name=dispatch.agent_name,
            attributes=dict(dispatch.attributes),
        )
        while dispatch.id in state.dispatches:
            registered = self._registered  # of before the offer: one that registers meanwhile may not have been asked
            if await self._offer(job, dispatch) or not self._options.keeps_waiting_rooms:
                return
            await registered.wait()  # the end of the room ends the wait

    async def _offer(self, job: agent.Job, dispatch: agent_dispatch.AgentDispatch) -> bool:
        """Offer a job to one worker after the other; return whether one has taken it or ended it."""
        tried: set[str] = set()
        while (worker := self._next_worker(job.agent_name, tried)) is not None:
            tried.add(worker.id)
            try:
                answer = await self._ask(worker, job)
            except TimeoutError:
                logger.warning(
                    "worker %s did not answer the offer of job %s within %g s: no other one is asked, as in production",
                    worker.id,
                    job.id,
                    self._options.availability_timeout,
                )
                return False
            if answer is not None and answer.available:
                self._assign(worker, job, dispatch, answer)
                return True
            if answer is not None and answer.terminate:
                logger.info("worker %s ended job %s", worker.id, job.id)
                return True
        later = "it is offered to the next one" if self._options.keeps_waiting_rooms else FORGOTTEN
        if job.agent_name or tried:
            logger.warning(
                "room %s gets no agent: %s; %s",
                job.room.name,
                f"{len(tried)} workers refused" if tried else f"no worker {job.agent_name!r} is registered",
                later,
            )
        else:
            logger.info("room %s gets no agent: no worker without agent_name is registered; %s", job.room.name, later)
        return False

    def _next_worker(self, agent_name: str, tried: set[str]) -> RegisteredWorker | None:
        candidates = [
            w
            for w in self._workers.values()
            if w.request.agent_name == agent_name and w.is_available and w.id not in tried
        ]
        return min(candidates, key=lambda w: (w.load, random.random()), default=None)

    async def _ask(self, worker: RegisteredWorker, job: agent.Job) -> agent.AvailabilityResponse | None:
        answer: asyncio.Future[agent.AvailabilityResponse | None] = asyncio.get_running_loop().create_future()
        self._answers[job.id] = (worker.id, answer)
        try:
            worker.socket.send(agent.ServerMessage(availability=agent.AvailabilityRequest(job=job)))
            with anyio.fail_after(self._options.availability_timeout):
                return await answer
        finally:
            del self._answers[job.id]

    def _assign(
        self,
        worker: RegisteredWorker,
        job: agent.Job,
        dispatch: agent_dispatch.AgentDispatch,
        answer: agent.AvailabilityResponse,
    ) -> None:
        identity = answer.participant_identity or f"agent-{job.id}"
        allowed = worker.request.allowed_permissions
        is_stated = worker.request.HasField("allowed_permissions")
        token = self._authority.agent_token(
            room=job.room.name,
            identity=identity,
            name=answer.participant_name,
            metadata=answer.participant_metadata,
            attributes={**answer.participant_attributes, "lk.agent_name": job.agent_name},
            grants=VideoGrants(
                can_publish=allowed.can_publish if is_stated else True,
                can_subscribe=allowed.can_subscribe if is_stated else True,
                can_publish_data=allowed.can_publish_data if is_stated else True,
                can_update_own_metadata=allowed.can_update_metadata if is_stated else True,
                hidden=allowed.hidden,
            ),
        )
        job.state.status, job.state.worker_id = agent.JS_RUNNING, worker.id
        job.state.participant_identity, job.state.agent_id = identity, worker.id
        job.state.started_at = int(LoopClock().wall() * 1e9)
        dispatch.state.jobs.append(job)  # makes a copy
        self._jobs[job.id] = dispatch.state.jobs[-1]
        worker.socket.send(agent.ServerMessage(assignment=agent.JobAssignment(job=job, token=token)))
        logger.info("job %s of room %s went to worker %s", job.id, job.room.name, worker.id)

"""Rescue: finds the calls whose processes have died, and dispatches each of them again, once.

The records in the store name the process of each call. A worker claims a call of a dead process in the store, so that
it alone has the call. It removes the dead agent's ghost from the room, and makes a dispatch that names the call. The
worker that claimed the call takes its job, since it can read the record. A worker that drains gets no dispatch: a call
whose process has died there goes on in a job that the worker gives itself. A call without a caller is forgotten, by a
full worker too. So is a call that has another agent, since a worker with another store has healed it: the dead agent is
recognised by the sid that the server gave it. A worker cannot see whether a call of another machine still runs; such a
call is forgotten a day after its last turn.

A job's process makes the record of its call. It takes a moment to begin there, in which its worker may die; so the
worker makes the record when the server assigns the job, and the job takes it over.
"""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import replace

import anyio

from vivavoce.agents.core.sqlite_file import FileVersionError
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.worker.agent_token import agent_identity, identity_in
from vivavoce.agents.worker.crash_safety import CrashSafety, first_record
from vivavoce.agents.worker.effects import CallClaimed, CallLeft, JobEnded, JoinRequested
from vivavoce.agents.worker.own_job import own_assignment
from vivavoce.agents.worker.owner import has_ended, owner_of_job, owner_of_lost_job, rescuer
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.room_facts import NewDispatch, ParticipantFacts
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError, describe

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two looks at the store."""

TAKEN_WITHIN = 6.0
"""Seconds in which a job must take a call that was dispatched again; after that it is dispatched once more. A server
asks no worker after 3 s.
"""

OLD = 86400.0
"""Seconds since the last change of a record after which its call is forgotten if it has no caller."""

SERVED_AFTER = 30.0
"""Seconds for which another agent must be in a lost call until the call counts as that agent's. A server lists a dead
agent for up to 20 s, and may have given it a new sid that the record lacks.
"""

STORE_LIMIT = 5.0
"""Seconds for one call of the store."""

SIDE_BY_SIDE = 8
"""The most calls that are dispatched again at the same time."""


class Rescue:
    """Rescues the calls of one agent name on one server.

    Args:
        server: The server's API.
        worker: Its worker, which gets `CallClaimed` for each call before the call is dispatched again.
        safety: Option of the worker.
    """

    def __init__(self, server: ServerApi, worker: WorkerView, safety: CrashSafety) -> None:
        self._server = server
        self._worker = worker
        self._safety = safety
        self._is_failing = False
        self._undispatched: set[str] = set()
        """Leases of calls whose last attempt here failed, before or after the claim; a call without a free slot is not
        attempted."""
        self._ghosts: dict[str, tuple[str, str]] = {}
        """By lease: the owner in the record, and the sid of the dead agent that was removed."""
        self._served: dict[str, tuple[str, float]] = {}
        """By lease: the owner in the record, and the time since which another agent is in the call."""
        self._slots = 0
        """The number of further calls with a caller that this look may dispatch."""
        self._notes: deque[JobAssigned | JobEnded] = deque()
        self._noted = anyio.Event()

    @property
    def _calls(self) -> CallsInStore:
        return self._safety.calls

    async def check(self) -> None:
        """Check that the store can be used as it is configured.

        A store that is out of reach, or of another version after a rollback, does not stop the start: `look()` reports
        it.

        Raises:
            ConfigurationError: The store can never be used.
        """
        try:
            with anyio.fail_after(STORE_LIMIT):
                await self._calls.read()
        except Exception as error:  # noqa: BLE001 - as in look(), which says so
            if isinstance(error, ConfigurationError) and not isinstance(error, FileVersionError):
                raise
            logger.debug("The records of running calls cannot be read yet: %s", describe(error))

    async def look(self) -> None:
        """Dispatch again the calls whose processes have died. After a failure the next look tries again."""
        try:
            with anyio.fail_after(STORE_LIMIT):
                kept = await self._calls.read()
        except Exception as error:  # noqa: BLE001 - a store is foreign code and disks fail; the worker goes on
            if not self._is_failing:
                logger.error("The records of running calls cannot be read: %s", describe(error))
            self._is_failing = True
            return
        self._is_failing = False
        leases = {call.lease for call in kept}
        self._undispatched &= leases
        self._ghosts = {lease: ghost for lease, ghost in self._ghosts.items() if lease in leases}
        self._served = {lease: served for lease, served in self._served.items() if lease in leases}
        lost = [call for call in kept if self._is_lost(call) or self._is_old(call)]
        expected = sum(1 for call in kept if self._is_of_ours(call) and call.owner == rescuer() and call not in lost)
        self._slots = self._worker.free_slots - expected
        limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)
        async with anyio.create_task_group() as tasks:
            for call in lost:
                tasks.start_soon(self._rescue, call, limiter)

    def note(self, note: JobAssigned | JobEnded) -> None:
        """Note that a job is about to begin in a process of this worker, or is over, while `keep_records()` runs."""
        if isinstance(note, JobEnded) and not note.is_process_lost:
            for waiting in self._notes:
                if isinstance(waiting, JobAssigned) and waiting.job.id == note.job_id:
                    self._notes.remove(waiting)  # the store is slow, and the call is over before its record was begun
                    return
        self._notes.append(note)
        self._noted.set()

    async def keep_records(self) -> None:
        """Make the records of jobs that are about to begin, and remove those that no job took over, until cancelled."""
        while True:
            while self._notes:
                note = self._notes.popleft()
                try:
                    with anyio.fail_after(STORE_LIMIT):
                        await self._keep_record(note)
                except Exception as error:  # noqa: BLE001 - as in look(); the job tries it too
                    logger.error("The record of a call that begins or ends: %s", describe(error))
            self._noted = anyio.Event()
            await self._noted.wait()

    async def _keep_record(self, note: JobAssigned | JobEnded) -> None:
        now = self._worker.clock.wall()
        if isinstance(note, JobAssigned):
            if not note.job.resumes:
                record = first_record(note.job, self._worker.account.url)
                await self._calls.write(replace(record, identity=identity_in(note.token), written_at=now))
        elif note.is_process_lost:
            lease = note.job_id
            await self._calls.claim(lease, owner=owner_of_job(lease), by=owner_of_lost_job(lease), at=now)
        else:
            await self._calls.remove(note.job_id, owner=owner_of_job(note.job_id))

    async def recall(self, wanted: NewDispatch) -> NewDispatch:
        """Return the dispatch to make in place of a lost one; if the lost call is kept, it names the call.

        The call may have been on another machine; all that is known then is that its agent is not in the room.
        """
        try:
            with anyio.fail_after(STORE_LIMIT):
                for call in await self._calls.read():
                    if (call.url, call.room, call.dispatch_id) == (self._worker.account.url, wanted.room, wanted.heals):
                        return await self._claimed_dispatch(call, wanted)
        except Exception as error:  # noqa: BLE001 - as in look(); the caller gets an agent without the past
            logger.error("The record of the call in room %s: %s", wanted.room, describe(error))
        return wanted

    async def _claimed_dispatch(self, found: RunningCall, wanted: NewDispatch) -> NewDispatch:
        call = await self._claim(found)
        if call is None:
            return wanted
        await self._count_dispatch(call)
        self._worker.post(CallClaimed(lease=call.lease, participant=call.participant))
        return replace(wanted, resumes=call.lease)

    async def _claim(self, found: RunningCall) -> RunningCall | None:
        """Return the record, now owned by this process, or None if another process has it."""
        with anyio.fail_after(STORE_LIMIT):
            return await self._calls.claim(found.lease, owner=found.owner, by=rescuer(), at=self._worker.clock.wall())

    async def _count_dispatch(self, call: RunningCall) -> None:
        """Count a dispatch, or a job of the worker's own, that is about to be made."""
        with anyio.fail_after(STORE_LIMIT):
            await self._calls.write(replace(call, dispatched=call.dispatched + 1, written_at=self._worker.clock.wall()))

    async def _forget(self, call: RunningCall) -> None:
        with anyio.fail_after(STORE_LIMIT):
            await self._calls.remove(call.lease, owner=call.owner)
        self._leave(call)

    def _leave(self, call: RunningCall) -> None:
        self._worker.post(CallLeft(lease=call.lease))

    def _is_drained_here(self, call: RunningCall) -> bool:
        """Return whether the worker drains and the call must continue in it without a dispatch: no worker takes an
        earlier one."""
        return call.lease in self._worker.status().lost_calls

    def _is_of_ours(self, call: RunningCall) -> bool:
        return call.url == self._worker.account.url and call.agent_name == self._worker.agent_name

    def _is_lost(self, call: RunningCall) -> bool:
        if not self._is_of_ours(call):
            return False
        if call.owner == rescuer():  # claimed here, and taken by no job
            is_left = call.lease in self._undispatched or self._is_drained_here(call)
            return is_left or self._worker.clock.wall() - call.written_at > TAKEN_WITHIN
        return has_ended(call.owner)

    def _is_old(self, call: RunningCall) -> bool:
        return self._is_of_ours(call) and self._worker.clock.wall() - call.written_at > OLD

    async def _rescue(self, call: RunningCall, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            try:
                present = await self._server.participants(call.room) or ()
                has_caller = any(_is_caller_of(call, one) for one in present)
                if has_caller and not self._is_lost(call):  # an old call that may still run
                    return
                served = self._served_for(call, present)
                if not has_caller or (served or 0.0) > SERVED_AFTER:
                    await self._forget_lost(call)
                elif served is not None:
                    return
                elif self._is_drained_here(call):
                    await self._dispatch(call, present)
                elif self._slots <= 0:  # another worker may have room for it, or this worker at a later look
                    await self._remove_ghost(call, present)
                    return
                else:
                    self._slots -= 1
                    await self._dispatch(call, present)
                self._undispatched.discard(call.lease)
            except VoiceError as error:
                self._failed("The call in room %s could not be dispatched again: %s", call, error)
            except Exception as error:  # noqa: BLE001 - as in look()
                self._failed("The record of the call in room %s: %s", call, error)

    def _ghost(self, call: RunningCall, present: tuple[ParticipantFacts, ...]) -> ParticipantFacts | None:
        """Return the dead agent. If its sid is not known, that is the first agent with its identity."""
        owner, removed = self._ghosts.get(call.lease, ("", ""))
        sid = call.sid or (removed if call.owner in (owner, rescuer()) else "")  # if not, a job has had the call since
        return next((one for one in present if one.identity == call.identity and sid in ("", one.sid)), None)

    def _served_for(self, call: RunningCall, present: tuple[ParticipantFacts, ...]) -> float | None:
        """Return the seconds since another agent joined the call, or None without one."""
        names = {call.identity}
        if not call.participant:  # if not, the dispatch is for the agents of all participants
            template = self._worker.options.identity
            names |= {agent_identity(one, job_id=call.dispatch_id, room=call.room) for one in (None, template)}
        ghost = self._ghost(call, present)
        if not any(one.is_agent and one.identity in names and one is not ghost for one in present):
            self._served.pop(call.lease, None)
            return None
        now = self._worker.clock.now()
        owner, since = self._served.get(call.lease, ("", now))
        if owner != call.owner:
            since = now
        self._served[call.lease] = call.owner, since
        return now - since

    async def _remove_ghost(self, call: RunningCall, present: tuple[ParticipantFacts, ...]) -> None:
        """Remove the dead agent: while a server lists it, workers of other machines heal nothing in the room."""
        if (ghost := self._ghost(call, present)) is not None:
            self._ghosts[call.lease] = call.owner, ghost.sid
            await self._server.remove(call.room, ghost.identity)

    async def _forget_lost(self, found: RunningCall) -> None:
        if (call := await self._claim(found)) is not None:  # if not, another worker has the call
            await self._forget(call)
        else:
            self._leave(found)

    def _failed(self, text: str, call: RunningCall, error: Exception) -> None:
        level = logging.DEBUG if call.lease in self._undispatched else logging.ERROR  # every look tries again
        self._undispatched.add(call.lease)
        logger.log(level, text, call.room, describe(error))

    async def _dispatch(self, found: RunningCall, present: tuple[ParticipantFacts, ...]) -> None:
        """Dispatch a call again, or have the worker run its job; `present` are the participants in its room."""
        call = await self._claim(found)
        if call is None:  # another worker has the call
            self._leave(found)
            return
        await self._remove_ghost(found, present)
        if call.dispatched >= self._safety.max_dispatches:
            logger.error(
                "The call in room %s was dispatched again %d times and is given up", call.room, call.dispatched
            )
            await self._forget(call)
            return
        await self._count_dispatch(call)
        wanted = NewDispatch(
            room=call.room,
            agent_name=call.agent_name,
            metadata=call.metadata,
            attributes=call.attributes,
            heals=call.dispatch_id,
            resumes=call.lease,
        )
        if self._is_drained_here(call):
            logger.warning("The process of the call in room %s has died: the call goes on in this worker", call.room)
            self._worker.post(
                JoinRequested(assigned=own_assignment(self._worker, wanted, participant=call.participant))
            )
            return
        self._worker.post(CallClaimed(lease=call.lease, participant=call.participant))
        made = await self._server.dispatch(wanted)
        logger.warning(
            "The process of the call in room %s has died: the call is dispatched again (%s)", call.room, made
        )


def _is_caller_of(call: RunningCall, one: ParticipantFacts) -> bool:
    return one.identity == call.participant if call.participant else one.is_caller

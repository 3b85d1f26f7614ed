"""Healer: feeds `Healing` with the facts of the server's rooms and carries out its effects."""

from __future__ import annotations

import logging
import math
import random
from collections import deque
from collections.abc import Awaitable, Callable
from typing import assert_never

import anyio

from vivavoce.agents.worker import healing as h
from vivavoce.agents.worker.agent_token import identity_in
from vivavoce.agents.worker.effects import JobEnded, JoinRequested
from vivavoce.agents.worker.own_job import own_assignment
from vivavoce.agents.worker.protocol import JobAssigned
from vivavoce.agents.worker.room_facts import NewDispatch
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.errors import WorkerError, describe

logger = logging.getLogger(__name__)

SIDE_BY_SIDE = 8
"""Calls of the server's API at the same time."""

REST = 2.0
"""Seconds until a worker that takes no jobs now is asked again whether it does."""


class Healer:
    """Heals the lost dispatches of one worker's name.

    Args:
        server: The server's API.
        worker: Its worker.
        recall: Adds the kept call to a dispatch that is made in the place of a lost one; None: no call is kept.
    """

    def __init__(
        self,
        server: ServerApi,
        worker: WorkerView,
        *,
        recall: Callable[[NewDispatch], Awaitable[NewDispatch]] | None,
    ) -> None:
        self._server = server
        self._worker = worker
        self._recall = recall
        may_join = worker.options.on_request is None
        self._healing = h.Healing(worker.agent_name, random.random, may_join=may_join)
        self._inputs: deque[h.Input] = deque()
        self._news = anyio.Event()
        self._limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)
        self._is_failing = False
        self._running = 0
        """Effects that are carried out."""
        self._step_done = anyio.Event()

    def look_now(self) -> None:
        """The server has registered the worker."""
        self._put(h.LookNow())

    def job_taken(self, assigned: JobAssigned) -> None:
        """The worker runs a job."""
        job = assigned.job
        root = job.heals or job.dispatch_id
        taken = h.JobTaken(job_id=job.id, room=job.room, dispatch_id=root, identity=identity_in(assigned.token))
        self._put(taken)

    def job_over(self, ended: JobEnded) -> None:
        """A job of the worker is over."""
        # With crash safety `Rescue` removes it, before it dispatches the call again.
        has_ghost = ended.is_process_lost and self._worker.options.crash_safety is None
        has_failed, is_replaced = bool(ended.error), ended.is_replaced
        self._put(h.JobOver(job_id=ended.job_id, has_failed=has_failed, has_ghost=has_ghost, is_replaced=is_replaced))

    async def run(self) -> None:
        """Heal until cancelled."""
        async with anyio.create_task_group() as tasks:
            while True:
                input = await self._next_input()
                for effect in self._healing.handle(input, now=self._worker.clock.now()):
                    self._running += 1
                    tasks.start_soon(self._do, effect)
                self._step_done.set()

    async def settle(self) -> None:
        """Wait until everything that was noted has had its effects; `run()` runs, and the caller limits the wait."""
        while self._inputs or self._running:
            self._step_done = anyio.Event()
            await self._step_done.wait()

    def _put(self, input: h.Input) -> None:
        self._inputs.append(input)
        self._news.set()

    async def _next_input(self) -> h.Input:
        while not self._inputs:
            self._news = anyio.Event()
            deadline = self._healing.next_deadline()
            wait = math.inf if deadline is None else max(0.0, deadline - self._worker.clock.now())
            with anyio.move_on_after(wait if self._may_look() else max(wait, REST)) as scope:
                await self._news.wait()
            if scope.cancelled_caught and self._may_look():
                return h.TimePassed()
        return self._inputs.popleft()

    def _may_look(self) -> bool:
        status = self._worker.status()
        return status.is_registered and not status.is_draining

    async def _do(self, effect: h.Effect) -> None:
        async with self._limiter:
            try:
                await self._carry_out(effect)
            except WorkerError as error:
                if not self._is_failing:
                    logger.warning("Callers without an agent cannot be looked for now: %s", describe(error))
                self._is_failing = True
                if isinstance(effect, h.LookAt):
                    self._put(h.LookFailed(room=effect.room))
            else:
                self._is_failing = False
            finally:
                self._running -= 1
                self._step_done.set()

    async def _carry_out(self, effect: h.Effect) -> None:
        match effect:
            case h.ListRooms():
                self._put(h.RoomsListed(rooms=await self._server.rooms()))
            case h.LookAt(room=room):
                self._put(await self._look_at(room))
            case h.DispatchAgain(wanted=wanted):
                made = await self._server.dispatch(await self._recalled(wanted))
                self._put(h.DispatchMade(room=wanted.room, heals=wanted.heals, dispatch_id=made))
                logger.warning(
                    "Room %s has a caller and no agent: dispatch %s was lost and is made again (%s)",
                    wanted.room,
                    wanted.heals,
                    made,
                )
            case h.JoinItself(wanted=wanted):
                self._join(await self._recalled(wanted))
            case h.RemoveGhost(room=room, identity=identity):
                await self._server.remove(room, identity)
                logger.warning("Room %s: the dead agent %s is removed", room, identity)
            case h.DeleteDispatch(room=room, dispatch_id=dispatch_id):
                await self._server.delete_dispatch(room, dispatch_id)
            case h.GiveUp(room=room, dispatch_id=dispatch_id):
                logger.error(
                    "Room %s has a caller and no agent: %d jobs in the place of %s have failed; see their errors",
                    room,
                    h.MAX_JOBS,
                    dispatch_id,
                )
            case _:
                assert_never(effect)

    async def _recalled(self, wanted: NewDispatch) -> NewDispatch:
        return wanted if self._recall is None else await self._recall(wanted)

    async def _look_at(self, room: str) -> h.RoomSeen:
        participants = await self._server.participants(room)
        has_caller = any(one.is_caller for one in participants or ())
        dispatches = await self._server.dispatches(room) if has_caller else ()
        can_take = self._worker.status().takes_jobs
        return h.RoomSeen(room=room, participants=participants, dispatches=dispatches, can_take=can_take)

    def _join(self, wanted: NewDispatch) -> None:
        logger.warning(
            "Room %s has a caller and no agent: dispatches lead to no job, this worker joins it", wanted.room
        )
        self._worker.post(JoinRequested(assigned=own_assignment(self._worker, wanted)))

"""Rescue: finds the calls whose processes have died, and dispatches each of them again, once.

The records of the checkpoint store name the process of each call. A call of a dead process is claimed in the store,
so that one worker has it; the dead agent's ghost is removed from the room, and a dispatch is made that names the call.
The worker that claimed the call takes its job, since it can read the record. A call without a caller is forgotten.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import anyio

from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.owner import has_ended, rescuer
from vivavoce.agents.worker.room_facts import NewDispatch
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import VoiceError, describe

logger = logging.getLogger(__name__)

INTERVAL = 2.0
"""Seconds between two looks at the store."""

TAKEN_WITHIN = 10.0
"""Seconds in which a job must take a call that was dispatched again; then it is dispatched once more."""

STORE_LIMIT = 5.0
"""Seconds for one call of the store."""

SIDE_BY_SIDE = 8
"""Calls that are dispatched again at the same time."""


class Rescue:
    """Rescues the calls of one agent name on one server.

    Args:
        server: The server's API.
        url: The server, as the records name it.
        agent_name: The name that the worker registers.
        safety: Option of the worker.
        claimed: Called with the lease of a call before it is dispatched again.
        clock: Its wall time dates the records.
    """

    def __init__(
        self,
        server: ServerApi,
        *,
        url: str,
        agent_name: str,
        safety: CrashSafety,
        claimed: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self._server = server
        self._url = url
        self._agent_name = agent_name
        self._safety = safety
        self._claimed = claimed
        self._clock = clock
        self._is_failing = False

    @property
    def _store(self) -> CheckpointStore:
        return self._safety.store

    async def look(self) -> None:
        """Dispatch the calls again whose processes have died. After a failure the next look tries again."""
        try:
            with anyio.fail_after(STORE_LIMIT):
                lost = [call for call in await self._store.read() if self._is_lost(call)]
        except Exception as error:  # noqa: BLE001 - a store is foreign code and disks fail; the worker goes on
            if not self._is_failing:
                logger.error("The records of running calls cannot be read: %s", describe(error))
            self._is_failing = True
            return
        self._is_failing = False
        limiter = anyio.CapacityLimiter(SIDE_BY_SIDE)
        async with anyio.create_task_group() as tasks:
            for call in lost:
                tasks.start_soon(self._rescue, call, limiter)

    async def recall(self, wanted: NewDispatch) -> NewDispatch:
        """Return a dispatch that is made in the place of a lost one; it names the lost call if that is kept.

        Such a call may have been on another machine, of which only its absence from the room is known.
        """
        try:
            with anyio.fail_after(STORE_LIMIT):
                for call in await self._store.read():
                    if (call.url, call.room, call.dispatch_id) == (self._url, wanted.room, wanted.heals):
                        return await self._claimed_dispatch(call, wanted)
        except Exception as error:  # noqa: BLE001 - as in look(); the caller gets an agent without the past
            logger.error("The record of the call in room %s: %s", wanted.room, describe(error))
        return wanted

    async def _claimed_dispatch(self, found: Checkpoint, wanted: NewDispatch) -> NewDispatch:
        now = self._clock.wall()
        call = await self._store.claim(found.lease, owner=found.owner, by=rescuer(), at=now)
        if call is None:
            return wanted
        await self._store.write(replace(call, dispatched=call.dispatched + 1))
        self._claimed(call.lease)
        return replace(wanted, resumes=call.lease)

    def _is_lost(self, call: Checkpoint) -> bool:
        if call.url != self._url or call.agent_name != self._agent_name:
            return False
        if call.owner == rescuer():  # claimed here, and taken by no job
            return self._clock.wall() - call.written_at > TAKEN_WITHIN
        return has_ended(call.owner)

    async def _rescue(self, call: Checkpoint, limiter: anyio.CapacityLimiter) -> None:
        async with limiter:
            try:
                await self._dispatch(call)
            except VoiceError as error:
                logger.error("The call in room %s could not be dispatched again: %s", call.room, describe(error))
            except Exception as error:  # noqa: BLE001 - as in look()
                logger.error("The record of the call in room %s: %s", call.room, describe(error))

    async def _dispatch(self, found: Checkpoint) -> None:
        now = self._clock.wall()
        call = await self._store.claim(found.lease, owner=found.owner, by=rescuer(), at=now)
        if call is None:  # another worker has it
            return
        present = await self._server.participants(call.room)
        if not any(one.is_caller for one in present or ()):
            await self._store.remove(call.lease, owner=call.owner)
            return
        if any(one.identity == call.identity for one in present or ()):
            await self._server.remove(call.room, call.identity)
        if call.dispatched >= self._safety.max_dispatches:
            logger.error(
                "The call in room %s was dispatched again %d times and is given up", call.room, call.dispatched
            )
            await self._store.remove(call.lease, owner=call.owner)
            return
        await self._store.write(replace(call, dispatched=call.dispatched + 1))
        self._claimed(call.lease)
        wanted = NewDispatch(
            room=call.room,
            agent_name=call.agent_name,
            metadata=call.metadata,
            attributes=call.attributes,
            heals=call.dispatch_id,
            resumes=call.lease,
        )
        made = await self._server.dispatch(wanted)
        logger.warning(
            "The process of the call in room %s has died: the call is dispatched again (%s)", call.room, made
        )

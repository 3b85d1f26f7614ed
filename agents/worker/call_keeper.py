"""CallKeeper: keeps the record of one job's call, so that another process can continue the call."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from contextvars import Context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import events
from vivavoce.agents.history.open_work import OpenWork
from vivavoce.agents.job import JobControl, JobInfo
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.session_watch import Conversation, Keep
from vivavoce.agents.worker.crash_safety import CrashSafety, first_record
from vivavoce.agents.worker.options import WorkerOptions, server_url
from vivavoce.agents.worker.owner import is_of_job, owner_of_lost_job
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError, describe

if TYPE_CHECKING:
    from tenacity import RetryCallState

logger = logging.getLogger(__name__)

STORE_LIMIT = 2.0
"""Seconds for a call of the store at the begin and the end of a job."""

MAKING_FAILED = "job %s is not kept for a crash, the next turn tries again: %s"
PAST_FAILED = "job %s does not know the past of the call that it continues: %s"
GIVING_BACK_FAILED = "job %s has not continued its call, and the next job may not know the past of it: %s"
REMOVING_FAILED = "job %s is over and its record is still in the store, which is asked again: %s"
"""A line of the log, for the job's id and the error."""

REMOVE_WAIT = 10.0
"""Seconds from the first to the second attempt to remove the record of a call that is over; each later wait is
doubled."""

REMOVE_MAX_WAIT = 300.0
"""Longest wait between two of these attempts, in seconds."""

REMOVE_TRIES = 16
"""The number of these attempts; the last comes after about an hour."""


class CallKeeper:
    """Keeps the record of one job's call in the store, and watches the job's sessions.

    The record belongs to the newest session in the job's room. A store that fails never ends the call: each failure is
    one line in the log, and in a session also an `error` event.

    Args:
        job: Facts of the job.
        safety: Option of the worker.
        url: The worker's server.
        agent: Returns the agent's identity in its room, and its sid there, empty before it has joined.
        continues: Called with the conversation that the job continues.
        clock: Its wall time dates the record.
    """

    publishes_turns = False

    def __init__(
        self,
        job: JobInfo,
        safety: CrashSafety,
        *,
        url: str,
        agent: Callable[[], tuple[str, str]],
        continues: Callable[[Conversation], None],
        clock: Clock,
    ) -> None:
        self._job = job
        self._safety = safety
        self._agent = agent
        self._continues = continues
        self._clock = clock
        self._lock = anyio.Lock()
        self._is_over = False
        self._conversation: Conversation | None = None
        self._session: AgentSession[Any] | None = None
        self._has_taken_over = False
        self._has_started = False
        """Whether a session of the job has started."""
        self._keepers = 0
        self._call = first_record(job, url)
        self._has_record = False
        """Whether the record is known to be this job's."""

    # --- the record

    async def begin(self, tasks: TaskGroup) -> None:
        """Take the record of the call that the job continues, within 2 s; for a new call, make one by a task in
        `tasks`."""
        if self._job.resumes:
            await self._within_limit(PAST_FAILED, self._take)
        else:
            tasks.start_soon(self._within_limit, MAKING_FAILED, self._make)

    def end(self, tasks: TaskGroup, *, after: float = 0.0) -> None:
        """Remove the record by a task in `tasks`, after so many seconds, since the call is over.

        If the store fails, the task tries again for an hour. It has only the names of the call, and a context of its
        own, so that it keeps neither the job nor the session alive.
        """
        self._is_over = True
        _task = Context().run(
            tasks.start_soon, _remove, after, self._calls, self._lock, self._job.id, self._call.lease, self._call.owner
        )

    @property
    def is_to_continue(self) -> bool:
        """Whether the job is to continue a call, and none of its sessions has started."""
        return self._job.resumes != "" and not self._has_started

    async def give_back(self) -> None:
        """Leave the record, within 2 s, as if the call's process had died, so that a worker dispatches the call
        again."""
        self._is_over = True
        await self._within_limit(GIVING_BACK_FAILED, self._release)

    async def _release(self) -> None:
        async with self._lock:
            lost = owner_of_lost_job(self._job.id)
            await self._calls.claim(self._call.lease, owner=self._call.owner, by=lost, at=self._clock.wall())

    async def _make(self) -> None:
        async with self._lock:
            if not self._is_over:
                await self._write(self._call)

    async def _take(self) -> None:
        lease = self._call.lease
        owners = [one.owner for one in await self._calls.read() if one.lease == lease]
        now = self._clock.wall()
        kept = await self._calls.claim(lease, owner=owners[0], by=self._call.owner, at=now) if owners else None
        if kept is None:
            raise WorkerError(f"there is no record {lease!r}")
        self._call, self._has_record = kept, True
        if kept.conversation:
            self._conversation = json.loads(kept.conversation)
            self._continues(self._conversation)
        await self._write(kept)  # the record named the dead agent

    async def _write(self, call: RunningCall) -> None:
        """Write the record. The worker may have made it while the job came to this process; then take it over."""
        self._call = self._dated(call)
        await self._calls.write(self._call)
        if self._has_record:
            return
        lease, owner = self._call.lease, self._call.owner
        for made in await self._calls.read():
            if made.lease == lease and made.owner != owner and is_of_job(made.owner, self._job.id):
                await self._calls.claim(lease, owner=made.owner, by=owner, at=self._call.written_at)
                self._call = replace(self._call, identity=self._call.identity or made.identity)
                await self._calls.write(self._call)
        self._has_record = True

    async def _within_limit(self, failure: str, call: Callable[[], Awaitable[None]]) -> None:
        """Call the store within the limit; a failure is a line in the log."""
        try:
            with anyio.move_on_after(STORE_LIMIT, shield=True) as scope:
                await call()
            if scope.cancelled_caught:
                self._is_late(failure)
        except Exception as error:  # noqa: BLE001 - a store is foreign code and disks fail; the call goes on
            _log_failure(failure, self._job.id, error)

    def _is_late(self, failure: str) -> None:
        if failure == MAKING_FAILED:
            logger.warning("job %s: the store of calls is late; the call is kept when it answers", self._job.id)
        else:
            logger.error(failure, self._job.id, f"the store of calls did not answer within {STORE_LIMIT:g} s")

    def _dated(self, call: RunningCall) -> RunningCall:
        identity, sid = self._agent()
        return replace(call, written_at=self._clock.wall(), identity=identity or call.identity, sid=sid)

    @property
    def _calls(self) -> CallsInStore:
        return self._safety.calls

    # --- the watch

    @property
    def has_conversation(self) -> bool:
        """Whether the next session continues the call."""
        return self._conversation is not None and self._safety.resumes and not self._has_taken_over

    def session_begins(self, session: AgentSession[Any]) -> None:
        """Note the session. If it continues the call, let it speak the sentence."""
        session.on(events.Started, self._starts)
        if self.has_conversation:
            self._session = session
            session.on(events.Started, partial(self._says, session))
            session.on(events.Closed, self._closes)

    async def take_over(self, check: Callable[[Conversation], object]) -> Conversation | None:
        """Return the conversation, or None if the session cannot continue it."""
        self._has_taken_over = True
        assert self._conversation is not None, "there is one, see has_conversation"
        assert self._session is not None, "session_begins() comes first"
        agent = self._session.agent.id
        if (was := self._conversation.get("agent")) != agent:
            logger.warning("job %s: the call was with agent %s and goes on with %s", self._job.id, was, agent)
        conversation = {**self._conversation, "agent": agent}
        try:
            check(conversation)
        except ConfigurationError as error:
            logger.error("job %s cannot continue the call and begins anew: %s", self._job.id, describe(error))
            self._conversation = None
            return None
        return conversation

    def keeper(self, room: str) -> Keep | None:
        """Return the call that keeps the conversation of the starting session, if the session is in the job's room."""
        if room != self._job.room:
            return None
        self._keepers += 1
        return partial(self._keep, self._keepers)

    async def _keep(self, number: int, conversation: str) -> None:
        async with self._lock:
            if not self._is_over and number == self._keepers:
                await self._write(replace(self._call, conversation=conversation))

    @property
    def _session_answers(self) -> bool:
        """Whether the session begins with the answer to a turn that had none."""
        return self._conversation is not None and bool(OpenWork.read(self._conversation.get("open")).turn_id)

    def _starts(self, _: events.Started) -> None:
        self._has_started = True

    def _closes(self, _: events.Closed) -> None:
        self._has_taken_over = self._has_started  # else the start has failed, and the next session may continue

    def _says(self, session: AgentSession[Any], _: events.Started) -> None:
        sentence, capabilities = self._safety.sentence, session.pipeline.capabilities
        if not sentence.strip() or self._conversation is None or self._session_answers:
            return
        instructions = f"Say exactly this to the caller: {sentence}"
        _speech = session.say(sentence) if capabilities.can_say else session.reply(instructions)


async def _remove(after: float, calls: CallsInStore, lock: anyio.Lock, job_id: str, lease: str, owner: str) -> None:
    """Remove a record. If the store stays out of reach, a later look for lost calls removes it, after the process has
    ended."""
    from tenacity import AsyncRetrying, stop_after_attempt, wait_exponential

    def failed(state: RetryCallState) -> None:
        error = None if state.outcome is None else state.outcome.exception()
        if state.attempt_number == 1 and error is not None:
            _log_failure(REMOVING_FAILED, job_id, error)

    async def attempt() -> None:
        with anyio.fail_after(STORE_LIMIT, shield=True):
            async with lock:  # a turn may still be written
                await calls.remove(lease, owner=owner)

    if after:
        await anyio.sleep(after)
    wait = wait_exponential(multiplier=REMOVE_WAIT, max=REMOVE_MAX_WAIT)
    retrying = AsyncRetrying(
        wait=wait, stop=stop_after_attempt(REMOVE_TRIES), after=failed, sleep=anyio.sleep, reraise=True
    )
    try:
        await retrying(attempt)
    except Exception as error:  # noqa: BLE001 - as for _within_limit()
        logger.error(
            "job %s: its record stays in the store, since this failed for an hour: %s", job_id, describe(error)
        )


def _log_failure(failure: str, job_id: str, error: BaseException) -> None:
    logger.error(failure, job_id, describe(error))
    logger.debug("the store failed", exc_info=error)


def call_keeper(control: JobControl, options: WorkerOptions) -> CallKeeper | None:
    """Return the keeper of a job's call, or None if the worker keeps none."""
    if options.crash_safety is None:
        return None
    return CallKeeper(
        control.job,
        options.crash_safety,
        url=server_url(options),
        agent=lambda: (control.identity, control.sid),
        continues=control.continues,
        clock=LoopClock(),
    )

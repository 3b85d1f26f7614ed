"""One job, from the first line of its entrypoint until it has left its room.

The end of a job has these steps, each limited: its sessions close; the entrypoint may return (it may be waiting for a
session to close, and then save data); sessions that it started meanwhile close; the shutdown callbacks run; the agent
leaves the room. Leaving comes last and always: a participant whose process just vanishes stays visible for 20 s, and
livekit's native code may abort. If the job ends with its last session, the agent leaves first, since a mute agent is of
no use to the caller while the entrypoint saves data.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import partial

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from vivavoce.agents.current_job import job_scope
from vivavoce.agents.job import NEXT_SESSION_STEPS, JobContext, JobControl
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.logs.logs import LOCAL
from vivavoce.agents.telemetry.telemetry import TelemetryControl
from vivavoce.agents.telemetry.tracing.job_span import AddEvent, job_span
from vivavoce.agents.worker.call_keeper import call_keeper
from vivavoce.agents.worker.job import LEAVE_LIMIT
from vivavoce.agents.worker.loop_watch import Blockage
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import VoiceError, describe, located, own_traceback
from vivavoce.pipelines.core.owned_call import OwnedCall, finish_all

logger = logging.getLogger(__name__)

API_CLOSE_LIMIT = 2.0
"""Seconds for closing the connections to the server API."""

TELL_LIMIT = 5.0
"""Seconds for showing a room that the job's code failed, joining it included."""

RECALLED_WITHIN = 60.0
"""Seconds for which the record of a call is kept whose connection broke; a worker that heals the call takes it."""

CUT_CLOSE_LIMIT = 2.0
"""Seconds for closing sessions when the worker itself is cancelled."""

NO_SESSION = (
    "the entrypoint has returned without a session; "
    "await AgentSession(…).start(), or ctx.connect() for a job without one"
)


class JobRun:
    """Runs one job.

    Args:
        control: The job's state.
        entrypoint: Entrypoint of the user.
        options: Options of the worker; its limits.
        tasks: Task group for the work beside the entrypoint.
        telemetry: Destination of the spans of the job and its sessions.
        shows_error: Whether the caller shows `error` to a person, so that the log need not repeat it.
    """

    def __init__(
        self,
        control: JobControl,
        entrypoint: Callable[[JobContext], Awaitable[None]],
        options: WorkerOptions,
        tasks: TaskGroup,
        telemetry: TelemetryControl | None = None,
        *,
        shows_error: bool = False,
    ) -> None:
        self._telemetry = telemetry
        self._shows_error = shows_error
        self._control = control
        self._options = options
        self._tasks = tasks
        self._is_forced = False
        self._error = ""
        self._closed_by = ""
        self._failure: BaseException | None = None
        self._add_event: AddEvent | None = None
        self._id = control.job.id
        self._keeper = call_keeper(control, options)
        self._entrypoint = OwnedCall(f"the entrypoint of job {self._id}", partial(self._call, entrypoint), self._failed)

    @property
    def error(self) -> str:
        """Why the job failed; empty if it succeeded."""
        return self._error

    @property
    def is_replaced(self) -> bool:
        """Whether another agent with its identity took its place in the room."""
        return self._control.is_replaced

    def end(self, reason: str, *, is_forced: bool) -> None:
        """End the job; forced, its entrypoint is cancelled at once."""
        self._control.end(reason)
        if is_forced:
            self._is_forced = True
            self._entrypoint.cut()

    def loop_was_blocked(self, blockage: Blockage) -> None:
        """Note on the job's span that the event loop was blocked, by this job or by another one of the process."""
        if self._add_event is not None:
            attributes: dict[str, str | float] = {
                "vivavoce.blocked.seconds": blockage.seconds,
                "vivavoce.blocked.stack": blockage.stack,
            }
            self._add_event("event_loop_blocked", attributes)

    async def run(self) -> None:
        """Run the job to its end; an error of the job's code is kept in `error`."""
        began_at, gives_back = LoopClock().now(), False
        logger.info("job %s: begins in room %s", self._id, self._control.job.room)
        try:
            with (
                job_scope(self._control),
                job_span(self._telemetry, self._control.job, self._failure_reason) as self._add_event,
                nullcontext() if self._keeper is None else watch_scope(self._keeper),
            ):
                if self._keeper is not None:
                    await self._keeper.begin(self._tasks)
                self._tasks.start_soon(self._entrypoint.run)
                await self._control.wait_ended()
                if self._control.is_cut_off:
                    self._error = self._closed_by = f"the connection to the room broke ({self._control.reason})"
                if (last := self._control.last_close) is not None:
                    if last.reason == CloseReason.ERROR:
                        self._error = self._closed_by = last.error or "the session closed by errors"
                if self._keeper is not None:
                    gives_back = bool(self._error) and self._keeper.is_to_continue
                    if not gives_back:  # a slow disk does not hold up the end of the call
                        self._keeper.end(self._tasks, after=RECALLED_WITHIN if self._control.is_cut_off else 0.0)
                logger.debug("job %s: ends (%s)", self._id, self._failure_reason() or self._control.reason)
                if self._error and self._control.shows_failure:
                    await self._tell_failure(self._error)
                if last is not None:
                    await self._leave_room()
                await self._close_sessions()
                await self._entrypoint.finish(0.0 if self._is_forced else self._options.entrypoint_timeout)
                await self._close_sessions()
                await self._run_callbacks()
        finally:
            await self._leave()
            await self._close_api()
        if self._keeper is not None and gives_back:  # the agent has left: the next one is not taken for it
            await self._keeper.give_back()
        outcome = f"failed: {self._error}" if self._error else self._control.reason
        logger.info("job %s: over after %.1f s, %s", self._id, LoopClock().now() - began_at, outcome)

    async def _call(self, entrypoint: Callable[[JobContext], Awaitable[None]]) -> None:
        await entrypoint(self._control.context)
        self._control.entrypoint_returned()
        for _ in range(NEXT_SESSION_STEPS):  # a task of the entrypoint may start a session now
            await anyio.lowlevel.checkpoint()
        if not (self._control.has_purpose or self._control.reason):
            self._error = self._closed_by = NO_SESSION
            logger.log(logging.INFO if self._shows_error else logging.WARNING, "job %s: %s", self._id, NO_SESSION)
            self._control.end(NO_SESSION)

    async def _close_sessions(self) -> None:
        reason = self._control.reason
        await self._call_all("closing a session", [partial(close, reason) for close in self._control.take_sessions()])

    async def _run_callbacks(self) -> None:
        reason = self._control.reason
        calls = [partial(_awaited, callback, reason) for callback in self._control.take_callbacks()]
        await self._call_all("a shutdown callback", calls)

    async def _call_all(self, what: str, calls: Sequence[Callable[[], Awaitable[object]]]) -> None:
        owned = [OwnedCall(f"{what} of job {self._id}", call) for call in calls]
        for call in owned:
            self._tasks.start_soon(call.run)
        await finish_all(owned, self._options.job_close_timeout)

    async def _leave(self) -> None:
        with anyio.move_on_after(CUT_CLOSE_LIMIT, shield=True):
            for close in self._control.take_sessions():  # left over only when this task was cancelled
                await OwnedCall(
                    f"closing a session of job {self._id}", partial(close, "the worker was cancelled")
                ).run()
        await self._leave_room()

    async def _tell_failure(self, error: str) -> None:
        tell = partial(self._control.tell_failure, error)
        call = OwnedCall(f"showing the room the error of job {self._id}", tell, is_shielded=True)
        self._tasks.start_soon(call.run)
        await call.finish(TELL_LIMIT)

    async def _leave_room(self) -> None:
        with anyio.move_on_after(LEAVE_LIMIT, shield=True) as scope:
            await OwnedCall(f"leaving the room of job {self._id}", self._control.leave).run()
        if scope.cancelled_caught:
            logger.error("job %s: leaving the room took longer than %.1f s", self._id, LEAVE_LIMIT)

    async def _close_api(self) -> None:
        with anyio.move_on_after(API_CLOSE_LIMIT, shield=True):
            await OwnedCall(f"closing the server API of job {self._id}", self._control.server.aclose).run()

    def _failure_reason(self) -> str:
        return self._closed_by if self._failure is None else describe(self._failure)

    def _failed(self, error: BaseException) -> None:
        # A VoiceError after the job's end is the expected way for an entrypoint to stop.
        if self._control.reason and isinstance(error, VoiceError):
            logger.info("job %s: the entrypoint stopped: %s", self._id, describe(error))
            return
        self._failure, self._error = error, describe(error, quotes_foreign=True)
        logger.error("job %s: the entrypoint failed: %s", self._id, located(error))
        logger.error("job %s: the error of its code:\n%s", self._id, own_traceback(error), extra=LOCAL)
        logger.debug("job %s: the entrypoint failed here", self._id, exc_info=error)
        self._control.end(f"the entrypoint failed: {self._error}")


async def _awaited(callback: Callable[[str], Awaitable[None] | None], reason: str) -> None:
    result = callback(reason)
    if inspect.isawaitable(result):
        await result

"""SessionLifecycle: the session's one task, from the first step of the start to the last of the close.

A session has one way out, whether its start failed, was cut or succeeded:

1. `SessionStart.run()` (start.py) runs the steps of the start inside a scope that the request of the close cancels.
2. The close is requested, once: by a step of the start that fails, by the cancellation of `start()`, by `close()` and
   `leave()`, by the room, by the turn machine, or by a crash of the task.
3. `SessionClose.run()` (close.py) runs a step for each part that is open, shielded and within `close_timeout`. This is
   how a start is rolled back.
4. `start()`, which waits for the end of step 1 or 3, returns, or raises the failure of the start.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.core.call_site import SessionSite, call_site
from vivavoce.agents.current_job import has_job_ended
from vivavoce.agents.records import CloseReport
from vivavoce.agents.session.life.close import SessionClose
from vivavoce.agents.session.life.joining import Joining, StartPlan
from vivavoce.agents.session.life.start import SessionStart
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.destination import observer_for, telemetry_for
from vivavoce.agents.telemetry.facts import session_facts
from vivavoce.agents.telemetry.logs.logs import log_session
from vivavoce.agents.telemetry.observer import SessionObserver
from vivavoce.pipelines.core.async_library import name_async_library
from vivavoce.pipelines.core.errors import SessionClosedError, SessionNotStartedError, describe, first_error
from vivavoce.pipelines.core.incidents import on_fallback

if TYPE_CHECKING:
    from livekit import rtc

    from vivavoce.agents.transports.options import RoomOptions
    from vivavoce.pipelines.io import Transport

logger = logging.getLogger(__name__)


class SessionLifecycle:
    """Starts and closes a session, once, and waits for both."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._context = parts.context
        # Made here: it takes 0.5 s, for which no call should wait.
        self._telemetry = telemetry_for(parts.options.telemetry)
        loop = SessionLoop(parts)
        self._start = SessionStart(parts, loop)
        self._close = SessionClose(parts, loop, self._start)
        self._crash: BaseException | None = None
        self._ready = anyio.Event()
        """Set when the start is done, or the close of one that failed."""
        self._task: asyncio.Task[None] | None = None

    @property
    def report(self) -> CloseReport | None:
        return self._close.report

    # --- for the callers of the session, in tasks of their own

    async def start(
        self,
        room: rtc.Room | Transport | None,
        participant: str | None,
        room_options: RoomOptions | None,
        resume_from: Mapping[str, Any] | None,
    ) -> None:
        """Start the session's task, and wait until its start is done; raises as `AgentSession.start`."""
        plan = Joining(self._parts).plan(room, participant, room_options, resume_from)
        self._context.start(self._observer(), room=plan.room, job_id=plan.job_id)
        # The one task of the session; anyio's groups belong to the task that enters and leaves them, so start() and
        # close() cannot hold one.
        self._task = asyncio.create_task(self._main(plan), name=f"session {self._context.id}")
        try:
            await self._ready.wait()
        except BaseException:
            failed = CloseReason.JOB_ENDED if has_job_ended() else CloseReason.START_FAILED
            self._context.closing.request(failed)
            with anyio.CancelScope(shield=True):  # bounded by close_timeout
                await self._join()
            raise
        failure = self._start.failure or self._crash
        if failure is not None or self._context.closing.is_asked:
            await self._join()
        if failure is not None:
            raise failure

    def _observer(self) -> SessionObserver:
        context, options, switch = self._context, self._parts.options, self._parts.pipelines.switch
        return observer_for(
            self._telemetry,
            session_id=context.id,
            clock=context.clock,
            parts=switch.pipeline.capabilities.components,
            facts=lambda: session_facts(context.live.agent, switch.pipeline, options, context.log.room),
            capture_content=options.capture_content,
        )

    async def close(self, reason: CloseReason, *, leaves: bool = False) -> CloseReport:
        """Close the session, and wait for the end of the close; raises as `AgentSession.close`."""
        if not self._context.inbox.is_bound:
            return await self._close_unstarted(reason)
        self._context.check_may_await_close()
        self._context.request_close(reason, leaves=leaves)
        return await self._join()

    async def _close_unstarted(self, reason: CloseReason) -> CloseReport:
        if self._close.report is None:
            await self._close.run_unstarted(reason)
            self._end()
        assert self._close.report is not None
        return self._close.report

    async def wait_closed(self) -> CloseReport:
        """Wait for the end of the close; raises as `AgentSession.wait_closed`."""
        if not self._context.inbox.is_bound:
            if self._close.report is None:
                raise SessionNotStartedError("the session was not started; call start() first")
            return self._close.report
        self._context.check_may_await_close()
        return await self._join()

    async def _join(self) -> CloseReport:
        """Wait for the close, and for the session's task unless something in it ignores its cancellation."""
        assert self._task is not None
        is_here, hooks = self._context.inbox.is_own_loop, self._context.hooks
        with hooks.awaiting_close() if is_here else nullcontext(True) as is_apart:
            await self._context.closing.ended.wait()
        report = self._close.report
        assert report is not None
        if is_apart:  # a part of that task, or on another event loop
            return report
        with anyio.move_on_after(self._close.seconds_left):
            await asyncio.wait({self._task})
        if not self._task.done():
            late = ", ".join(step.name for step in report.steps if step.error)
            logger.error(
                "Session %s has closed; something ignores its cancellation and is left behind: %s",
                self._context.id,
                late or "a handler of its last events",
            )
        return report

    # --- the task

    async def _main(self, plan: StartPlan) -> None:
        """Start, wait for the request of the close, close. It outlives the close only for code that clings."""
        name_async_library("asyncio")
        call_site.set(SessionSite(self._context.session))
        log_session(self._context.id, captures_content=self._parts.options.capture_content)
        try:
            with self._context.observer.session():
                on_fallback.set(self._parts.records.fell_back)
                await self._live(plan)
        except Exception as error:  # noqa: BLE001 - no caller awaits the session's task for its result
            logger.error("The session ended by an error: %s", describe(error))
            logger.debug("The session ended by an error", exc_info=error)
            self._crash = self._crash or first_error(error)
        finally:
            if not self._context.closing.is_over:  # the close itself was broken
                with anyio.CancelScope(shield=True):
                    await self._close.end_telemetry()
            self._end()

    async def _live(self, plan: StartPlan) -> None:
        async with anyio.create_task_group() as group:
            self._context.open(group)
            try:
                if await self._start.run(plan):
                    self._ready.set()
                await self._context.closing.asked.wait()
            except BaseException as error:
                self._note_end(error)
                raise
            finally:
                # Also where the session's task is cancelled from outside, the close is orderly and bounded.
                with anyio.CancelScope(shield=True):
                    await self._close.run()
                    self._end()
                    await self._close.settle()
                group.cancel_scope.cancel()

    def _note_end(self, error: BaseException) -> None:
        cause = error if isinstance(error, Exception) else None
        self._context.closing.request(CloseReason.ERROR, cause)
        if not self._ready.is_set():
            self._crash = cause or SessionClosedError("the session's task was cancelled while it was starting")

    def _end(self) -> None:
        self._close.end()
        self._ready.set()

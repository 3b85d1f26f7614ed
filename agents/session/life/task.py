"""SessionLifecycle: the session's one task, from the first step of the start to the last of the close.

A session has one way out, whether its start failed, was cut or succeeded:

1. `SessionStart.run()` (start.py) runs the steps of the start inside a scope that the request of the close cancels.
2. The close is requested, once: by a step of the start that fails, by the cancellation of `start()`, by `close()` and
   `leave()`, by the room, by the turn machine, or by a crash of the task.
3. `SessionClose.run()` (close.py) runs a step for each part that is open, shielded and within `close_timeout`. This is
   how a start is rolled back.
4. `ready` is set, and `start()` raises `failure`, if there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anyio

from vivavoce.agents.core.call_site import SessionSite, call_site
from vivavoce.agents.history.snapshot import Snapshot
from vivavoce.agents.records import CloseReport
from vivavoce.agents.session.life.close import SessionClose
from vivavoce.agents.session.life.start import Connect, SessionStart, TakeOver
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.facts import session_facts
from vivavoce.agents.telemetry.logs.logs import log_session
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.errors import SessionClosedError, describe, first_error
from vivavoce.pipelines.core.incidents import on_fallback

logger = logging.getLogger(__name__)


class SessionLifecycle:
    """Starts and closes a session. `main()` is the body of its task."""

    def __init__(self, parts: SessionParts, loop: SessionLoop) -> None:
        self._parts = parts
        self._context = parts.context
        self._start = SessionStart(parts, loop)
        self._close = SessionClose(parts, loop, self._start)
        self._crash: BaseException | None = None
        self.ready = anyio.Event()
        """Set when the start is done, or the close of one that failed."""

    @property
    def failure(self) -> BaseException | None:
        """The error of `start()`, if it failed."""
        return self._start.failure or self._crash

    @property
    def report(self) -> CloseReport | None:
        return self._close.report

    @property
    def seconds_left(self) -> float:
        """The rest of the close's budget."""
        return self._close.seconds_left

    async def close_unstarted(self, reason: CloseReason) -> CloseReport:
        """Close a session that was not started; return the report."""
        if self._close.report is None:
            await self._close.run_unstarted(reason)
            self._end()
        assert self._close.report is not None
        return self._close.report

    async def main(self, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None) -> None:
        """Start, wait for the request of the close, close. It outlives the close only for code that clings."""
        call_site.set(SessionSite(self._context.session))
        log_session(self._context.id, captures_content=self._parts.options.capture_content)
        try:
            with self._context.observer.session():
                on_fallback.set(self._parts.records.fell_back)
                await self._live(connect, room_options, resumed)
        except Exception as error:  # noqa: BLE001 - no caller awaits the session's task for its result
            logger.error("The session ended by an error: %s", describe(error))
            logger.debug("The session ended by an error", exc_info=error)
            self._crash = self._crash or first_error(error)
        finally:
            if not self._context.closing.is_over:  # the close itself was broken
                with anyio.CancelScope(shield=True):
                    await self._close.end_telemetry()
            self._end()

    async def _live(self, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None) -> None:
        async with anyio.create_task_group() as group:
            self._context.open(group)
            try:
                if await self._start.run(connect, room_options, resumed):
                    self.ready.set()
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

    def facts(self) -> Mapping[str, Any]:
        """Return the attributes of the session's span: its agent, pipeline, options and room."""
        parts, context = self._parts, self._context
        return session_facts(context.live.agent, parts.pipelines.pipeline, parts.options, context.log.room)

    def _note_end(self, error: BaseException) -> None:
        cause = error if isinstance(error, Exception) else None
        self._context.closing.request(CloseReason.ERROR, cause)
        if not self.ready.is_set():
            self._crash = cause or SessionClosedError("the session's task was cancelled while it was starting")

    def _end(self) -> None:
        self._close.end()
        self.ready.set()

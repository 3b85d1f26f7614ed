"""SessionLifecycle: the session's one task, from the first step of start to the last of close."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent, Session
from vivavoce.agents.records import CloseReport
from vivavoce.agents.rooms.options import RoomOptions
from vivavoce.agents.session.closing import CloseSequence
from vivavoce.agents.session.emitter import SessionEmitter
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.room_link import RoomLink
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.session.services import Service
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import describe
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed
from vivavoce.pipelines.pipeline import Pipeline, PipelineConnection, PipelineContext

if TYPE_CHECKING:
    from vivavoce.pipelines.io import Transport

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _CloseRequest:
    """Why the session closes, and whether it leaves the room then."""

    reason: CloseReason
    cause: Exception | None = None
    leaves: bool = False


class SessionLifecycle:
    """Starts and closes a session. `main()` is its task's body."""

    def __init__(
        self,
        session: Session,
        agent: Agent,
        pipeline: Pipeline,
        runtime: SessionRuntime,
        emitter: SessionEmitter,
        *,
        clock: Clock,
        options: SessionOptions,
    ) -> None:
        self._session = session
        self._agent = agent
        self._pipeline = pipeline
        self._runtime = runtime
        self._emitter = emitter
        self._clock = clock
        self._options = options
        self._connection: PipelineConnection | None = None
        self._services: dict[str, Service] = {}
        self._entering: anyio.CancelScope | None = None
        self._close_asked = anyio.Event()
        self._why = _CloseRequest(CloseReason.USER_INITIATED)
        self._has_entered = False
        self._closing: CloseSequence | None = None
        self.ready = anyio.Event()
        """Set when start is done or has failed."""
        self.closed = anyio.Event()
        """Set when close is done."""
        self.failure: BaseException | None = None
        """What start failed with."""
        self.report: CloseReport | None = None
        self.accepts_speech = True
        """Off once `on_exit` is done: nothing more can be said."""

    def request_close(self, reason: CloseReason, cause: Exception | None = None, *, leave: bool = False) -> None:
        """Ask for the close; the first reason counts. Synchronous and callable from any task of the loop."""
        if self._close_asked.is_set():
            self._why.leaves = self._why.leaves or leave
            return
        self._why = _CloseRequest(reason, cause, leave)
        self._close_asked.set()
        if self._entering is not None:
            self._entering.cancel()

    @property
    def is_closing(self) -> bool:
        """Whether the close has begun."""
        return self._closing is not None

    @property
    def is_close_asked(self) -> bool:
        """Whether the close was asked for."""
        return self._close_asked.is_set()

    def close_unstarted(self) -> CloseReport:
        """Close a session that was never started: there is nothing to do."""
        if self.report is None:
            self.report = CloseReport(reason=CloseReason.USER_INITIATED.value, seconds=0.0)
            self.closed.set()
        return self.report

    async def main(self, transport: Transport, room_options: RoomOptions) -> None:
        """Start, wait for the close, close."""
        link = RoomLink(
            transport, self._runtime, self._emitter, self._clock, room_options, on_closed=self._on_room_closed
        )
        try:
            async with anyio.create_task_group() as group:
                self._emitter.open(group)
                await self._start(group, link)
                if not self._close_asked.is_set():
                    await self._close_asked.wait()
                # Whoever cancels the session's task from outside still gets an orderly, bounded close.
                with anyio.CancelScope(shield=True):
                    await self._close(link)
                group.cancel_scope.cancel()
        except BaseException as error:  # noqa: BLE001 - closes in order whatever ended it; cancellation goes on below
            if self.report is None:
                with anyio.CancelScope(shield=True):
                    self._why = _CloseRequest(CloseReason.ERROR, _as_exception(error), self._why.leaves)
                    await self._close(link)
            self.failure = self.failure or error
            if not isinstance(error, Exception):
                raise
            logger.error("The session ended by an error", exc_info=error)
        finally:
            self._runtime.end()
            self.ready.set()
            self.closed.set()

    # --- start

    async def _start(self, group: TaskGroup, link: RoomLink) -> None:
        runtime, limit = self._runtime, self._options.start_step
        try:
            capabilities = self._pipeline.capabilities
            self._connection = self._pipeline.open(
                PipelineContext(
                    clock=self._clock,
                    emit=self._on_pipeline_event,
                    session_id=self._session.id,
                    input_rate=link.transport.input_rate,
                    instructions=self._agent.instructions,
                    tools=self._agent.tools,
                )
            )
            self._agent.attach(self._session)
            link.open(group, self._agent, self._connection, capabilities)
            runtime.step(i.SessionStarting())
            group.start_soon(runtime.run, name=f"session {self._session.id}")
            await self._serve("pipeline", self._connection.run, group, limit)
            await self._serve("room audio", link.run, group, limit)
            if not self._close_asked.is_set():
                self._has_entered = True
                with anyio.CancelScope() as self._entering:
                    await self._agent.on_enter()
            if self._close_asked.is_set():
                self.failure = self._why.cause
                if self.failure is None:
                    self.ready.set()
                return
            runtime.step(i.SessionStarted())
            runtime.journal.note(ev.Started)
            runtime.journal.flush()
        except Exception as error:  # noqa: BLE001 - handed to the caller of start()
            self.failure = error
            self.request_close(CloseReason.START_FAILED, error)
            return
        self.ready.set()

    async def _serve(self, name: str, run: Callable[..., Awaitable[None]], group: TaskGroup, limit: float) -> None:
        service = Service(name, run, on_crash=self._on_crash)
        self._services[name] = service
        await service.start(group, limit)

    def _on_crash(self, name: str, error: Exception) -> None:
        logger.error("The %s ended by an error", name, exc_info=error)
        self._runtime.report_error(error, name)
        self.request_close(CloseReason.ERROR, error)

    def _on_pipeline_event(self, event: PipelineEvent) -> None:
        if self._closing is not None and isinstance(event, PipelineFailed):
            self._closing.note(event.error)
        self._runtime.post(event)

    def _on_room_closed(self, reason: str) -> None:
        logger.info("The room is gone: %s", reason)
        self.request_close(CloseReason.ROOM_CLOSED)

    # --- close

    async def _close(self, link: RoomLink) -> None:
        self._closing = closing = CloseSequence(self._clock, self._options.close_timeout)
        runtime = self._runtime
        steps = await closing.run(
            [
                ("input", link.stop_input),
                ("speech", self._cut_speech),
                ("tools", runtime.tools.cancel),
                *([("on_exit", self._exit_agent)] if self._has_entered else []),
                ("pipeline", self._close_pipeline),
                ("agent cleanup", self._agent.cleanup),
                ("room audio", partial(self._close_room_audio, link)),
                *([("leave room", link.transport.leave)] if self._why.leaves else []),
            ]
        )
        runtime.step(i.SessionClosed())
        self.report = CloseReport(
            reason=self._why.reason.value,
            seconds=closing.seconds,
            steps=steps,
            error="" if self._why.cause is None else describe(self._why.cause),
        )
        runtime.journal.note(ev.Closed, report=self.report)
        runtime.journal.flush()
        with anyio.move_on_after(closing.seconds_left):
            await self._emitter.wait_idle()
        self._agent.attach(None)

    async def _cut_speech(self) -> None:
        self._runtime.step(i.SessionClosing())
        await self._runtime.wait_silent()

    async def _exit_agent(self) -> None:
        try:
            await self._agent.on_exit()
            await self._runtime.wait_silent()  # what it said without awaiting it is spoken too
        finally:
            self.accepts_speech = False
            self._runtime.step(i.SessionClosing())

    async def _close_pipeline(self) -> None:
        if "pipeline" in self._services:
            await self._services["pipeline"].stop()
        if self._connection is not None:
            await self._connection.aclose()

    async def _close_room_audio(self, link: RoomLink) -> None:
        if "room audio" in self._services:
            await self._services["room audio"].stop()
        await link.transport.aclose()


def _as_exception(error: BaseException) -> Exception | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, Exception) else None

"""SessionLifecycle: the session's one task, from the first step of start to the last of close."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents import events as ev
from vivavoce.agents.core.service import Service
from vivavoce.agents.history.snapshot import Snapshot
from vivavoce.agents.records import CloseReport
from vivavoce.agents.session.lifecycle.close import UNWIND_SHARE, CloseSequence, Step
from vivavoce.agents.session.lifecycle.start import Starting
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.session.report_writer import report_file, write_report
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.facts import session_facts
from vivavoce.agents.telemetry.logs.logs import log_session
from vivavoce.agents.telemetry.observer import SessionObserver
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import (
    SessionClosedError,
    SessionError,
    describe,
    first_error,
)

if TYPE_CHECKING:
    from vivavoce.pipelines.io import Transport

logger = logging.getLogger(__name__)

HEARING_SHARE = 0.5
"""Part of the close's budget in which the user's last words must come."""

Connect = Callable[[], Awaitable["Transport"]]
"""Returns the transport, when it is connected if need be."""

TakeOver = Callable[[], Awaitable[Snapshot | None]]
"""Returns the state to continue, once the session that has the conversation releases it; None: nothing after all."""


class SessionLifecycle:
    """Starts and closes a session. `main()` is its task's body."""

    def __init__(self, parts: SessionParts, loop: SessionLoop) -> None:
        self._parts = parts
        self._loop = loop
        self._context = context = parts.context
        self._pipelines = parts.pipelines
        self._options = parts.options
        self._stops: dict[str, Callable[[], Awaitable[None]]] = {}
        """How to end the parts that were started, by name."""
        self._preparing = parts.preparing
        self._setup = parts.setup
        self._starting = Starting(context)
        self._closing: CloseSequence | None = None
        self.ready = anyio.Event()
        """Set when start is done, or the close of one that failed."""
        self.failure: BaseException | None = None
        """The error of the start."""
        self.report: CloseReport | None = None

    @property
    def seconds_left(self) -> float:
        """The rest of the close's budget."""
        return self._options.close_timeout if self._closing is None else self._closing.seconds_left

    async def close_unstarted(self, reason: CloseReason) -> CloseReport:
        """Close a session that was never started: there is nothing to do but to say so."""
        if self.report is None:
            self.report = CloseReport(reason=reason.value, seconds=0.0)
            self._parts.handoffs.close()
            self._pipelines.close()
            self._context.closing.ended.set()
            log = self._context.log
            log.start(log.observer, room="", job_id="")
            async with anyio.create_task_group() as group:
                self._context.open(group)
                self._loop.step(i.SessionClosing())
                self._loop.step(i.SessionClosed())
                log.note(ev.Closed, report=self.report)
                log.flush()
                with anyio.move_on_after(self._options.close_timeout):
                    await self._context.hooks.wait_idle(is_closed=True)
                group.cancel_scope.cancel()
            self._set_closed()
        return self.report

    async def main(self, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None) -> None:
        """Start, wait for the close, close. It continues beyond `closed` only for code that ignores its
        cancellation.
        """
        log_session(self._context.id, captures_content=self._options.capture_content)
        try:
            with self._observer.session(self._facts):
                await self._live(connect, room_options, resumed)
        except Exception as error:  # noqa: BLE001 - nobody awaits the session's task for its result
            logger.error("The session ended by an error: %s", describe(error))
            logger.debug("The session ended by an error", exc_info=error)
            self.failure = self.failure or first_error(error)
        finally:
            if not self._context.closing.is_over:  # the close itself was broken
                with anyio.CancelScope(shield=True):
                    await self._end_telemetry()
            self._set_closed()

    async def _live(self, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None) -> None:
        async with anyio.create_task_group() as group:
            self._context.open(group)
            try:
                await self._start(group, connect, room_options, resumed)
                await self._context.closing.asked.wait()
            except BaseException as error:
                self._note_end(error)
                raise
            finally:
                # Also if the session's task is cancelled from outside, the close is orderly and bounded.
                with anyio.CancelScope(shield=True):
                    await self._close(group)
                group.cancel_scope.cancel()

    @property
    def _observer(self) -> SessionObserver:
        return self._context.observer

    def _facts(self) -> Mapping[str, Any]:
        return session_facts(self._context.live.agent, self._pipelines.pipeline, self._options, self._context.log.room)

    def _note_end(self, error: BaseException) -> None:
        cause = error if isinstance(error, Exception) else None
        self._context.closing.request(CloseReason.ERROR, cause)
        if not self.ready.is_set() and self.failure is None:
            self.failure = cause or SessionClosedError("the session's task was cancelled while it was starting")

    def _set_closed(self) -> None:
        if self.report is None:  # the close itself was broken
            self.report = CloseReport(
                reason=self._context.closing.reason.value, seconds=0.0, error="the close was broken off"
            )
        self._loop.end()
        if self._parts.trace is not None:
            self._parts.trace.close()
        self.ready.set()
        self._context.closing.ended.set()

    # --- start

    async def _start(
        self, group: TaskGroup, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None
    ) -> None:
        try:
            with self._starting.open(), self._observer.phase("start"):
                await self._run_start(group, connect, room_options, resumed)
                self.ready.set()
                return
        except Exception as error:  # noqa: BLE001 - handed to the caller of start()
            self.failure = error
            self._context.closing.request(CloseReason.START_FAILED, error)
            return
        self.failure = self._context.closing.cause
        if self.failure is None and not self._starting.has_entered:
            self.failure = SessionClosedError(f"closed while it was starting: {self._context.closing.reason.value}")

    async def _run_start(
        self, group: TaskGroup, connect: Connect, room_options: RoomOptions, resumed: Snapshot | TakeOver | None
    ) -> None:
        parts, limit = self._parts, self._options.start_step
        handoffs, caller = parts.handoffs, parts.caller
        handoffs.begin_session()
        parts.flows.begin_session(self._context.session)
        transport: list[Transport] = []

        async def get_transport() -> None:
            transport.append(await connect())

        async def connected() -> None:
            with watched("connect"):
                await self._starting.call("connect", get_transport)

        async def prepared() -> None:
            with watched("prepare"):
                await self._preparing.first(first, self._pipelines.pipeline)

        watched = partial(self._observer.phase_step, "start")
        with watched("mcp"):
            first = await self._setup.for_start()
        await self._preparing.beside(connected, prepared)
        take_over = resumed if callable(resumed) else None
        snapshot = None if callable(resumed) else resumed
        caller.take(transport[0], room_options, is_waiting=take_over is not None)
        self._pipelines.open(transport[0].input_rate)
        parts.open(transport[0])
        if take_over is None:
            self._begin(group, snapshot)
        if parts.history.feed is not None:
            parts.history.feed.open()
        with watched("pipeline"):
            await self._pipelines.start(limit)
        with watched("room audio"):
            await self._serve("room audio", caller.run, group, limit)
        if self._context.live.agent is not first:
            handoffs.take_over(await self._setup.for_start(prepares=True))
        if take_over is not None:
            snapshot = await self._take_over(group, take_over)
            self._begin(group, snapshot)
            caller.end_wait()
        self._starting.has_entered = True
        if snapshot is None:
            with watched("on_enter"):
                await self._starting.wait("on_enter", handoffs.enter())
        else:
            handoffs.resume()
        self._loop.step(i.SessionStarted())
        self._context.log.note(ev.Started)
        self._context.log.flush()

    def _begin(self, group: TaskGroup, resumed: Snapshot | None) -> None:
        self._parts.recording.open()
        self._loop.step(i.SessionStarting(resumed.turns if resumed else 0))
        group.start_soon(self._decide, name=f"session {self._context.id}")

    async def _take_over(self, group: TaskGroup, take_over: TakeOver) -> Snapshot | None:
        """Wait, with everything open and ready, until the conversation is ours; input meanwhile is kept."""
        got: list[Snapshot | None] = []

        async def wait() -> None:
            got.append(await take_over())

        await self._starting.call("take over", wait)
        return got[0]

    async def _decide(self) -> None:
        try:
            await self._loop.run()
        except Exception as error:  # noqa: BLE001 - a bug of ours: the session closes in order and says why
            self._on_crash("decision loop", error)

    async def _serve(self, name: str, run: Callable[..., Awaitable[None]], group: TaskGroup, limit: float) -> None:
        service = Service(name, run, on_crash=self._on_crash)
        self._stops[name] = service.stop
        await service.start(group, limit)

    def _on_crash(self, name: str, error: Exception) -> None:
        logger.error("The %s ended by an error: %s", name, describe(error))
        logger.debug("The %s ended by an error", name, exc_info=error)
        self._context.report_error(error, name)
        self._context.closing.request(CloseReason.ERROR, error)

    # --- close

    async def _close(self, group: TaskGroup) -> None:
        self._parts.handoffs.close()
        self._closing = closing = CloseSequence(self._context, self._options.close_timeout)
        self._pipelines.close(closing.note)
        with self._observer.phase("close"):
            steps = await closing.run(self._close_steps())
        self._loop.step(i.SessionClosed())
        self._loop.end_speeches()
        self.report = CloseReport(
            reason=self._context.closing.reason.value,
            seconds=closing.seconds,
            steps=steps,
            error=self._parts.last_words.problem
            if self._context.closing.cause is None
            else describe(self._context.closing.cause),
        )
        self._context.log.note(ev.Closed, report=self.report)
        self._context.log.flush()
        await self._write_report()
        await self._end_telemetry()
        self._set_closed()
        with anyio.move_on_after(closing.seconds_left * UNWIND_SHARE):
            await self._context.hooks.wait_idle(is_closed=True)
        for name in self._context.hooks.running:
            logger.warning("A handler of %r outlives the session's close and is cut", name)
        if self._parts.trace is not None:
            await self._parts.trace.written(closing.seconds_left * UNWIND_SHARE)
        self._parts.handoffs.release()

    def _close_steps(self) -> list[Step]:
        closing = self._closing
        assert closing is not None
        steps: list[Step] = []
        if self._starting.open_run is not None:
            name, run = self._starting.open_run
            steps.append((name, run.wait))
        handoffs = self._parts.handoffs
        if handoffs.entering is not None:
            steps.append(("on_enter", handoffs.entering.wait))
        caller = self._parts.caller
        if caller.has_transport:
            steps.append(("input", caller.stop_input))
            if self._parts.wake_up_call.is_running:
                steps.append(("wake-up", self._parts.wake_up_call.cut))
            steps += [("speech", self._cut_speech), ("tools", self._parts.tools.cancel)]
            if self._parts.last_words.is_apology_due:
                steps.append(("apology", self._apologise))
        if self._starting.has_entered and self._context.closing.reason is not CloseReason.REPLACED:
            steps.append(("on_exit", self._exit_agent))
        if self._parts.flows.has_work:
            steps.append(("conversation_flow.cleanup", partial(closing.side_by_side, self._parts.flows.cleanups())))
        if self._parts.background.is_sounding:
            steps.append(("background audio", self._parts.background.aclose))
        if self._setup.servers.has_servers:
            steps.append(("mcp", self._setup.servers.aclose))
        steps.append(("pipeline", self._pipelines.aclose))
        steps.append(("agent cleanup", partial(closing.side_by_side, handoffs.cleanups())))
        steps.append(("handlers", self._end_handlers))
        feed = self._parts.history.feed
        if feed is not None and feed.is_open:  # after everything that may still add to the history
            steps.append(("history sink", feed.aclose))
        if self._parts.recording.begin_close():
            steps.append(("recording", self._parts.recording.stop))
        if caller.has_transport:
            steps.append(("room audio", self._close_room_audio))
            if self._context.closing.leaves:
                steps.append(("leave room", caller.transport.leave))
        return steps

    async def _write_report(self) -> None:
        path = report_file(self._options.report_path, self._context.id)
        if path is not None:
            report = self._context.log.report(
                self.report,
                pipeline=self._pipelines.pipeline,
                agent_id=self._context.live.agent.id,
                recordings=self._parts.recording.records,
            )
            await write_report(path, report, self._context.clock)

    async def _end_telemetry(self) -> None:
        """End the telemetry of the session; the flush has a limit of its own, beside that of the steps."""
        self._observer.ends(self._context.closing.reason.value, self._context.closing.cause)
        await self._observer.flush()

    async def _end_handlers(self) -> None:
        try:
            await self._context.hooks.wait_idle()
        finally:
            assert self._closing is not None
            for name in self._context.hooks.running:
                self._closing.note(SessionError(f"an async handler of {name!r} was still at work"))
            self._context.hooks.cut()

    async def _cut_speech(self) -> None:
        hears_out = not (self._context.closing.leaves or self._context.closing.reason is CloseReason.ERROR)
        self._loop.step(i.SessionClosing(hears_out=hears_out))
        if hears_out:
            with anyio.move_on_after(self.seconds_left * HEARING_SHARE) as scope:
                await self._context.closing.heard_out.wait()
            if scope.cancelled_caught:
                self._loop.step(i.SessionClosing())
        await self._parts.speeches.silence()

    async def _apologise(self) -> None:
        speeches = self._parts.speeches
        try:
            if self._context.live.capabilities.can_say:
                self._parts.last_words.apologise(speeches.request, self._context.inbox.post)
                await speeches.silence()
        finally:
            self._loop.step(i.SessionClosing())

    async def _exit_agent(self) -> None:
        try:
            await self._parts.handoffs.exit()
            await self._parts.speeches.silence()  # speech that it did not await is spoken too
        finally:
            self._context.closing.refuse_calls()
            self._loop.step(i.SessionClosing())

    async def _close_room_audio(self) -> None:
        try:
            if "room audio" in self._stops:
                await self._stops["room audio"]()
        finally:
            await self._parts.caller.transport.aclose()

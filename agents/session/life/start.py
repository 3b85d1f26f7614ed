"""SessionStart: the steps of the start, in their order (`_run_steps`). The request of a close cuts them at any time.

It undoes nothing: the close has a step for each part that was opened (`task.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.core.service import Service
from vivavoce.agents.history.snapshot import Snapshot
from vivavoce.agents.session.life.joining import Connect, StartPlan
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import CloseReason
from vivavoce.agents.telemetry.observer import Watch
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import SessionClosedError, describe

if TYPE_CHECKING:
    from vivavoce.pipelines.io import Transport

logger = logging.getLogger(__name__)

T = TypeVar("T")


class SessionStart:
    """Starts a session, once."""

    def __init__(self, parts: SessionParts, loop: SessionLoop) -> None:
        self._parts = parts
        self._loop = loop
        self._context = parts.context
        self._limit = parts.options.start_step
        self._waits_for: tuple[str, Run] | None = None
        self.has_entered = False
        """Whether it got as far as `on_enter`."""
        self.room_audio: Service | None = None
        """The service that carries audio between the room and the session."""
        self.failure: BaseException | None = None
        """The error of `start()`, if it fails."""

    async def run(self, plan: StartPlan) -> bool:
        """Run the steps; return whether all of them are done. A step that fails requests the close."""
        closing = self._context.closing
        try:
            with closing.cuts(anyio.CancelScope()), self._context.observer.phase("start"):
                await self._run_steps(plan)
                return True
        except Exception as error:  # noqa: BLE001 - raised by start()
            self.failure = error
            closing.request(CloseReason.START_FAILED, error)
            return False
        self.failure = closing.cause
        if self.failure is None and not self.has_entered:
            self.failure = SessionClosedError(f"closed while it was starting: {closing.reason.value}")
        return False

    async def _run_steps(self, plan: StartPlan) -> None:
        parts, watched, resumed = self._parts, self._watched, plan.resumed
        pipelines = parts.pipelines.switch
        parts.handoffs.begin_session()
        parts.flows.begin_session(self._context.session)
        with watched("mcp"):
            first = await parts.handoffs.setup.for_start()
        if not callable(resumed):
            await self._make("open", parts.extensions.to_open())
        prepare = partial(parts.handoffs.setup.preparing.first, first, pipelines.pipeline)
        transport = await self._connect(plan.connect, prepare)
        take_over = resumed if callable(resumed) else None
        snapshot = None if callable(resumed) else resumed
        parts.caller.take(transport, plan.room_options, is_waiting=take_over is not None)
        pipelines.open(transport.input_rate)
        parts.open(transport)
        if take_over is None:
            self._begin(transport, snapshot)
        with watched("pipeline"):
            await pipelines.start(self._limit)
        with watched("room audio"):
            self.room_audio = Service("room audio", parts.caller.run, on_crash=self._on_crash)
            await self.room_audio.start(self._context.group, self._limit)
        if self._context.live.agent is not first:  # update_agent() has replaced it meanwhile
            parts.handoffs.agents.take_over(await parts.handoffs.setup.for_start(prepares=True))
        if take_over is not None:
            snapshot = await self._result_of("take over", take_over)
            await self._make("open", parts.extensions.to_open())
            self._begin(transport, snapshot)
            parts.caller.end_wait()
        await parts.handoffs.components_taken()
        parts.keeping.checkpoints.open()
        await self._make("begin", parts.extensions.to_begin())
        self.has_entered = True
        if snapshot is None:
            with watched("on_enter"):
                if (entering := parts.handoffs.hooks.enter_first(self._context.live.agent)) is not None:
                    await self._end_of("on_enter", entering, entering.wait_or_let_go)
                else:
                    await anyio.lowlevel.checkpoint()  # inputs of the room come before the end of the start
        else:
            parts.handoffs.hooks.resume()
        self._loop.step(i.SessionStarted())
        parts.extensions.entered()
        parts.tools.resume()
        parts.keeping.checkpoints.changed()
        self._context.log.note(ev.Started)
        await self._context.log.hand_out()

    async def _make(self, what: str, calls: Iterable[tuple[str, Callable[[], Awaitable[None]]]]) -> None:
        """Make such calls of the extensions, one after the other.

        Raises:
            SessionError: One did not end in time.
        """
        for name, call in calls:
            with self._watched(name):
                title = f"{what} of the extension {name!r}"
                run = self._context.hooks.start("start", title, call, self._limit, source=None)
                await self._end_of(name, run, run.finish)

    def _watched(self, step: str) -> Watch:
        return self._context.observer.phase_step("start", step)

    async def _connect(self, connect: Connect, prepare: Callable[[], Awaitable[None]]) -> Transport:
        """Connect to the room and prepare the first turns, side by side."""
        connected: list[Transport] = []

        async def connecting() -> None:
            with self._watched("connect"):
                connected.append(await self._result_of("connect", connect))

        async def preparing() -> None:
            with self._watched("prepare"):
                await prepare()

        await self._parts.handoffs.setup.preparing.beside(connecting, preparing)
        return connected[0]

    def _begin(self, transport: Transport, resumed: Snapshot | None) -> None:
        """Begin to decide: from here on the session takes inputs."""
        self._parts.extensions.link(transport)
        self._parts.keeping.recording.open()
        turns_before = resumed.turns if resumed else 0
        self._loop.step(i.SessionStarting(turns_before, self._parts.history.run))
        self._context.group.start_soon(self._decide, name=f"session {self._context.id}")

    async def _decide(self) -> None:
        try:
            await self._loop.run()
        except Exception as error:  # noqa: BLE001 - a bug of ours: the session closes in order and says why
            self._on_crash("decision loop", error)

    def _on_crash(self, name: str, error: Exception) -> None:
        logger.error("The %s ended by an error: %s", name, describe(error))
        logger.debug("The %s ended by an error", name, exc_info=error)
        self._context.report_error(error, name)
        self._context.closing.request(CloseReason.ERROR, error)

    # --- application code

    async def _result_of(self, name: str, call: Callable[[], Awaitable[T]]) -> T:
        results: list[T] = []

        async def make() -> None:
            results.append(await call())

        run = self._context.hooks.start("start", name, make, source=None)
        await self._end_of(name, run, run.wait)
        return results[0]

    async def _end_of(self, name: str, run: Run, wait: Callable[[], Awaitable[None]]) -> None:
        """Wait for the end of a run. It is cut with the start, which does not wait then.

        Raises:
            BaseException: The error of the run, unless it was let go, or a handoff that waited for it has reported it.
        """
        self._waits_for = (name, run)
        try:
            await wait()
        finally:
            if not (run.is_over or run.is_let_go):
                run.cut()
                run.leave_behind()
        is_reported = run.kind == "agent hook" and run.late is not None
        if run.error is not None and not (is_reported or run.is_let_go):
            raise run.error

    @property
    def open_run(self) -> tuple[str, Run] | None:
        """The application code that was cut and has not ended, by name; the close waits for it."""
        return None if self._waits_for is None or self._waits_for[1].is_over else self._waits_for

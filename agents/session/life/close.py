"""SessionClose: the steps of the close, in their order (`_steps`), and the report of it.

There is a step for each part that was opened. Therefore it closes a session that runs as well as one that failed or was
cut at any step of its start.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.core.session_files import report_file
from vivavoce.agents.records import CloseReport
from vivavoce.agents.session.life.close_steps import UNWIND_SHARE, CloseSequence, Step, write_report
from vivavoce.agents.session.life.start import SessionStart
from vivavoce.agents.session.loop import SessionLoop
from vivavoce.agents.session.parts import SessionParts
from vivavoce.agents.states import CloseReason
from vivavoce.agents.turn import inputs as i
from vivavoce.pipelines.core.errors import SessionError, describe

logger = logging.getLogger(__name__)

HEARING_SHARE = 0.5
"""Part of the close's budget in which the user's last words must come."""


class SessionClose:
    """Closes a session, once.

    Args:
        start: The start, which may have got to any of its steps.
    """

    def __init__(self, parts: SessionParts, loop: SessionLoop, start: SessionStart) -> None:
        self._parts = parts
        self._loop = loop
        self._context = parts.context
        self._start = start
        self._sequence: CloseSequence | None = None
        self.report: CloseReport | None = None

    @property
    def seconds_left(self) -> float:
        """The rest of the close's budget."""
        return self._parts.options.close_timeout if self._sequence is None else self._sequence.seconds_left

    async def run(self) -> None:
        """Run the steps, note the event `closed`, and write the report and the telemetry of the session."""
        parts, closing = self._parts, self._context.closing
        parts.tasks.close()
        parts.handoffs.hooks.close()
        parts.extensions.end()
        self._sequence = sequence = CloseSequence(self._context, parts.options.close_timeout)
        parts.pipelines.switch.close()
        await anyio.lowlevel.checkpoint()  # inputs that came before the close are taken before it
        with self._context.observer.phase("close"):
            steps = await sequence.run(self._steps(sequence))
        self._loop.step(i.SessionClosed())
        self._loop.end_speeches()
        self.report = CloseReport(
            reason=closing.reason.value,
            seconds=sequence.seconds,
            steps=steps,
            error=parts.silence.last_words.problem if closing.cause is None else describe(closing.cause),
            lost_writes=parts.extensions.lost_writes,
        )
        self._context.log.note(ev.Closed, report=self.report)
        await self._context.log.hand_out()
        await self._write_report()
        await self.end_telemetry()

    async def run_unstarted(self, reason: CloseReason) -> None:
        """Close a session that was not started: no part is open, and only the event `closed` is noted."""
        self.report = CloseReport(reason=reason.value, seconds=0.0)
        self._parts.tasks.close()
        self._parts.handoffs.hooks.close()
        self._parts.pipelines.switch.close()
        self._parts.extensions.end()
        self._context.closing.ended.set()
        log = self._context.log
        log.start(log.observer, room="", job_id="")
        async with anyio.create_task_group() as group:
            self._context.open(group)
            self._loop.step(i.SessionClosing())
            self._loop.step(i.SessionClosed())
            log.note(ev.Closed, report=self.report)
            await log.hand_out()
            with anyio.move_on_after(self._parts.options.close_timeout):
                await self._context.hooks.wait_idle(is_closed=True)
            group.cancel_scope.cancel()
        self._parts.extensions.release()

    def end(self) -> None:
        """End the loop and mark the close as done."""
        if self.report is None:  # the close itself was broken
            reason = self._context.closing.reason.value
            self.report = CloseReport(reason=reason, seconds=0.0, error="the close was broken off")
        self._context.closing.ended.set()  # first: a fault below must not leave callers of `close()` waiting
        self._loop.end()
        self._context.stage_observers.close()
        if self._parts.keeping.trace is not None:
            self._parts.keeping.trace.close()

    async def settle(self) -> None:
        """Wait, after the end, for handlers of the last events and for the trace; free the agents for others."""
        hooks, trace = self._context.hooks, self._parts.keeping.trace
        with anyio.move_on_after(self.seconds_left * UNWIND_SHARE):
            await hooks.wait_idle(is_closed=True)
        for name in hooks.running:
            logger.warning("A handler of %r outlives the session's close and is cut", name)
        if trace is not None:
            await trace.written(self.seconds_left * UNWIND_SHARE)
        self._parts.handoffs.release()
        self._parts.handoffs.agents.release()
        self._parts.extensions.release()

    async def end_telemetry(self) -> None:
        """End the telemetry of the session. The flush has a limit of its own, whatever the steps have used up."""
        closing, observer = self._context.closing, self._context.observer
        observer.ends(closing.reason.value, closing.cause)
        await observer.flush()

    async def _write_report(self) -> None:
        path = report_file(self._parts.options.report_path, self._context.id)
        if path is not None:
            await write_report(path, self._parts.report(self.report), self._context.clock)

    # --- the steps

    def _steps(self, sequence: CloseSequence) -> list[Step]:
        parts, caller, closing = self._parts, self._parts.caller, self._context.closing
        extensions, steps = parts.extensions.closings(), list[Step]()
        if (opened := self._start.open_run) is not None:
            name, run = opened
            steps.append((name, run.wait))
        if parts.handoffs.hooks.is_entering:
            steps.append(("on_enter", parts.handoffs.hooks.entered))
        if caller.has_transport:
            steps.append(("input", caller.stop_input))
            if parts.silence.wake_up.is_running:
                steps.append(("wake-up", parts.silence.wake_up.cut))
            steps += [("speech", self._cut_speech), ("tools", parts.tools.cancel)]
        steps += extensions.get("tools", ())
        if caller.has_transport and parts.silence.last_words.is_apology_due:
            steps.append(("apology", self._apologise))
        if self._start.has_entered and closing.reason is not CloseReason.REPLACED:
            steps.append(("on_exit", self._exit_agent))
        steps += extensions.get("on_exit", ())
        if parts.flows.has_work:
            steps.append(("conversation_flow.cleanup", partial(sequence.side_by_side, parts.flows.cleanups())))
        if parts.background.is_sounding:
            steps.append(("background audio", parts.background.aclose))
        if parts.handoffs.setup.servers.has_servers:
            steps.append(("mcp", parts.handoffs.setup.servers.aclose))
        steps.append(("pipeline", parts.pipelines.switch.aclose))
        steps.append(("agent cleanup", partial(sequence.side_by_side, parts.handoffs.agents.cleanups())))
        steps.append(("handlers", self._end_handlers))
        steps += extensions.get("handlers", ())
        keeper = parts.history.keeper
        if keeper is not None and keeper.is_open:  # after all steps that may still add to the history
            steps.append(("history", keeper.aclose))
        steps += extensions.get("history", ())
        if parts.keeping.recording.begin_close():
            steps.append(("recording", parts.keeping.recording.stop))
        if caller.has_transport:
            steps.append(("room audio", self._close_room_audio))
            if closing.leaves:
                steps.append(("leave room", caller.transport.leave))
        elif caller.expected is not None:  # the start has failed before it: whoever reads a text waits for its end
            steps.append(("room audio", caller.expected.aclose))
        return steps

    def _cut_speech(self) -> Awaitable[None] | None:
        closing = self._context.closing
        hears_out = not (closing.leaves or closing.reason is CloseReason.ERROR)
        self._loop.step(i.SessionClosing(hears_out=hears_out))
        is_over = self._parts.speeches.are_over and (closing.heard_out.is_set() or not hears_out)
        return None if is_over else self._last_speech(hears_out=hears_out)

    async def _last_speech(self, *, hears_out: bool) -> None:
        closing = self._context.closing
        if hears_out:
            with anyio.move_on_after(self.seconds_left * HEARING_SHARE) as scope:
                await closing.heard_out.wait()
            if scope.cancelled_caught:
                self._loop.step(i.SessionClosing())
        await self._parts.speeches.silence()

    async def _apologise(self) -> None:
        speeches = self._parts.speeches
        try:
            if self._context.live.capabilities.can_say:
                self._parts.silence.last_words.apologise(speeches.request, self._context.inbox.post)
                await speeches.silence()
        finally:
            self._loop.step(i.SessionClosing())

    def _exit_agent(self) -> Awaitable[None] | None:
        exits = self._parts.handoffs.exits()
        if exits or not self._parts.speeches.are_over:
            return self._exit(exits)
        self._end_calls()
        return None

    async def _exit(self, exits: Sequence[Callable[[], Awaitable[None]]]) -> None:
        failed: list[Exception] = []
        try:
            for call in exits:
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 - the user-callback boundary: the others leave too
                    failed.append(error)
            if failed:
                raise failed[0]
            await self._parts.speeches.silence()  # speech that they asked for without awaiting it is spoken too
        finally:
            self._end_calls()

    def _end_calls(self) -> None:
        self._context.closing.refuse_calls()
        self._loop.step(i.SessionClosing())

    def _end_handlers(self) -> Awaitable[None] | None:
        return self._wait_for_handlers() if self._context.hooks.running else None

    async def _wait_for_handlers(self) -> None:
        hooks = self._context.hooks
        try:
            await hooks.wait_idle()
        finally:
            for name in hooks.running:
                self._context.closing.note(SessionError(f"an async handler of {name!r} was still at work"))
            hooks.cut()

    async def _close_room_audio(self) -> None:
        try:
            if self._start.room_audio is not None:
                await self._start.room_audio.stop()
        finally:
            await self._parts.caller.transport.aclose()

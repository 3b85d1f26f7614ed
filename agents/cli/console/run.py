"""Runs `vivavoce console`: one job without a room, its display, its keys, and its end."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import anyio
from anyio import CancelScope

from vivavoce.agents import events
from vivavoce.agents.cli.app_file import App
from vivavoce.agents.cli.console.job import ConsoleJob
from vivavoce.agents.cli.console.json_lines import InterruptLine, UserLine
from vivavoce.agents.cli.console.keys import keys
from vivavoce.agents.cli.console.lines import Lines
from vivavoce.agents.cli.live.follow import Display, LocalWatch
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.transports.console.transport import ConsoleTransport
from vivavoce.agents.transports.console.typed import TypedTransport
from vivavoce.agents.transports.console.wav import WavEnds
from vivavoce.agents.worker.run import JobRun
from vivavoce.agents.worker.worker import shared_parts
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, VoiceError
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)

ROOM = "console"
METER_SECONDS = 0.1
SETTLED_SECONDS = 1.0
"""Seconds of silence on both sides after which a conversation whose input has ended is over."""
MOST_SECONDS = 120.0
"""Limit for that, in seconds."""


class Shown(Display, AbstractContextManager[object], Protocol):
    """Shows a conversation; a context in which it may hold the screen."""

    def ready(self) -> None: ...
    def note(self, text: str) -> None: ...
    def part(self, text: str) -> None: ...
    def level(self, decibels: float | None) -> None: ...
    def ending(self, why: str) -> None: ...


class Conversation:
    """One conversation at this machine.

    Args:
        app: The app of the agent.
        transport: Transport of the conversation.
        view: Shows it.
        ends: The WAV files in place of devices; their end is the end of the conversation.
        lines: The lines of a `TypedTransport`.
        read: Returns what a line asks for, or raises a `ConfigurationError`. None: a line is what the caller says.
    """

    def __init__(
        self,
        app: App,
        transport: ConsoleTransport | TypedTransport,
        view: Shown,
        ends: WavEnds | None = None,
        lines: Lines | None = None,
        read: Callable[[str], UserLine | InterruptLine] | None = None,
    ) -> None:
        self._app = app
        self._transport = transport
        self._ends = ends
        self._lines = lines
        self._read = read
        self._was_typed = False
        self._view = view
        transport.show_parts(self._view.part)
        self._session: AgentSession[Any] | None = None
        self._has_session = anyio.Event()
        self._changed = anyio.Event()
        self._is_muted = False
        self._run: JobRun | None = None
        self._error: VoiceError | None = None

    async def run(self) -> int:
        """Run to the end of the conversation and return the exit status.

        Raises:
            VoiceError: It could not begin: no such device, no key.
        """
        worker = self._app.worker
        watch = LocalWatch(self._view, on_session=self._on_session)
        with self._view, watch_scope(watch):
            if self._app.note:
                self._view.note(self._app.note)
            try:
                await shared_parts(worker).warm()
                async with anyio.create_task_group() as tasks:
                    job = ConsoleJob(
                        JobInfo(id=new_id("job"), room=ROOM), self._transport, shared=worker.shared, tasks=tasks
                    )
                    options = replace(worker.options, crash_safety=None)  # no worker could dispatch the call again
                    self._run = run = JobRun(job, self._entrypoint, options, tasks, shows_error=True)
                    tasks.start_soon(self._obey_signals)
                    for beside in self._beside():
                        tasks.start_soon(beside)
                    with self._keyboard():
                        await run.run()
                    tasks.cancel_scope.cancel()
            finally:
                with CancelScope(shield=True):
                    await shared_parts(worker).aclose()
        if self._error is not None:
            raise self._error
        if run.error:
            self._view.problem(f"the agent failed: {run.error}")
        return 1 if run.error else 0

    def end(self, reason: str, *, is_forced: bool = False) -> None:
        """End it."""
        self._view.ending(reason)
        if self._run is not None:
            self._run.end(reason, is_forced=is_forced)

    def _beside(self) -> list[Callable[[], Coroutine[Any, Any, None]]]:
        if isinstance(self._transport, TypedTransport):
            assert self._lines is not None
            return [partial(self._read_lines, self._transport, self._lines), self._tell_ready]
        if self._ends is not None:
            return [partial(self._end_after, self._ends.is_over)]
        return [partial(self._show_level, self._transport)]

    # --- the session

    def _on_session(self, session: AgentSession[Any]) -> None:
        self._session = session
        for event in (events.AgentStateChanged, events.UserStateChanged, events.Started):
            session.on(event, lambda _: self._change())
        session.on(events.Started, lambda _: self._has_session.set())

    def _change(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def _entrypoint(self, context: JobContext) -> None:
        try:
            await self._app.worker.entrypoint(context)
        except VoiceError as error:
            if not context.reason:
                self._error = error
                context.shutdown("it cannot be")

    async def _end_after(self, is_over: anyio.Event) -> None:
        """End the conversation when its input has ended and everything is answered."""
        await is_over.wait()
        await self._settled()
        self.end("the input has ended")

    async def _settled(self) -> None:
        """Wait until both sides have been silent for a while, or until the limit."""
        await self._has_session.wait()
        session = self._session
        assert session is not None
        with anyio.move_on_after(MOST_SECONDS):
            while True:
                if session.agent_state is AgentState.IDLE and session.user_state is not UserState.SPEAKING:
                    with anyio.move_on_after(SETTLED_SECONDS) as settling:
                        await self._changed.wait()
                    if settling.cancelled_caught:
                        return
                else:
                    await self._changed.wait()

    async def _tell_ready(self) -> None:
        """Show each time that everything is answered."""
        while True:
            await self._settled()
            self._view.ready()
            self._was_typed = False
            while self._session is None or (self._session.agent_state is AgentState.IDLE and not self._was_typed):
                await self._changed.wait()

    # --- the keyboard

    @contextmanager
    def _keyboard(self) -> Iterator[None]:
        """Handle keys; while lines are typed there are none, and the terminal stays unchanged."""
        if self._lines is not None:
            if self._lines.is_terminal:
                self._view.note("type a line and press Enter; Ctrl-D or Ctrl-C ends")
            yield
            return
        with keys(self._on_key) as has_keys:
            if has_keys:
                self._view.note("m mutes the microphone, space interrupts the agent, q or Ctrl-C ends")
            yield

    async def _read_lines(self, transport: TypedTransport, lines: Lines) -> None:
        await self._has_session.wait()
        is_script = not lines.is_terminal
        while (line := await lines.next()) is not None:
            try:
                asked = UserLine(text=line) if self._read is None else self._read(line)
            except ConfigurationError as error:
                self._view.problem(str(error))
                continue
            if isinstance(asked, InterruptLine):
                self._on_key(" ")
                continue
            # a line that is not typed waits for the answer, or each line would interrupt the answer before
            if self._read is not None or is_script or lines.was_waiting:
                await self._settled()
            self._was_typed = True
            transport.type(asked.text)
            self._change()
        await self._settled()
        self.end("the input has ended")

    def _on_key(self, key: str) -> None:
        if key in ("q", "\x04"):
            self.end("ended by key")
            return
        try:
            self._obey(key)
        except SessionError as error:  # the session takes no calls yet, or no more
            logger.debug("key %r does nothing: %s", key, error)

    def _obey(self, key: str) -> None:
        session = self._session
        if session is None:
            return
        if key == "m":
            session.input.mute(not self._is_muted)
            self._is_muted = not self._is_muted
            self._view.note("the microphone is muted" if self._is_muted else "the microphone is on")
        elif key in (" ", "i"):
            _ = session.interrupt()

    async def _show_level(self, transport: ConsoleTransport) -> None:
        while True:
            await anyio.sleep(METER_SECONDS)
            self._view.level(None if self._is_muted else transport.level)

    async def _obey_signals(self) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            count = 0
            async for _ in signals:
                count += 1
                self.end("interrupted", is_forced=count > 1)

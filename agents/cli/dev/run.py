"""Runs `vivavoce dev`: room, child, display, watching the files, and the reload at each save."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskGroup, TaskStatus
from pydantic import TypeAdapter
from rich.console import Console
from rich.text import Text
from watchfiles import PythonFilter, awatch

from vivavoce.agents.cli.demo import notices
from vivavoce.agents.cli.demo.place import Place, embedded_place
from vivavoce.agents.cli.dev.agent_process import AgentProcess
from vivavoce.agents.cli.dev.child import ChildRequest
from vivavoce.agents.cli.dev.reload import begin_anew, move_calls
from vivavoce.agents.cli.dev.restarts import Restarts
from vivavoce.agents.cli.dev.wire import Message
from vivavoce.agents.cli.live.view import View
from vivavoce.agents.page.server import PageServer
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.states import AgentState, UserState
from vivavoce.pipelines.core.errors import WorkerError
from vivavoce.pipelines.core.ids import new_id

LOAD_LIMIT = 60.0
"""Seconds for an app to be imported and prewarmed."""
REGISTER_LIMIT = 30.0
ROOM_PORT, PAGE_PORT = 7880, 7890
TURN_RECORD = TypeAdapter(TurnRecord)


def death(status: int) -> str:
    """Return the end of a process as text: `status 3`, `killed by SIGKILL`."""
    try:
        return f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    except ValueError:
        return f"killed by signal {-status}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevOptions:
    """Options of `vivavoce dev`.

    Args:
        place: A LiveKit server; None starts the embedded room.
        port: Port of the embedded room, or of the page for `place`; 0 takes a free one, None the usual one.
        watched: Folders whose Python files are watched.
        reloads: Whether a save reloads.
    """

    file: Path
    place: Place | None = None
    port: int | None = None
    agent_name: str | None = None
    watched: Sequence[Path] = ()
    reloads: bool = True


class Dev:
    """One run of the command.

    Args:
        options: Options of the command.
        console: Shows the run.
    """

    def __init__(self, options: DevOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._view = View(console)
        self._count = 0
        self._current: AgentProcess | None = None
        self._page: PageServer | None = None
        self._address = ""
        """The page's, for a browser."""
        self._due = anyio.Event()
        """Set by a save or a crash."""
        self._is_over = anyio.Event()
        """Ends the watch of the files: its thread ignores a cancellation for up to 5 s."""
        self._has_saved = False
        self._restarts = Restarts()
        self._crash_pause = 0.0
        self._began = 0.0
        self._children: list[AgentProcess] = []
        """Running processes: the current one, one that is being loaded, and old ones with calls that could not move."""
        self._orphans: dict[str, dict[str, Any]] = {}
        """Jobs whose process died, by room."""

    async def run(self) -> int:
        """Run until a signal.

        Raises:
            VoiceError: An error that no save could fix: a taken port, a wrong key, a missing extra.
        """
        # A stop must not cancel the children, which end in order: so their group is outside the cancelled one.
        async with anyio.create_task_group() as children:
            try:
                with CancelScope() as serving:
                    await children.start(self._obey_signals, serving)
                    if self._options.reloads:
                        children.start_soon(self._watch)
                    with self._view:
                        async with self._place() as place:
                            await self._serve(place, children)
            finally:
                self._is_over.set()
            children.cancel_scope.cancel()
        return 0

    async def _serve(self, place: Place, children: TaskGroup) -> None:
        try:
            await self._begin(place, children)
            await self._follow_saves(place, children)
        finally:
            with CancelScope(shield=True):
                await self._end_all()

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[Place]:
        place, port = self._options.place, self._options.port
        if place is None:
            async with embedded_place(ROOM_PORT if port is None else port, keeps_waiting_rooms=True) as embedded:
                self._show_place(embedded)
                self._address = f"{embedded.url.replace('ws', 'http', 1)}/"
                yield embedded
            return
        page_port = PAGE_PORT if port is None else port
        account = (place.url, place.api_key, place.api_secret)
        async with PageServer(*account, port=page_port, agent_name=None) as self._page:
            self._show_place(place)
            self._address = self._page.address
            yield place

    # --- children

    async def _begin(self, place: Place, children: TaskGroup) -> None:
        self._current = await self._load(place, children)
        if self._current is not None:
            name = await self._register(self._current)
            if self._options.place is not None and name is not None:
                room = new_id("dev")
                token = replace(place, agent_name=name).join_token(room, "guest")
                notices.show_token(self._console, room, token)
        else:
            self._note("Mend it and save: it is loaded again.")

    async def _load(self, place: Place, children: TaskGroup) -> AgentProcess | None:
        """Start the present code; None: it does not load, and the error is shown."""
        self._count += 1
        request = ChildRequest(
            file=str(self._options.file),
            url=place.url,
            api_key=place.api_key,
            api_secret=place.api_secret,
            agent_name=self._options.agent_name,
        )
        child = AgentProcess(self._count, request, self._on_message, self._on_line)
        self._children.append(child)
        await children.start(child.run)
        try:
            answer = await child.answer("loaded", "failed", limit=LOAD_LIMIT)
        except WorkerError as error:
            answer = {"is": "failed", "error": str(error)}
        if answer["is"] == "loaded":
            if answer["note"]:
                self._note(answer["note"])
            return child
        self._problem(answer.get("error") or f"the agent's process died ({death(answer['status'])})")
        await child.stop()
        return None

    async def _register(self, child: AgentProcess, *, is_first: bool = True) -> str | None:
        """Have it take new calls; return the name that they are dispatched to, or None if it died.

        Args:
            is_first: Whether no other code is registered, so that the registration is worth a line.
        Raises:
            WorkerError: The server does not accept it.
        """
        await child.send("register")
        answer = await child.answer("registered", "failed", limit=REGISTER_LIMIT)
        if answer["is"] == "died":
            return None  # the restart follows
        if answer["is"] != "registered":
            raise WorkerError(answer["error"])
        name: str = answer["agent_name"]
        if self._page is not None:
            self._page.dispatch(name)
        if is_first:
            self._show_page()  # only now an agent answers there
            notices.show_registered(self._console, name)
        self._began = anyio.current_time()
        return name

    async def _end_all(self) -> None:
        async with anyio.create_task_group() as tasks:
            for child in self._children:
                tasks.start_soon(child.stop)

    # --- saves

    async def _follow_saves(self, place: Place, children: TaskGroup) -> None:
        while True:
            await self._due.wait()
            self._due = anyio.Event()
            pause, self._crash_pause = self._crash_pause, 0.0
            if not self._has_saved and self._current is not None:
                continue  # the dead process has been replaced meanwhile
            if not self._has_saved:
                with anyio.move_on_after(pause):
                    await self._due.wait()  # a save
            self._has_saved = False
            await self._reload(place, children)

    async def _watch(self) -> None:
        """Record every save; from before the first load on, so that none is missed."""
        folders = [self._options.file.resolve().parent, *self._options.watched]
        async for changes in awatch(*folders, watch_filter=PythonFilter(), stop_event=self._is_over):
            self._note(f"saved: {', '.join(sorted({Path(path).name for _, path in changes}))}")
            self._has_saved = True
            self._due.set()

    async def _reload(self, place: Place, children: TaskGroup) -> None:
        old = self._current
        new = await self._load(place, children)
        if new is None:
            self._note("The old code continues." if old is not None else "Mend it and save: it is loaded again.")
            return
        moved = [] if old is None else await move_calls(old, new, place, self._note)
        for one in moved:
            if one.error:
                self._problem(f"the new code cannot go on with the call in {one.room}: {one.error}")
        if moved and all(one.error for one in moved):
            self._note("The old code continues.")
            await new.stop()
            return
        have_moved = {one.room for one in moved if not (one.error or one.was_over)}
        orphans = {room: job for room, job in self._orphans.items() if room not in have_moved}
        self._orphans.clear()
        for room, job in orphans.items():
            await begin_anew(room, job, new, place)
        self._current = new
        name = await self._register(new, is_first=old is None)
        if old is not None:
            await old.retire(has_calls=any(one.error for one in moved))  # the calls that could not be moved
        if name is None:
            return
        if old is not None:
            calls = "1 call" if len(have_moved) == 1 else f"{len(have_moved)} calls"
            self._note(f"The new code talks now ({calls} moved).")
        else:
            self._note("It runs now." + (f" Begun again: the call in {', '.join(orphans)}." if orphans else ""))

    # --- messages of the children

    def _on_message(self, child: AgentProcess, message: Message) -> None:
        match message["is"]:
            case "call":
                if not message["is_takeover"]:
                    self._view.call_started(message["room"])
            case "show":
                self._show(message)
            case "died":
                self._children.remove(child)
                self._on_death(child, message["status"])

    def _on_death(self, child: AgentProcess, status: int) -> None:
        if child is not self._current or child.is_ending:
            return
        self._orphans |= child.jobs
        self._current = None
        if self._page is not None:
            self._page.dispatch(None)
        pause = self._crash_pause = self._restarts.pause(ran=anyio.current_time() - self._began)
        self._problem(f"The agent's process died ({death(status)}); it starts again in {pause:g} s, or when you save.")
        self._due.set()

    def _show(self, message: Message) -> None:
        arguments, view = message["arguments"], self._view
        match message["shown"]:
            case "user_state":
                view.user_state(UserState(arguments["state"]))
            case "agent_state":
                view.agent_state(AgentState(arguments["state"]))
            case "turn":
                view.turn(TURN_RECORD.validate_python(arguments["record"]))
            case "call_ended" if arguments["reason"] == "replaced":
                pass  # the call continues
            case "interim" | "caller_said" | "agent_said" | "tool" | "problem" | "call_ended" as what:
                getattr(view, what)(**arguments)

    def _on_line(self, line: str) -> None:
        self._console.print(Text(f"  {line}", style="dim"))

    # --- words

    def _show_place(self, place: Place) -> None:
        kind = "embedded development room" if self._options.place is None else "LiveKit server"
        self._console.print(f"[bold]room    [/bold]{place.url}   [dim]{kind}[/dim]", highlight=False)

    def _show_page(self) -> None:
        self._console.print(f"[bold]page    [/bold]{self._address}   [dim]open it and talk[/dim]", highlight=False)

    def _note(self, text: str) -> None:
        self._view.note(text)

    def _problem(self, text: str) -> None:
        self._view.problem(text)

    async def _obey_signals(self, serving: CancelScope, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                serving.cancel()

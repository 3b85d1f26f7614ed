"""Runs the demo: room, worker, call, report, checks; then the room stays open until a signal."""

from __future__ import annotations

import json
import os
import signal
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskStatus
from rich.console import Console

from vivavoce.agents.caller.measuring import gaps, heard_lines
from vivavoce.agents.cli.demo import checks, notices
from vivavoce.agents.cli.demo.agent import LanguageModel, demo_speech
from vivavoce.agents.cli.demo.caller import CallRequest
from vivavoce.agents.cli.demo.outgoing import place_call
from vivavoce.agents.cli.demo.place import Place, embedded_place
from vivavoce.agents.cli.demo.script import script_of
from vivavoce.agents.cli.demo.speech import Speech
from vivavoce.agents.cli.demo.switchboard import Call, Switchboard
from vivavoce.agents.cli.live.view import View
from vivavoce.agents.cli.report_command import write_page
from vivavoce.agents.records import SessionReport, TurnRecord
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.private_file import write_private
from vivavoce.pipelines.media.wav import read_wav

PAGE = "call.html"
RECORDING = "session.wav"
"""Name of the session's recording, beside the report."""

INTERRUPTED = 130
"""Exit status after a Ctrl-C that cut something short."""

STOP_LIMIT = 1.5
"""Seconds for the worker to end its calls."""
SESSION_END_LIMIT = 8.0
"""Seconds for the session to notice that the caller hung up, and to close."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """Options of the demo.

    Args:
        place: A LiveKit server; None starts the embedded room.
        port: Port of the embedded room; 0 takes a free one.
        is_once: End after the call instead of keeping the room open.
        has_call: Place the simulated call.
        model: Answers the caller; None is the rules, the only answers that the simulated caller understands.
        speech: How both sides speak and hear.
        seed: Chooses the caller's phrases.
    """

    speech: Speech
    seed: int = 0

    place: Place | None = None
    port: int = 7880
    is_once: bool = False
    has_call: bool = True
    report: Path = Path("demo/report.json")
    wav: Path = Path("demo/call.wav")
    model: LanguageModel | None = None


class Demo:
    """One run of the demo.

    Args:
        options: Options of the demo.
        console: Shows the run.
    """

    def __init__(self, options: DemoOptions, console: Console) -> None:
        self._options = options
        self._console = console
        self._view = View(console)
        self._status = INTERRUPTED
        self._stops: list[CancelScope] = []

    async def run(self) -> int:
        """Run to the end and return the exit status.

        Raises:
            VoiceError: An error that the user can fix: a taken port, a wrong key, a missing extra.
        """
        speech = self._options.speech
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._obey_signals)
            with self._view, self._stoppable():
                if self._options.has_call:
                    self._check_targets()
                async with self._place() as place, demo_speech(speech, self._options.model) as make:
                    notices.show_place(self._console, place)
                    notices.show_speech(self._console, speech, self._options.seed if self._options.has_call else None)
                    await self._work(place, Switchboard(make, self._view))
            tasks.cancel_scope.cancel()
        return self._status

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[Place]:
        if self._options.place is not None:
            yield self._options.place
            return
        async with embedded_place(self._options.port, keeps_waiting_rooms=True) as place:
            yield place

    def _check_targets(self) -> None:
        """Report paths that cannot be written at once; folders are made only when there is a call to report."""
        for path in (self._options.wav, self._options.report):
            there = next(place for place in (path, *path.absolute().parents) if place.exists())
            if path.is_dir() or not (there is path or there.is_dir()) or not os.access(there, os.W_OK):
                raise ConfigurationError(_cannot_write(path, "no permission, or a folder"))
        report = self._options.report.absolute()
        if self._options.wav.absolute() in (report, report.with_name(RECORDING), report.with_name(PAGE)):
            raise ConfigurationError(_cannot_write(self._options.wav, "another file of the demo has that name"))

    async def _make_folders(self) -> None:
        for path in (self._options.wav, self._options.report):
            try:
                await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ConfigurationError(_cannot_write(path, error.strerror or str(error))) from error

    async def _work(self, place: Place, board: Switchboard) -> None:
        """Run the worker. A signal first ends the work beside it, then its calls, in order."""
        options = WorkerOptions(
            url=place.url,
            api_key=place.api_key,
            api_secret=place.api_secret,
            executor=TaskExecution(),
            max_retry=2,
            crash_safety=None,
            healing=False,
            entrypoint_timeout=1.0,
        )
        worker = Worker(board.entrypoint, agent_name=place.agent_name, options=options)
        async with anyio.create_task_group() as tasks:
            with self._stoppable():
                await tasks.start(worker.run)
                notices.show_registered(self._console, place.agent_name)
                await self._use(place, board)
            with anyio.move_on_after(STOP_LIMIT, shield=True):
                await worker.aclose()
            tasks.cancel_scope.cancel()

    async def _use(self, place: Place, board: Switchboard) -> None:
        guest_room = new_id("guest")
        token = place.join_token(guest_room, "guest")
        if not self._options.is_once:
            if place.is_embedded:
                notices.show_page(self._console, place.url)
            notices.show_token(self._console, guest_room, token)
        if self._options.has_call:
            self._status = await self._call(place, board)
        else:
            self._status = 0
        if not self._options.is_once:
            notices.show_waiting(self._console)
            await anyio.sleep_forever()

    async def _call(self, place: Place, board: Switchboard) -> int:
        """Place the call and return its exit status."""
        await self._make_folders()
        room = new_id("demo")
        recording = self._options.report.with_name(RECORDING)
        call = board.expect(room, recording=recording)
        request = CallRequest(
            url=place.url,
            token=place.join_token(room, "caller"),
            wav=str(self._options.wav),
            voice=self._options.speech.voice,
            ears=self._options.speech.ears,
            seed=self._options.seed,
        )
        result = await place_call(request, self._caller_event)
        with anyio.move_on_after(SESSION_END_LIMIT) as waiting:
            await call.is_over.wait()
        if waiting.cancelled_caught or call.report is None:
            raise RoomError(f"the agent's session did not end within {SESSION_END_LIMIT:g} s after the caller hung up")
        report = await anyio.to_thread.run_sync(_rename_recording, call.report, recording)
        return await self._conclude(call, report, result)

    def _caller_event(self, event: str, data: dict[str, Any]) -> None:
        if event == "barge_in":
            self._view.barge_in()

    async def _conclude(self, call: Call, report: SessionReport, result: checks.CallResult) -> int:
        recording = await anyio.to_thread.run_sync(read_wav, self._options.wav)
        bookings = [asdict(booking) for booking in call.bookings.made]
        data = {**report.to_json(), "booking": bookings[-1] if bookings else None}
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        await anyio.to_thread.run_sync(write_private, self._options.report, text)
        page = self._options.report.with_name(PAGE)
        await anyio.to_thread.run_sync(write_page, report, page)

        waits = [gap for gap in gaps(recording, result.turns) if gap is not None]
        silences = await anyio.to_thread.run_sync(_silences, report)
        script = script_of(self._options.seed, is_free=self._options.speech.is_free)
        verdict = checks.check_call(result, recording, bookings, (script.first_booking, script.booking))
        verdict += checks.check_latencies(silences, waits, latencies(report.turns))
        notices.show_summary(self._console, report.turns, waits)
        notices.show_checks(self._console, verdict)
        files = {"sound": str(self._options.wav), "report": str(self._options.report), "page": str(page)}
        if report.recordings:
            files["session"] = report.recordings[0].path
        notices.show_files(self._console, files)
        return 0 if all(check.is_met for check in verdict) else 1

    @contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Cancel the block at the next signal, unless a block inside it takes the signal first."""
        with CancelScope() as scope:
            self._stops.append(scope)
            try:
                yield
            finally:
                self._stops.remove(scope)

    async def _obey_signals(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                self._view.ending("interrupted")
                if self._stops:
                    self._stops[-1].cancel()


def _cannot_write(path: Path, reason: str) -> str:
    return f"cannot write {str(path)!r} ({reason}); choose other files with --wav and --report"


def _rename_recording(report: SessionReport, path: Path) -> SessionReport:
    """Give the session's recording the name that it has in each demo, and return the report with that name."""
    path.unlink(missing_ok=True)  # from the last demo, like its other files
    if not report.recordings:
        return report
    record = report.recordings[0]
    if (made := Path(record.path)).exists():  # a recording that failed may have no file
        made.replace(path)
    return replace(report, recordings=(replace(record, path=str(path)),))


def _silences(report: SessionReport) -> list[float] | str:
    """Return the gaps before the agent's answers in its own recording, or the reason why there are none."""
    if not report.recordings:
        return "the agent has recorded nothing"
    record = report.recordings[0]
    if record.error:
        return f"the agent's recording broke off: {record.error}"
    try:
        recording = read_wav(Path(record.path))
    except (OSError, EOFError, ValueError, wave.Error) as error:
        return f"cannot read the agent's recording: {error}"
    return [gap for gap in gaps(recording, heard_lines(recording)) if gap is not None]


def latencies(turns: tuple[TurnRecord, ...]) -> list[float]:
    """Return the agent's own measurements of the user turns that it answered, in order."""
    return [turn.e2e_latency for turn in turns if turn.e2e_latency is not None]

"""Runs `vivavoce call`: the requested number of calls, some at a time, each judged, and one report of them all."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from rich.console import Console
from rich.markup import escape
from rich.text import Text

from vivavoce.agents.caller.process import NoAnswerError, run_caller
from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.verdict import CallReport, judge, summary
from vivavoce.agents.cli.live.groups import Groups
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, WorkerError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.core.private_file import write_private
from vivavoce.pipelines.media.wav import read_wav

logger = logging.getLogger(__name__)

CALLER = "vivavoce.agents.cli.call.caller"
INTERRUPTED = 130
_SHOWN = {
    "says": "caller",
    "barge_in": "caller cuts in",
    "heard": "agent",
    "left": "agent leaves",
    "returned": "agent is back",
}
"""The caller's events that are shown → their label."""
CALLER_IDENTITY = "caller"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOptions:
    """Whom to call, how often, and where the results go.

    Args:
        room: Name of the room; with `repeat` the calls' numbers are added to it. Empty takes an unused name.
        agent_name: Dispatched into the room; empty leaves it to the server, or to an agent that is there already.
        out: Folder of the recordings and `result.json`.
        answer_limit: Seconds for the agent to come.
        wire: `twilio` for a server of media streams, whose vendor signs with `api_secret`; empty for a room.
    """

    url: str
    api_key: str
    api_secret: str = field(repr=False)
    room: str = ""
    agent_name: str = ""
    repeat: int = 1
    parallel: int = 1
    out: Path = Path("call")
    answer_limit: float = 20.0
    wire: str = ""


async def place_calls(script: CallScript, options: CallOptions, console: Console) -> int:
    """Place all calls and return 0 if every one passed, 1 if not, 130 after Ctrl-C.

    Raises:
        ConfigurationError: The folder cannot be written.
    """
    folder = anyio.Path(options.out)
    try:
        await folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigurationError(f"cannot write to the folder {str(options.out)!r}: {reason}; give --out") from error
    # To the very end: a second signal, while calls end or the result is written, must not lose it.
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        reports, is_interrupted = await _place_all(script, options, console, signals)
        data = summary(reports)
        result = options.out / "result.json"
        await anyio.to_thread.run_sync(write_private, result, json.dumps(data, indent=2, ensure_ascii=False) + "\n")
        _conclude(console, data, str(result))
    if is_interrupted:
        return INTERRUPTED
    return 0 if data["passed"] else 1


async def _place_all(
    script: CallScript, options: CallOptions, console: Console, signals: AsyncIterator[signal.Signals]
) -> tuple[list[CallReport], bool]:
    """Place all calls, or those before the first signal; return their reports, and whether a signal came."""
    base = options.room or new_id("call")
    rooms = [base] if options.repeat == 1 else [f"{base}-{number}" for number in range(1, options.repeat + 1)]
    reports: list[CallReport | None] = [None] * options.repeat
    limiter = anyio.CapacityLimiter(options.parallel)
    is_interrupted = False
    async with anyio.create_task_group() as watch:

        async def obey_signal() -> None:
            nonlocal is_interrupted
            await anext(signals)
            is_interrupted = True
            watch.cancel_scope.cancel()

        async def place(number: int) -> None:
            async with limiter:
                reports[number] = report = await _place(script, options, rooms[number], number, console)
                _show(console, number, report, is_one=options.repeat == 1)

        watch.start_soon(obey_signal)
        async with anyio.create_task_group() as tasks:
            for number in range(options.repeat):
                tasks.start_soon(place, number)
        watch.cancel_scope.cancel()
    return [report for report in reports if report is not None], is_interrupted


async def _place(script: CallScript, options: CallOptions, room: str, number: int, console: Console) -> CallReport:
    """Place one call; a call that could not be placed counts as failed."""
    name = "call.wav" if options.repeat == 1 else f"call-{number + 1}.wav"
    path = options.out / name
    request = {
        "url": options.url,
        "token": options.api_secret if options.wire else _token(options, room),
        "wire": options.wire,
        "wav": str(path),
        "script": script.model_dump(mode="json"),
        "answer_limit": options.answer_limit,
    }

    def on_event(event: str, data: dict[str, Any]) -> None:
        if options.repeat == 1 and event in _SHOWN:
            console.print(f"[dim]{_SHOWN[event]:>14}[/dim]  {escape(data.get('text', ''))}".rstrip(), highlight=False)

    try:
        result = await run_caller(CALLER, request, on_event)
    except RoomError as error:
        failure = await _failure(options, room) if isinstance(error, NoAnswerError) else ""
        return CallReport(room=room, recording="", problem=failure or str(error))
    recording = await anyio.to_thread.run_sync(read_wav, path)
    return await anyio.to_thread.run_sync(judge, script, result, recording, room, str(path))


async def _failure(options: CallOptions, room: str) -> str:
    """Return that the room's agent has failed, and its error; empty if unknown: only development rooms list it."""
    account = Credentials(url=options.url, api_key=options.api_key, api_secret=options.api_secret)
    try:
        async with ServerApi(account) as server:
            jobs = [job for dispatch in await server.dispatches(room) for job in dispatch.jobs]
    except WorkerError as error:
        logger.debug("why no agent came to %s is unknown: %s", room, error)
        return ""
    failed = [job.error for job in jobs if job.error]
    return f"no agent answered the call: the agent's code failed before in this room: {failed[-1]}" if failed else ""


def _token(options: CallOptions, room: str) -> str:
    from livekit import api

    token = (
        api.AccessToken(options.api_key, options.api_secret)
        .with_identity(CALLER_IDENTITY)
        .with_grants(api.VideoGrants(room_join=True, room=room))
    )
    if options.agent_name:
        dispatch = api.RoomAgentDispatch(agent_name=options.agent_name)
        token = token.with_room_config(api.RoomConfiguration(agents=[dispatch]))
    return token.to_jwt()


def _show(console: Console, number: int, report: CallReport, *, is_one: bool) -> None:
    if is_one:
        for line in report.lines:
            latency = "" if line.latency is None else f"  [dim]after {line.latency:.2f} s[/dim]"
            console.print(f"[bold]{escape(line.line)}[/bold]{latency}  {escape(line.heard)}", highlight=False)
            for check in line.checks:
                mark = "[green]✓[/green]" if check.is_met else "[bold red]✗[/bold red]"
                console.print(f"  {mark} {escape(check.name)}: {escape(check.found)}", highlight=False)
        if report.problem:
            console.print(f"[bold red]✗[/bold red] {escape(report.problem)}", highlight=False)
        return
    mark = "[green]✓[/green]" if report.has_passed else "[bold red]✗[/bold red]"
    console.print(f"{mark} call {number + 1}  {escape('; '.join(report.failures))}", highlight=False)


def _conclude(console: Console, data: dict[str, Any], path: str) -> None:
    latency = data["latency"]
    told = [f"{data['calls_passed']} of {data['calls_placed']} calls passed"]
    if latency is not None:
        told += [f"answers after {latency['median']:.2f} s (median)", f"{latency['max']:.2f} s (longest)"]
    *before, last = (Text(text, "" if number else "bold") for number, text in enumerate(told))
    console.print()
    console.print(Groups([*(text.append(",") for text in before), last.append(";"), Text(path)]))

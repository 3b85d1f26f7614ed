"""The command `vivavoce connect`: the agent of a file joins one room, without being dispatched there."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import anyio
import typer
from anyio import CancelScope

from vivavoce.agents.cli.demo_command import ApiKey, ApiSecret, Url
from vivavoce.agents.cli.given import given_server, no_server
from vivavoce.agents.cli.running import run
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from rich.console import Console

    from vivavoce.agents.cli.app_file import App
    from vivavoce.agents.cli.demo.place import Place

END_LIMIT = 20.0
"""Seconds for the job to end at Ctrl-C, beyond its own limits."""


def connect(
    file: Annotated[Path, typer.Argument(help="A Python file with a Worker, an entrypoint, or an Agent.")],
    room: Annotated[str, typer.Option(help="The room to join; it is made if it is not there.")],
    url: Url = None,
    api_key: ApiKey = None,
    api_secret: ApiSecret = None,
    identity: Annotated[str | None, typer.Option(help="The agent's identity in the room.")] = None,
    metadata: Annotated[str, typer.Option(help="The job's metadata.")] = "",
) -> None:
    """Have an agent join one room by its name, without a worker and without dispatch, until the call ends or Ctrl-C.

    Useful to examine one call: the room may exist already, with people in it. Status 1 if the agent's code failed.
    """
    from rich.console import Console

    from vivavoce.agents.cli.app_file import check_file, load_app

    check_file(file)
    if not url:
        raise no_server()
    if not room.strip():
        raise ConfigurationError("--room needs the name of a room, got an empty one")
    place = given_server(url, api_key, api_secret)
    logging.getLogger("livekit").setLevel(logging.CRITICAL)
    app = load_app(file, has_default=True)
    job_identity = identity or f"agent-{room}"

    async def work() -> int:
        return await _join(app, place, room, job_identity, metadata, Console())

    raise typer.Exit(run(work))


async def _join(app: App, place: Place, room: str, identity: str, metadata: str, console: Console) -> int:
    from vivavoce.agents.cli.direct import DirectJob
    from vivavoce.agents.cli.live.follow import LocalWatch
    from vivavoce.agents.cli.live.view import View
    from vivavoce.agents.worker.worker import shared_parts

    with View(console) as view:
        job = DirectJob(app.worker, place, LocalWatch(view, publishes_turns=True))
        if app.note:
            view.note(app.note)
        view.call_started(room)
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with anyio.create_task_group() as tasks:

                async def obey() -> None:
                    async for _ in signals:
                        view.ending("interrupted")
                        job.end("interrupted")

                tasks.start_soon(obey)
                try:
                    error = await job.run(room, identity, metadata)
                finally:
                    with CancelScope(shield=True):
                        await shared_parts(app.worker).aclose()
                tasks.cancel_scope.cancel()
        if error:
            view.problem(f"the agent failed: {error}")
    return 1 if error else 0

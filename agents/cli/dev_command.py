"""The command `vivavoce dev`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from vivavoce.agents.cli.demo_command import ApiKey, ApiSecret, Url
from vivavoce.agents.cli.given import given_server
from vivavoce.agents.cli.running import ROOM_PACKAGES, need_packages, run
from vivavoce.pipelines.core.errors import ConfigurationError


def dev(
    file: Annotated[Path, typer.Argument(help="A Python file with a Worker, an entrypoint, or an Agent.")],
    port: Annotated[
        int | None,
        typer.Option(
            help="Where the room listens (7880), or, for a given server, the page (7890); 0 takes a free port."
        ),
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    api_secret: ApiSecret = None,
    agent_name: Annotated[str | None, typer.Option(help="Take only jobs dispatched to this name.")] = None,
    watch: Annotated[list[Path] | None, typer.Option(help="Another folder to watch; may be repeated.")] = None,
    no_reload: Annotated[bool, typer.Option("--no-reload", help="Do not watch for saves.")] = False,
) -> None:
    """Talk to an agent while you write it: a room, a page, a live log, and new code at every save.

    Without --url (or LIVEKIT_URL) it runs a room on this machine; for a given server it serves only the page. A save
    replaces the agent's code in the middle of the call: the caller stays in the room and the conversation continues.
    The error of code that does not load is shown, and the old code continues. A process that dies is started again.
    """
    from rich.console import Console

    from vivavoce.agents.cli.app_file import check_file
    from vivavoce.agents.cli.dev.run import Dev, DevOptions

    check_file(file)
    for folder in watch or []:
        if not folder.is_dir():
            raise ConfigurationError(f"--watch '{folder}' is no folder; give one with Python files")
    if not url:
        need_packages("room", ROOM_PACKAGES)
    place = given_server(url, api_key, api_secret) if url else None
    logging.getLogger("livekit").setLevel(logging.CRITICAL)
    options = DevOptions(
        file=file, place=place, port=port, agent_name=agent_name, watched=watch or [], reloads=not no_reload
    )
    raise typer.Exit(run(Dev(options, Console()).run))

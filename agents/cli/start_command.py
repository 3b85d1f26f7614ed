"""The command `vivavoce start`: runs the worker of a file."""

from __future__ import annotations

import logging
import os
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from vivavoce.agents.cli.given import no_server
from vivavoce.agents.cli.running import configure_logging, run
from vivavoce.agents.worker.executors.nursery_process import start_nursery

logger = logging.getLogger(__name__)

Text = str | None


def start(
    file: Annotated[Path, typer.Argument(help="A Python file with a Worker, an entrypoint, or an Agent.")],
    url: Annotated[Text, typer.Option(help="LiveKit server; else the file's own, else LIVEKIT_URL.")] = None,
    api_key: Annotated[Text, typer.Option(help="Else the file's own, else LIVEKIT_API_KEY.")] = None,
    api_secret: Annotated[Text, typer.Option(help="Else the file's own, else LIVEKIT_API_SECRET.")] = None,
    agent_name: Annotated[Text, typer.Option(help="Take only jobs dispatched to this name.")] = None,
    health_port: Annotated[int | None, typer.Option(help="Answer health checks on this port.")] = None,
    health_host: Annotated[
        Text, typer.Option(help="Address of the health checks; 0.0.0.0 for probes of other machines.")
    ] = None,
    log_format: Annotated[Text, typer.Option(help="Format of the log: text or json; else LOG_FORMAT.")] = None,
) -> None:
    """Run an agent worker: it registers with a LiveKit server and takes calls until Ctrl-C.

    FILE holds a `Worker` that has a name at the top level, or an async function `entrypoint(ctx)`, or one `Agent` class
    with a method `pipeline()`.
    """
    # It loads the modules of the jobs on another core meanwhile: a call whose worker was killed waits for both.
    with closing(start_nursery()) as nursery:
        from vivavoce.agents.cli.app_file import load_app, with_options
        from vivavoce.agents.worker.process import run_worker

        configure_logging(logging.INFO, log_format)
        logging.getLogger("livekit").setLevel(logging.WARNING)  # its native part logs every connection
        app = load_app(file)
        worker = with_options(
            app.worker,
            url=url,
            api_key=api_key,
            api_secret=api_secret,
            agent_name=agent_name,
            health_port=health_port,
            health_host=health_host,
        )
        if not (worker.options.url or os.environ.get("LIVEKIT_URL")):
            raise no_server()
        if app.runs:
            calls = f"the jobs of agent {worker.agent_name!r}" if worker.agent_name else "each new room"
            text = "no top-level name of %s holds a Worker: %s runs with default options and takes %s"
            logger.info(text, file, app.runs, calls)

        async def work() -> int:
            await run_worker(worker, nursery)
            return 0

        raise typer.Exit(run(work))

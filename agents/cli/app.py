"""The typer app: its commands, and the handling of their errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from vivavoce.agents.cli.call_command import call
from vivavoce.agents.cli.connect_command import connect
from vivavoce.agents.cli.console_command import console
from vivavoce.agents.cli.demo_command import demo
from vivavoce.agents.cli.dev_command import dev
from vivavoce.agents.cli.doctor_command import doctor
from vivavoce.agents.cli.environment import load_env_file
from vivavoce.agents.cli.models_command import models
from vivavoce.agents.cli.new_command import new
from vivavoce.agents.cli.page_command import page
from vivavoce.agents.cli.plugins_command import plugins
from vivavoce.agents.cli.replay_command import replay
from vivavoce.agents.cli.report_command import report
from vivavoce.agents.cli.room_command import room
from vivavoce.agents.cli.running import complain, configure_logging, ignore_short_secrets, own_version
from vivavoce.agents.cli.serve_command import serve
from vivavoce.agents.cli.start_command import start
from vivavoce.pipelines.core.errors import VoiceError
from vivavoce.pipelines.core.native_threads import bound_process
from vivavoce.pipelines.core.process_end import run_process

PROGRAM = "vivavoce"


def _version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"vivavoce {own_version()}")
        raise typer.Exit


app = typer.Typer(
    name=PROGRAM,
    help="Realtime voice agents in LiveKit rooms.",
    epilog="New here? Run: vivavoce demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def common(
    env_file: Annotated[
        Path | None,
        typer.Option(help="A file of NAME=value lines; else .env in the working directory. The environment wins."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Realtime voice agents in LiveKit rooms."""
    load_env_file(env_file)
    bound_process()  # the file may have values for it
    configure_logging()  # LOG_LEVEL may have come with it


app.command()(demo)
app.command()(new)
app.command()(dev)
app.command()(start)
app.command()(serve)
app.command()(console)
app.command()(connect)
app.command()(room)
app.command()(page)
app.command()(call)
app.command()(replay)
app.command()(report)
app.command()(plugins)
app.add_typer(models, name="models")
app.command()(doctor)


def run_app() -> NoReturn:
    """Run the app and end the process with the status of its command."""
    run_process(run_command)


def run_command() -> None:
    """Run the app; expected errors become one line on stderr and exit status 1, others keep their traceback.

    Raises:
        SystemExit: The command is over.
    """
    try:
        configure_logging()
        ignore_short_secrets()
        app(prog_name=PROGRAM)
    except VoiceError as error:
        complain(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run_app()

"""The typer app: which commands there are, and what becomes of their errors."""

from __future__ import annotations

import sys

import typer

from vivavoce.agents.cli.call_command import call
from vivavoce.agents.cli.demo_command import demo
from vivavoce.agents.cli.dev_command import dev
from vivavoce.agents.cli.page_command import page
from vivavoce.agents.cli.replay_command import replay
from vivavoce.agents.cli.report_command import report
from vivavoce.agents.cli.room_command import room
from vivavoce.agents.cli.running import complain, configure_logging
from vivavoce.agents.cli.start_command import start
from vivavoce.pipelines.core.errors import VoiceError

app = typer.Typer(
    name="vivavoce",
    help="Realtime voice agents in LiveKit rooms.",
    epilog="New here? Run: vivavoce demo",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(dev)
app.command()(start)
app.command()(room)
app.command()(page)
app.command()(call)
app.command()(replay)
app.command()(report)


def run_app() -> None:
    """Run the app; expected errors become one line on stderr and exit status 1, others keep their traceback."""
    configure_logging()
    try:
        app()
    except VoiceError as error:
        complain(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run_app()

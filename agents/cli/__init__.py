"""The command line `vivavoce`: one file a command. Importing this loads neither typer nor rich."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main() -> None:
    """Run the command that the arguments name; the entry point of the script `vivavoce`.

    `vivavoce start` runs in a process of its own, and this one becomes its guardian.
    """
    arguments = sys.argv[1:]
    if command_of(arguments) == "start":
        from vivavoce.agents.worker.guardian import guard

        sys.exit(guard([sys.executable, "-P", "-m", "vivavoce.agents.cli.app", *arguments]))
    from vivavoce.agents.cli.app import run_app

    run_app()


def command_of(arguments: Sequence[str]) -> str:
    """Return the command among the arguments; empty without one. Of the options before it, one has a value."""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--env-file":
            next(rest, "")
        elif not argument.startswith("-"):
            return argument
    return ""

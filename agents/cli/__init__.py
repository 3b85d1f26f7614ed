"""The command line `vivavoce`: one file a command. Importing this loads neither typer nor rich."""

from __future__ import annotations


def main() -> None:
    """Run the command that the arguments name; the entry point of the script `vivavoce`."""
    from vivavoce.agents.cli.app import run_app

    run_app()

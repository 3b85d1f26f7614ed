"""The command `vivavoce room`: the embedded development room, for agents of your own."""

from __future__ import annotations

import signal
from typing import Annotated

import anyio
import typer

from vivavoce.agents.cli.running import ROOM_PACKAGES, need_packages, run

GUEST = "guest"


def room(
    port: Annotated[int, typer.Option(help="Where it listens; 0 takes a free port.")] = 7880,
    name: Annotated[str, typer.Option(help="The room that the printed token joins.")] = "hello",
) -> None:
    """Run a development room on this machine, for your own agents and any LiveKit client, until Ctrl-C."""
    from vivavoce.agents.cli.demo.place import embedded_place

    need_packages("room", ROOM_PACKAGES)

    async def serve() -> int:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with embedded_place(port) as place:
                typer.echo(f"room    {place.url}   for this machine and for development only")
                typer.echo(
                    f"page    {place.url.replace('ws', 'http', 1)}/   open it in a browser; each call is a new room"
                )
                typer.echo(f"key     {place.api_key}")
                typer.echo(f"secret  {place.api_secret}")
                typer.echo(f"token   {place.join_token(name, GUEST)}")
                typer.echo(
                    f"\nThe token lets {GUEST!r} join {name!r} with any LiveKit client. Give the room an agent first:"
                )
                typer.echo(
                    f"vivavoce start app.py --url {place.url} --api-key {place.api_key} --api-secret {place.api_secret}"
                )
                async for _ in signals:
                    break
        return 0

    raise typer.Exit(run(serve))

"""The command `vivavoce page`: the browser page for a LiveKit server that runs elsewhere."""

from __future__ import annotations

import signal
from typing import Annotated

import anyio
import typer

from vivavoce.agents.cli.running import run

URL_VARIABLE, KEY_VARIABLE, SECRET_VARIABLE = "LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"


def page(
    url: Annotated[
        str | None, typer.Option(envvar=URL_VARIABLE, help="The LiveKit server, such as wss://example.com.")
    ] = None,
    api_key: Annotated[str | None, typer.Option(envvar=KEY_VARIABLE, help="Its API key.", show_envvar=True)] = None,
    api_secret: Annotated[str | None, typer.Option(envvar=SECRET_VARIABLE, help="Its API secret.")] = None,
    agent_name: Annotated[
        str, typer.Option(help="Dispatch this agent to each call; else the server sends every room its own.")
    ] = "",
    room: Annotated[str, typer.Option(help="Always join this room; else each call has a room of its own.")] = "",
    port: Annotated[int, typer.Option(help="Where the page listens; 0 takes a free port.")] = 7890,
) -> None:
    """Serve the browser page for any LiveKit server, on this machine only, until Ctrl-C.

    It makes the callers' tokens itself: the API secret never reaches the browser. The embedded room (`vivavoce room`,
    `dev`, `demo`) serves the same page without this command.
    """
    from urllib.parse import quote

    from vivavoce.agents.page.server import PageServer
    from vivavoce.agents.worker.options import websocket_url
    from vivavoce.pipelines.core.checks import check_port

    check_port("port", port)
    server = PageServer(
        websocket_url(_needed("a LiveKit server", url, "--url", URL_VARIABLE)),
        _needed("its API key", api_key, "--api-key", KEY_VARIABLE),
        _needed("its API secret", api_secret, "--api-secret", SECRET_VARIABLE),
        port=port,
        agent_name=agent_name,
    )

    async def serve() -> int:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with server:
                typer.echo(f"page  {server.address}{f'?room={quote(room)}' if room else ''}")
                typer.echo("\nOpen it in a browser on this machine; Ctrl-C ends it.")
                async for _ in signals:
                    break
        return 0

    raise typer.Exit(run(serve))


def _needed(what: str, value: str | None, flag: str, variable: str) -> str:
    from vivavoce.pipelines.core.errors import ConfigurationError

    if not value:
        raise ConfigurationError(f"the page needs {what}: give {flag}, or set {variable}")
    return value

"""PageServer: serves the page for a LiveKit server that runs elsewhere, and makes its tokens."""

from __future__ import annotations

import errno
from types import TracebackType
from typing import Self

from aiohttp import web

from vivavoce.agents.page.door import PageDoor, mint_with
from vivavoce.pipelines.core.checks import check_port
from vivavoce.pipelines.core.errors import RoomError

HOST = "127.0.0.1"


class PageServer:
    """`async with PageServer(url, api_key, api_secret) as page: page.address`. It listens on loopback only.

    Args:
        url: The LiveKit server, `ws://…` or `wss://…`.
        api_key: Its key.
        api_secret: Its secret; it never leaves this process.
        port: Port to listen on; 0 takes a free one.
        agent_name: The agent to dispatch to each call; empty if the server gives every room one.
    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(self, url: str, api_key: str, api_secret: str, *, port: int = 0, agent_name: str = "") -> None:
        check_port("port", port)
        self._agent_name = agent_name
        self._door = PageDoor(
            lambda room, identity: mint_with(api_key, api_secret, agent_name=self._agent_name)(room, identity), url=url
        )
        self._wanted_port = port
        self._runner: web.AppRunner | None = None

    def dispatch(self, agent_name: str) -> None:
        """Dispatch this agent to later calls."""
        self._agent_name = agent_name

    @property
    def address(self) -> str:
        """The page's address for a browser, for example `http://127.0.0.1:7890/`."""
        if self._runner is None:
            raise RoomError("the page has no address yet: enter it with 'async with' first")
        return f"http://{HOST}:{self._runner.addresses[0][1]}/"

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            RoomError: The port is taken.
        """
        app = web.Application()
        self._door.add_routes(app.router)
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.3)
        await runner.setup()
        try:
            await web.TCPSite(runner, HOST, self._wanted_port).start()
        except OSError as error:
            await runner.cleanup()
            taken = "is taken by another program" if error.errno == errno.EADDRINUSE else f"cannot be used: {error}"
            raise RoomError(f"port {self._wanted_port} {taken}; choose another one (0 takes a free one)") from error
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

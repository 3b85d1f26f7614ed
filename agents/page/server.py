"""PageServer: serves the page for a LiveKit server that runs elsewhere, and makes its tokens."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
from aiohttp import web

from vivavoce.agents.page.door import PageDoor, mint_with
from vivavoce.pipelines.core.checks import check_port
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.core.ports import why_no_port

HOST = "127.0.0.1"
AGENT_LIMIT = 20.0
"""Seconds for which a caller waits for an agent that is not registered yet."""


class PageServer:
    """`async with PageServer(url, api_key, api_secret) as page: page.address`. It listens on loopback only.

    Args:
        url: The LiveKit server, `ws://…` or `wss://…`.
        api_key: Its key.
        api_secret: Its secret; it never leaves this process.
        port: Port to listen on; 0 takes a free one.
        agent_name: The agent to dispatch to each call; empty if the server gives every room one. None: it is not
            registered yet, and callers wait for it; a server does not send it to rooms that were there before.
    Raises:
        ConfigurationError: There is no such port.
    """

    def __init__(self, url: str, api_key: str, api_secret: str, *, port: int = 0, agent_name: str | None = "") -> None:
        check_port("port", port)
        self._agent_name = agent_name
        self._has_agent = anyio.Event()
        self.dispatch(agent_name)
        self._door = PageDoor(
            lambda room, identity: mint_with(api_key, api_secret, agent_name=self._agent_name or "")(room, identity),
            url=url,
            agent=self._agent,
        )
        self._wanted_port = port
        self._runner: web.AppRunner | None = None

    def dispatch(self, agent_name: str | None) -> None:
        """Dispatch this agent to later calls and to the callers who wait; None: later callers wait."""
        self._agent_name = agent_name
        if agent_name is not None:
            self._has_agent.set()
        elif self._has_agent.is_set():
            self._has_agent = anyio.Event()

    async def _agent(self) -> bool:
        """Wait for the agent; return whether it is there."""
        with anyio.move_on_after(AGENT_LIMIT):
            while self._agent_name is None:
                await self._has_agent.wait()
        return self._agent_name is not None

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
            raise RoomError(why_no_port(error, HOST, self._wanted_port)) from error
        self._runner = runner
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

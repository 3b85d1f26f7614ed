"""MemoryServer: the SDK's server in the test's own loop, so that virtual time runs, with faults on command."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.mcp_servers import MCPServer

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer as App
    from vivavoce.agents.mcp_servers import Connector


class Line:
    """The test's control of the connection to a server, and its record."""

    def __init__(self) -> None:
        self.opened = 0
        self.closed = 0
        self.hangs = False
        self.fails = False
        self._server_side: Any = None

    async def cut(self) -> None:
        """Let the server go, as a process that crashes does."""
        await self._server_side.aclose()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryServer(MCPServer):
    """A server in the same process; also an example of a custom transport."""

    app: App
    line: Line = field(default_factory=Line)

    @property
    def label(self) -> str:
        """The app's name."""
        return self.name or self.app.name

    def connectors(self) -> Sequence[Connector]:
        """Return the one way."""
        return [self._connect]

    @asynccontextmanager
    async def _connect(self) -> AsyncIterator[Any]:
        from mcp.shared.memory import create_client_server_memory_streams

        line, server = self.line, self.app._lowlevel_server
        line.opened += 1
        if line.hangs:
            await anyio.sleep_forever()
        if line.fails:
            raise ConnectionRefusedError(111, "Connection refused")
        async with create_client_server_memory_streams() as (ours, (incoming, outgoing)):
            line._server_side = outgoing
            async with anyio.create_task_group() as group:
                group.start_soon(server.run, incoming, outgoing, server.create_initialization_options())
                try:
                    yield ours
                finally:
                    line.closed += 1
                    group.cancel_scope.cancel()


def library(*names: str) -> App:
    """Return a server with async tools of these names; each answers with its name and its text."""
    from mcp.server.mcpserver import MCPServer as App

    app = App("library", log_level="CRITICAL")
    for name in names:
        app.add_tool(_answering(name), name=name, description=f"Does {name}.", structured_output=False)
    return app


def _answering(name: str) -> Callable[..., Any]:
    async def answer(text: str = "", seconds: float = 0.0) -> str:
        await anyio.sleep(seconds)
        return f"{name}: {text}"

    return answer

"""MCPConnection: one MCP server for one session: connected, listed, called, connected again after a loss."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.tools.mcp.results import reason, result_text
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ToolError, ToolServerError, first_error
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

if TYPE_CHECKING:
    from mcp.client import Client
    from mcp.types import Tool as OfferedTool

    from vivavoce.agents.mcp_servers import Connector

logger = logging.getLogger(__name__)

MAX_PAGES = 100
"""Pages of a tool list; a server that always has one more is not waited for."""

LEAVE_LIMIT = 1.0
"""Seconds for a farewell over HTTP, after which the connection is cut; a child process has limits of its own."""

SESSION_UNKNOWN = "Session terminated"
"""The SDK's error code for HTTP status 404 to a session: the server was restarted and has not taken the call."""


class MCPConnection:
    """One server, as one session has it.

    Args:
        group: Owns the connection's task.
        report: Called when a connected server is lost, and when it cannot be reached again.
    """

    def __init__(
        self, server: MCPServer, group: TaskGroup, clock: Clock, *, report: Callable[[Exception], None]
    ) -> None:
        self.server = server
        self._group = group
        self._clock = clock
        self._report = report
        self._link: _Link | None = None
        self._links: list[_Link] = []
        self._connecting = anyio.Lock()
        self._is_closing = False

    async def open(self) -> list[OfferedTool]:
        """Connect and return the tools that the server offers.

        Raises:
            ToolServerError: It is not there within `start_timeout`; its tasks are cut and left behind.
        """
        link = _Link(self.server, self._on_lost)
        self._links = [*(other for other in self._links if not other.ended.is_set()), link]
        if "mcp" not in sys.modules:
            with self._clock.hold():
                await anyio.to_thread.run_sync(import_module, "mcp")  # most of a second, too long for the loop
        self._group.start_soon(link.run, name=f"MCP server {self.server.label}")
        try:
            with anyio.fail_after(self.server.start_timeout):
                await link.known.wait()
        except TimeoutError:
            link.cut()
            raise self._error(f"was not ready within {self.server.start_timeout:g} s") from None
        except BaseException:
            link.cut()
            raise
        if link.client is None:
            why = "closed the connection" if link.failure is None else reason(link.failure)
            raise self._error(f"did not start: {why}") from link.failure
        self._link = link
        return link.tools

    async def call(self, name: str, arguments: dict[str, Any]) -> str:
        """Call the server's tool `name` and return its result.

        Raises:
            ToolError: The call failed; the text is for the model.
        """
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        for is_last in (False, True):
            link = await self._connected()
            try:
                return result_text(await link.call(name, arguments))
            except MCPError as error:
                if error.message == SESSION_UNKNOWN and not is_last:
                    link.lose()
                    continue
                if error.code == CONNECTION_CLOSED:
                    link.lose()
                    raise ToolError(
                        "The tool's server was lost; whether the call had its effect is not known."
                    ) from error
                raise ToolError(f"The tool's server refused the call: {error.message}") from error
        raise AssertionError("the second try returns or raises")

    async def aclose(self) -> None:
        """Leave the server and wait until its task has ended; the caller bounds it."""
        self._is_closing = True
        for link in self._links:
            if link.is_open:
                link.leave()
            else:
                link.cut()
        with anyio.move_on_after(LEAVE_LIMIT):
            for link in self._links:
                await link.ended.wait()
        for link in self._links:
            link.cut()
        for link in self._links:
            await link.ended.wait()

    async def _connected(self) -> _Link:
        async with self._connecting:  # calls side by side wait for one new connection
            link = self._link
            if link is not None and link.is_open:
                return link
            if self._is_closing:
                raise ToolError("The tool's server is closed.")
            logger.info("MCP server %s is connected anew", self.server.label)
            try:
                await self.open()
            except ToolServerError as error:
                logger.warning("%s", error)
                self._report(error)
                raise ToolError("The tool's server cannot be reached.") from error
            assert self._link is not None
            return self._link

    def _on_lost(self, failure: Exception | None) -> None:
        why = "the connection ended" if failure is None else reason(failure)
        error = self._error(f"was lost: {why}; the next call connects anew")
        logger.warning("%s", error)
        self._report(error)

    def _error(self, what: str) -> ToolServerError:
        return ToolServerError(what, server=self.server.label)


class _Link:
    """One connection from its beginning to its end: `run` is its task."""

    def __init__(self, server: MCPServer, on_lost: Callable[[Exception | None], None]) -> None:
        self.client: Client | None = None
        self.tools: list[OfferedTool] = []
        self.failure: Exception | None = None
        self.known = anyio.Event()
        """Set when it is connected or has failed."""
        self.ended = anyio.Event()
        self._server = server
        self._on_lost = on_lost
        self._over = anyio.Event()
        self._scope = anyio.CancelScope()
        self._is_left = False

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return self.client is not None and not self._over.is_set() and not self.ended.is_set()

    def leave(self) -> None:
        self._is_left = True
        self._over.set()

    def cut(self) -> None:
        """End it now. A child process still gets the SDK's own, bounded end."""
        self.leave()
        self._scope.cancel()

    def lose(self) -> None:
        """End the link, and have its user see that it is of no use any more."""
        self._over.set()
        self._scope.cancel()

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool; the caller's own task waits."""
        assert self.client is not None
        return await self.client.call_tool(name, arguments)

    async def run(self) -> None:
        """Connect, by the first way that answers, and stay connected."""
        try:
            with self._scope, strays_as_errors(f"MCP server {self._server.label}"):
                await self._try_ways()
        except Exception as error:  # noqa: BLE001 - one server's failure is its own; the session goes on
            self.failure = first_error(error)
            logger.debug("MCP server %s failed: %s", self._server.label, reason(self.failure))
        finally:
            was_open = self.client is not None
            self.ended.set()
            self.known.set()
            if was_open and not self._is_left:
                self._on_lost(self.failure)

    async def _try_ways(self) -> None:
        first: Exception | None = None
        for connector in self._server.connectors():
            try:
                await self._stay(connector)
                return
            except Exception as error:  # noqa: BLE001 - the SDK passes on any error of its transports; the next way is tried
                if self.client is not None:
                    raise
                first = first or error
        if first is not None:
            raise first

    async def _stay(self, connector: Connector) -> None:
        from mcp.client import Client

        transport = _watched(connector, self._over.set)
        async with Client(transport, cache=None) as client:
            self.tools = await _list_tools(client)
            self.client = client
            self.known.set()
            await self._over.wait()


async def _list_tools(client: Client) -> list[OfferedTool]:
    tools: list[OfferedTool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            break
    return tools


@asynccontextmanager
async def _watched(connector: Connector, on_end: Callable[[], None]) -> AsyncIterator[Any]:
    """Open the streams and report when the server has closed its side, which the SDK's client does not."""
    async with connector() as (incoming, outgoing):
        yield _Watched(incoming, on_end), outgoing


class _Watched:
    """A stream of incoming messages that reports its end."""

    def __init__(self, stream: Any, on_end: Callable[[], None]) -> None:
        self._stream = stream
        self._on_end = on_end

    @property
    def last_context(self) -> Any:
        return getattr(self._stream, "last_context", None)

    async def receive(self) -> Any:
        return await self._noting(self._stream.receive)

    def __aiter__(self) -> _Watched:
        return self

    async def __anext__(self) -> Any:
        return await self._noting(self._stream.__anext__)

    async def _noting(self, take: Callable[[], Any]) -> Any:
        try:
            return await take()
        except Exception:
            self._on_end()
            raise

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Watched:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exc: Any) -> Any:
        return await self._stream.__aexit__(*exc)

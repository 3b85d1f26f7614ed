"""MCP servers as values: the sources of an agent's further tools, how to reach them, and which tools the agent takes.

These classes only describe a server, so agents and sessions may share one; each session with such an agent opens a
connection of its own (`agents.tools.mcp`). The SDK (extra `mcp`) is loaded when the first one connects.
"""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast
from urllib.parse import urlsplit

from vivavoce.pipelines.core.checks import check_choice, check_number, check_text
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from mcp.client import Transport

    Connector = Callable[[], Transport]
    """Opens the streams to a server; entered and left in one task."""

HTTP_TIMEOUT = 30.0
"""Seconds for connecting and writing, the SDK's own default."""

HTTP_READ_TIMEOUT = 300.0
"""Seconds between two events of an open stream, the SDK's own default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MCPServer(ABC):
    """The settings of all kinds of servers. Subclass it for a transport of your own: `connectors()` opens the
    streams.
    """

    name: str = ""
    """For logs, errors and the close report; made of the command or address if not given."""
    allowed_tools: Collection[str] | None = None
    """The server's own names of those tools that the model may call; None for all of them."""
    prefix: str = ""
    """Prefix of every tool's name. Of two tools with one name the first is taken: the agent's own, then the servers' in
    their order; the other is left out with an `error` event (and fails the start if `required`).
    """
    required: bool = False
    """Whether a failure of the server fails the session's start; else the session starts without its tools."""
    start_timeout: float = 10.0
    """Seconds for connecting and listing the tools, at the start and whenever a lost server is called again."""
    call_timeout: float | None = None
    """Seconds for a call, a new connection included; None takes the session's `tool_timeout`."""

    def __post_init__(self) -> None:
        if isinstance(self.allowed_tools, str):
            raise ConfigurationError(
                f"allowed_tools needs names, got the text {self.allowed_tools!r}; put it in a list"
            )
        check_number("start_timeout", self.start_timeout, above=0, unit="s")
        check_number("call_timeout", self.call_timeout, above=0, unit="s", or_none=True)
        if importlib.util.find_spec("mcp") is None:
            raise ConfigurationError("MCP servers need mcp, which is not installed: run pip install 'vivavoce[mcp]'")

    @property
    @abstractmethod
    def label(self) -> str:
        """The server's name in messages: `name`, or a text without secrets that identifies it."""

    @abstractmethod
    def connectors(self) -> Sequence[Connector]:
        """Return the ways to reach it; the next one is tried if the server does not answer to the one before."""


@dataclass(frozen=True, slots=True)
class MCPServerStdio(MCPServer):
    """A server that runs as a child process and communicates over its stdin and stdout; its stderr goes to ours.

    It ends with the session: stdin is closed, 2 s later it is terminated, 2 s later killed, with its own children.

    Args:
        command: The program.
        args: Its arguments.
        env: Environment variables beside the few harmless ones that it inherits (PATH, HOME, USER …).
        cwd: Its working directory.
    """

    command: str
    args: Sequence[str] = field(default=(), repr=False)
    _: KW_ONLY
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | Path | None = None

    def __post_init__(self) -> None:
        MCPServer.__post_init__(self)
        check_text("command", self.command)
        if not self.command:
            raise ConfigurationError("command needs a program, got ''; such as MCPServerStdio('uvx', ['mcp-files'])")
        if isinstance(self.args, str):
            raise ConfigurationError("args needs a list of arguments, got a text; split it (shlex.split)")

    @property
    def label(self) -> str:
        """The name, or the program's."""
        return self.name or Path(self.command).name

    def connectors(self) -> Sequence[Connector]:
        """Return the one way: start the process."""
        return [self._run]

    @asynccontextmanager
    async def _run(self) -> AsyncIterator[Any]:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        parameters = StdioServerParameters(
            command=self.command, args=list(self.args), env=dict(self.env or {}), cwd=self.cwd
        )
        inherited = cast("TextIO", None)  # as in subprocess: file descriptor 2, even if sys.stderr is replaced
        async with stdio_client(parameters, errlog=inherited) as streams:
            yield streams


@dataclass(frozen=True, slots=True)
class MCPServerHTTP(MCPServer):
    """A server at a URL.

    Args:
        url: Its endpoint, for example `"http://127.0.0.1:8000/mcp"`.
        headers: Sent with every request, for example `{"Authorization": "Bearer …"}`.
        transport: `auto` tries streamable HTTP first, then SSE, the older one.
    """

    url: str = field(repr=False)
    _: KW_ONLY
    headers: Mapping[str, str] | None = field(default=None, repr=False)
    transport: Literal["auto", "streamable_http", "sse"] = "auto"

    def __post_init__(self) -> None:
        MCPServer.__post_init__(self)
        if not isinstance(self.url, str):  # not shown: it may hold a secret
            raise ConfigurationError(f"url needs an http:// or https:// address, got a {type(self.url).__name__}")
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise ConfigurationError("url needs an http:// or https:// address; the one given is neither")
        check_choice("transport", self.transport, ("auto", "streamable_http", "sse"))

    @property
    def label(self) -> str:
        """The name, or the host with its port: user, path and query may hold secrets."""
        return self.name or urlsplit(self.url).netloc.rpartition("@")[2]

    def connectors(self) -> Sequence[Connector]:
        """Return the ways that `transport` names."""
        ways: dict[str, list[Connector]] = {"streamable_http": [self._streamable], "sse": [self._sse]}
        return ways.get(self.transport, [self._streamable, self._sse])

    @asynccontextmanager
    async def _streamable(self) -> AsyncIterator[Any]:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        timeout = httpx2.Timeout(HTTP_TIMEOUT, read=max(HTTP_READ_TIMEOUT, self.call_timeout or 0.0))
        async with (
            httpx2.AsyncClient(headers=dict(self.headers or {}), timeout=timeout) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams

    @asynccontextmanager
    async def _sse(self) -> AsyncIterator[Any]:
        from mcp.client.sse import sse_client

        async with sse_client(self.url, dict(self.headers or {}), timeout=HTTP_TIMEOUT) as streams:
            yield streams

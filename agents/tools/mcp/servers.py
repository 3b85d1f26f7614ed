"""MCPServers: the MCP servers of a session's agents, from when an agent comes until the close, or a task's end."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.tools.mcp.connection import MCPConnection
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import ToolServerError
from vivavoce.pipelines.llm.schema_tool import SchemaTool

if TYPE_CHECKING:
    from mcp.types import Tool as OfferedTool

logger = logging.getLogger(__name__)

MAX_NAME = 64
"""Letters in a tool's name that every model's provider takes."""


class MCPServers:
    """Connects an agent's servers side by side, gives the agent their tools, and ends all of them at the close.

    An agent that was replaced keeps its servers: its tools may still run, and it may come back. A task that is over
    does not come back, and its servers end with it.

    Args:
        group: Owns the connections.
        report_error: Called with the error of a server that failed or was lost; the session goes on.
    """

    def __init__(self, group: TaskGroup, clock: Clock, *, report_error: Callable[[Exception], None]) -> None:
        self._group = group
        self._clock = clock
        self._report = report_error
        self._agents: list[Agent] = []
        self._connections: list[tuple[Agent, MCPConnection]] = []

    @property
    def has_servers(self) -> bool:
        """Whether there is anything to end."""
        return bool(self._connections)

    async def open(self, agent: Agent, *, does_without: bool = False) -> None:
        """Connect that agent's servers, each within its `start_timeout`; it has their tools then. Once per agent.

        Args:
            does_without: Whether `required` servers may fail as others do: where a caller is in mid-conversation, an
                agent without one is better than none.
        Raises:
            ToolServerError: A `required` server failed, or has a tool that cannot be taken.
        """
        if not agent.mcp_servers or agent in self._agents:
            return
        self._agents.append(agent)
        connections = [
            MCPConnection(server, self._group, self._clock, report=self._report) for server in agent.mcp_servers
        ]
        self._connections += [(agent, connection) for connection in connections]
        offers: dict[int, list[OfferedTool]] = {}
        failures: list[ToolServerError] = []

        async def start(number: int) -> None:
            connection = connections[number]
            try:
                offers[number] = await connection.open()
            except ToolServerError as error:
                if does_without or not connection.server.required:
                    self._drop(error)
                    return
                failures.append(error)
                starting.cancel_scope.cancel()

        async with anyio.create_task_group() as starting:
            for number, connection in enumerate(connections):
                starting.start_soon(start, number, name=f"starting MCP server {connection.server.label}")
        if failures:
            raise failures[0]
        AgentControl.of(agent).set_server_tools(self._tools(agent, connections, offers, does_without=does_without))

    async def aclose(self) -> None:
        """End all servers side by side and take their tools from the agents; the caller bounds it."""
        for agent in self._agents:
            AgentControl.of(agent).set_server_tools(())
        await _close([connection for _, connection in self._connections])

    async def end(self, agent: Agent) -> None:
        """End the servers of an agent that serves no more, and take their tools from it."""
        self._agents = [other for other in self._agents if other is not agent]
        ended = [connection for owner, connection in self._connections if owner is agent]
        self._connections = [(owner, connection) for owner, connection in self._connections if owner is not agent]
        AgentControl.of(agent).set_server_tools(())
        await _close(ended)

    def _tools(
        self,
        agent: Agent,
        connections: list[MCPConnection],
        offers: dict[int, list[OfferedTool]],
        *,
        does_without: bool,
    ) -> list[SchemaTool]:
        taken = {tool.name for tool in agent.tools}
        tools: list[SchemaTool] = []
        for number, offered in sorted(offers.items()):
            connection = connections[number]
            server = connection.server
            for tool in self._allowed(server, offered):
                name = _model_name(server.prefix + tool.name)
                if name in taken:
                    error = ToolServerError(
                        f"offers a tool {name!r}, but there is one of that name; give the server a prefix, "
                        "or leave the tool out by allowed_tools",
                        server=server.label,
                    )
                    if server.required and not does_without:
                        raise error
                    self._drop(error)
                    continue
                taken.add(name)
                tools.append(_as_tool(connection, tool, name))
        return tools

    def _allowed(self, server: MCPServer, offered: list[OfferedTool]) -> list[OfferedTool]:
        if server.allowed_tools is None:
            return offered
        missing = sorted(set(server.allowed_tools) - {tool.name for tool in offered})
        if missing:
            logger.warning("MCP server %s has no tools %s, which allowed_tools names", server.label, missing)
        return [tool for tool in offered if tool.name in server.allowed_tools]

    def _drop(self, error: ToolServerError) -> None:
        logger.warning("%s; the session goes on without", error)
        self._report(error)


async def _close(connections: Sequence[MCPConnection]) -> None:
    async with anyio.create_task_group() as ending:
        for connection in connections:
            ending.start_soon(connection.aclose, name=f"ending MCP server {connection.server.label}")


def _as_tool(connection: MCPConnection, offered: OfferedTool, name: str) -> SchemaTool:
    return SchemaTool(
        partial(connection.call, offered.name),
        name=name,
        description=offered.description or offered.title or "",
        parameters=offered.input_schema,
        timeout=connection.server.call_timeout,
        idempotent=bool(offered.annotations and offered.annotations.idempotent_hint),
    )


def _model_name(name: str) -> str:
    """Return a name that every provider takes: a server's may hold dots and slashes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:MAX_NAME]

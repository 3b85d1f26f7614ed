"""AgentSetup: has agents ready before they serve: connects their MCP servers, and has their tools prepared in a thread.

`Preparing` imports modules and builds the models of tools, before the turns that use them:
pydantic and the model of a tool's arguments, the parser of Markdown, numpy: a tenth of a second and more, the first
time in a process. In a turn the caller would wait for it, and so would every other call of the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import cached_property, partial
from typing import Any

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.agents.tools.mcp.servers import MCPServers
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import SessionError, VoiceError, first_error
from vivavoce.pipelines.pipeline import Pipeline

_Step = Callable[[], Coroutine[Any, Any, None]]


class Preparing:
    """Prepares the agents and pipelines of one session, each before it serves.

    Args:
        limit: Seconds for each time.
    """

    def __init__(self, clock: Clock, limit: float) -> None:
        self._clock = clock
        self._limit = limit
        self._threads = ThreadPool(1, name="preparing")

    async def beside(self, other: _Step, prepare: _Step) -> None:
        """Do both side by side; an exception of either ends the other."""
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as both:
                both.start_soon(prepare, name="preparing")
                await other()
        except ExceptionGroup as group:
            failure = first_error(group)
        if failure is not None:
            raise failure

    async def first(self, agent: Agent, pipeline: Pipeline) -> None:
        """Prepare the agent and the pipeline that a session begins with.

        Raises:
            ConfigurationError: A tool's parameters cannot be described to a model, or a text filter lacks a part.
            SessionError: It took longer than the limit.
        """

        def prepare() -> None:
            _tools(agent)
            pipeline.prepare()

        if not (pipeline.is_prepared and _is_prepared(agent)):
            await self._run(f"agent {agent.id!r} and its pipeline", prepare)

    async def agent(self, agent: Agent) -> None:
        """Prepare an agent that comes later; raises as `first`."""
        if not _is_prepared(agent):
            await self._run(f"agent {agent.id!r}", partial(_tools, agent))

    async def pipeline(self, pipeline: Pipeline) -> None:
        """Prepare a pipeline that comes later; raises as `first`."""
        if not pipeline.is_prepared:
            await self._run(f"the {pipeline.name} pipeline", pipeline.prepare)

    async def _run(self, what: str, prepare: Callable[[], object]) -> None:
        try:
            with anyio.fail_after(self._limit), self._clock.hold():
                await self._threads.run(prepare)
        except TimeoutError as error:
            raise SessionError(f"{what} was not prepared within {self._limit:g} s") from error


class AgentSetup:
    """Has the agents of one session ready before they serve: connects their MCP servers and prepares their tools.

    Args:
        limit: Seconds for the preparing of one agent.
    """

    def __init__(self, context: SessionContext, *, limit: float) -> None:
        self._context = context
        self.preparing = Preparing(context.clock, limit)
        """Prepares the tools, and the session's first pipeline."""

    @cached_property
    def servers(self) -> MCPServers:
        """The MCP servers of the agents. They run in the session's task group, which the start opens."""

        def report(error: Exception) -> None:
            self._context.report_error(error, "mcp", is_recovered=True)

        return MCPServers(self._context.group, self._context.clock, report_error=report)

    async def for_start(self, *, prepares: bool = False) -> Agent:
        """Connect the servers of the agent that begins, and return it; `update_agent()` may replace it meanwhile.

        Args:
            prepares: Whether to prepare its tools too.
        Raises:
            ToolServerError: A `required` server failed, or has a tool that cannot be taken.
        """
        while True:
            agent = self._context.live.agent
            await self.servers.open(agent)
            if prepares:
                await self.preparing.agent(agent)
            if agent is self._context.live.agent:
                return agent

    async def for_handoff(self, agent: Agent) -> None:
        """Have an agent ready that takes over in a handoff. It does without the servers and tools that fail."""
        await self.servers.open(agent, does_without=True)
        try:
            await self.preparing.agent(agent)
        except VoiceError as error:
            self._context.report_error(error, "tool", is_recovered=True)

    async def end(self, agent: Agent) -> None:
        """End the servers of an agent that serves no more."""
        if agent.mcp_servers:
            await self.servers.end(agent)


def _is_prepared(agent: Agent) -> bool:
    return all(tool.is_prepared for tool in agent.tools)


def _tools(agent: Agent) -> None:
    for tool in agent.tools:
        tool.prepare()

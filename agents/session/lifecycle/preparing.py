"""Preparing: what turns will use is imported and built in a thread, before they come.

pydantic and the model of a tool's arguments, the parser of Markdown, numpy: a tenth of a second and more, the first
time in a process. In a turn the caller would wait for it, and so would every other call of the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.core.errors import SessionError, first_error
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
        """Do both side by side; what either raises ends the other."""
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
        """Prepare those that a session begins with.

        Raises:
            ConfigurationError: A tool's parameters cannot be told to a model, or a text filter lacks what it needs.
            SessionError: It took longer than the limit.
        """

        def prepare() -> None:
            _tools(agent)
            pipeline.prepare()

        await self._run(f"agent {agent.id!r} and its pipeline", prepare)

    async def agent(self, agent: Agent) -> None:
        """Prepare an agent that comes later; raises as `first`."""
        if not all(tool.is_prepared for tool in agent.tools):
            await self._run(f"agent {agent.id!r}", partial(_tools, agent))

    async def pipeline(self, pipeline: Pipeline) -> None:
        """Prepare a pipeline that comes later; raises as `first`."""
        await self._run(f"the {pipeline.name} pipeline", pipeline.prepare)

    async def _run(self, what: str, prepare: Callable[[], object]) -> None:
        try:
            with anyio.fail_after(self._limit), self._clock.hold():
                await self._threads.run(prepare)
        except TimeoutError as error:
            raise SessionError(f"{what} was not prepared within {self._limit:g} s") from error


def _tools(agent: Agent) -> None:
    for tool in agent.tools:
        tool.prepare()

"""AgentHooks: the runs of `on_enter` and `on_exit` of a session's agents."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Literal

from vivavoce.agents.agent import Agent, is_default
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run
from vivavoce.pipelines.core.checks import awaited_call

HookName = Literal["on_enter", "on_exit"]


class AgentHooks:
    """Runs the hooks with which agents come and go, and knows which of them run.

    Args:
        limit: Seconds for a hook, besides its speech.
    """

    def __init__(self, context: SessionContext, *, limit: float) -> None:
        self._context = context
        self._limit = limit
        self._first: Run | None = None
        self._first_agent: Agent | None = None
        self._entering: list[tuple[Agent, Run]] = []
        """The runs of `on_enter` in handoffs that have not ended."""
        self._leaving: Run | None = None
        """The run of an `on_exit` in a handoff that runs."""
        self._has_left = False
        """Whether `on_exit` of the agent that has the conversation has been called."""
        self.has_entered = False
        """Whether the first agent's `on_enter` has been called, or is not to be."""

    # --- the first agent

    def enter_first(self, agent: Agent) -> Run | None:
        """Run the first agent's `on_enter`, if it has one: without a limit yet. The start waits for it and reports its
        error.
        """
        self.has_entered, self._first_agent = True, agent
        if is_default(agent.on_enter, Agent.on_enter):
            return None
        self._first = self._start("on_enter", agent, math.inf, source=None)
        return self._first

    def resume(self) -> None:
        """Let the first agent go on in the middle of its conversation: it does not enter again."""
        self.has_entered = True

    async def end_first(self, *, has_tasks: bool) -> None:
        """Let the first agent's `on_enter` end, within the limit that holds from now on, unless it awaits a task."""
        run = self._first
        if run is None or run.is_over or (has_tasks and run.is_let_go):
            return
        run.set_limit(self._limit)
        await run.finish()
        if run.late is not None and not run.is_let_go:
            self._context.hooks.failed(run.name, run.late, "hook")

    # --- handoffs

    async def enter(self, agent: Agent) -> Run:
        """Run an agent's `on_enter` to its end, and to the end of the speech that it asked for."""
        return await self._run("on_enter", agent)

    async def leave(self, agent: Agent) -> Run:
        """Run the `on_exit` of the agent that has the conversation likewise."""
        self._has_left = True
        return await self._run("on_exit", agent)

    def taken_over(self) -> None:
        """Note that another agent has the conversation."""
        self._has_left, self._leaving = False, None

    async def _run(self, name: HookName, agent: Agent) -> Run:
        with self._context.observer.hook(name, agent=agent.id) as watch:
            run = self._start(name, agent, self._limit, source="hook")
            if name == "on_enter":
                self._entering.append((agent, run))
            else:
                self._leaving = run
            await run.finish()
            self._entering = [(who, other) for who, other in self._entering if other is not run]
            if run.late is None:
                for handle in run.handles:
                    await handle
            if run.error is not None:
                watch.failed(run.error)
        return run

    def _start(self, name: HookName, agent: Agent, limit: float, *, source: str | None) -> Run:
        call = partial(awaited_call, name, agent.on_enter if name == "on_enter" else agent.on_exit)
        title = f"{name} of agent {agent.id!r}"
        return self._context.hooks.start("agent hook", title, call, limit, "between its speeches", source=source)

    async def finish_entering(self, agent: Agent | None = None) -> None:
        """Let each `on_enter` of a handoff end, within its limit; that agent's only, if one is given."""
        for who, run in list(self._entering):
            if agent is None or who is agent:
                await run.finish()

    def cut_entering(self, agent: Agent) -> None:
        """Cut the `on_enter` of that agent."""
        for who, run in self._entering:
            if who is agent:
                run.cut()

    def let_first_go(self) -> None:
        """Let the start go on without the end of the first agent's `on_enter`, which awaits a task."""
        if self._first is not None and not self._first.is_over:
            self._first.let_go("hook")

    # --- which of them run

    def is_of(self, agent: Agent) -> bool:
        """Return whether that agent's `on_enter` runs in a handoff."""
        return any(who is agent for who, _ in self._entering)

    def entering_agent(self, run: Run) -> Agent | None:
        """Return the agent whose `on_enter` that run is; None if it is another hook."""
        if run is self._first:
            return self._first_agent
        return next((agent for agent, other in self._entering if run is other), None)

    @property
    def is_leaving(self) -> bool:
        """Whether an agent's `on_exit` runs."""
        return self._leaving is not None and not self._leaving.is_over

    @property
    def is_entering(self) -> bool:
        """Whether an `on_enter` of a handoff runs, or was cut and has not ended."""
        return bool(self._entering)

    async def entered(self) -> None:
        """Wait for the end of each `on_enter` of a handoff."""
        for _, run in list(self._entering):
            await run.wait()

    # --- close

    def close(self) -> None:
        """Cut each `on_enter` of a handoff; its `on_exit` is one of `exits()`."""
        for _, run in self._entering:
            run.cut()
        if self._first is not None and self._first.is_let_go:
            self._first.cut()

    def exits(self, agents: Sequence[Agent]) -> list[Callable[[], Awaitable[None]]]:
        """Return the `on_exit` of these agents; if a handoff has begun that of the first, the wait for its end."""
        begun = [self._leaving.wait] if self._has_left and self._leaving is not None else []
        hooks = (agent.on_exit for agent in agents[self._has_left :] if not is_default(agent.on_exit, Agent.on_exit))
        return [*begun, *(partial(awaited_call, "on_exit", hook) for hook in hooks)]

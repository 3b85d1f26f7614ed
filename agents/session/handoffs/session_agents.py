"""SessionAgents: the agents of a session: which one has the conversation, and which have had it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

from vivavoce.agents.agent import Agent, AgentControl, AgentUpdate, is_default
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.speech.request_window import part_of
from vivavoce.agents.tools.agent_setup import AgentSetup
from vivavoce.pipelines.core.checks import awaited_call
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.llm.chat_context import ChatContext

logger = logging.getLogger(__name__)


class SessionAgents:
    """Attaches agents to the session, passes on their updates, writes `live.agent`, and frees them in the end.

    An agent that was replaced stays in the session, for its running tools, until the close cleans it up. A task that is
    over is cleaned up and freed at once, so that a long call does not keep its tasks.

    Args:
        setup: Ends the MCP servers of a task that is over.
        on_floor: Called with each agent that takes the conversation.
        limit: Seconds for the `cleanup` of a task, and for a policy that chooses an agent's part of the conversation.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        setup: AgentSetup,
        *,
        on_floor: Callable[[Agent], None],
        limit: float,
    ) -> None:
        self._context = context
        self._on_floor = on_floor
        self._live = context.live
        self._session = context.session
        self._history = history
        self._setup = setup
        self._limit = limit
        self._agents: list[Agent] = []
        """The agents that have had the conversation."""
        self._over: list[Agent] = []
        """The tasks of them that are being cleaned up."""

    # --- membership

    @property
    def has_begun(self) -> bool:
        """Whether the session has been started."""
        return bool(self._agents)

    def begin_session(self) -> None:
        """Make the first agent part of the session, which starts; raises as `attach`."""
        self.attach(self._live.agent)
        self._agents.append(self._live.agent)

    def attach(self, agent: Agent) -> None:
        """Let that agent serve this session.

        Raises:
            SessionError: It is in another session.
        """
        AgentControl.of(agent).attach(self._session, partial(self._on_changed, agent))

    def give_up(self, agent: Agent) -> None:
        """Free an agent whose handoff came to nothing, unless it has had the conversation."""
        if agent not in self._agents and agent not in self._over:
            AgentControl.of(agent).detach(self._session)

    def replace_first(self, agent: Agent) -> None:
        """Put that agent in the place of the first one, which has not entered; raises as `attach`."""
        old = self._live.agent
        if self.has_begun:
            self.attach(agent)
            self._agents[:] = [agent]
        if old is not agent:
            AgentControl.of(old).detach(self._session)
        self.take_over(agent)

    # --- the conversation

    def hand_to(self, agent: Agent, *, is_history_changed: bool) -> None:
        """Give that agent the conversation; a realtime model may have to get another history."""
        if agent not in self._agents:
            self._agents.append(agent)
        self.take_over(agent, is_history_changed=is_history_changed)

    def take_over(self, agent: Agent, *, is_history_changed: bool = False) -> None:
        """Have `agent` talk from the next model request on, with the instructions and tools that it has now."""
        self._live.agent = agent
        self._on_floor(agent)
        if self._live.is_connected:
            update = self._live.connection.update
            update(self._live.instructions, self._live.tools, is_history_changed=is_history_changed)

    def _on_changed(self, agent: Agent, update: AgentUpdate) -> None:
        """Take new instructions or tools of an agent; called in any thread."""

        def pass_on() -> None:
            if agent is self._live.agent:
                self.take_over(agent)
                self._history.add_config_change(
                    agent.id,
                    instructions=update.instructions,
                    tools_added=update.tools_added,
                    tools_removed=update.tools_removed,
                )

        if self._context.inbox.is_bound and not self._context.closing.is_over:
            self._context.inbox.call(pass_on)

    # --- the part of the conversation that an agent carries on

    async def part_for(self, agent: Agent) -> ChatContext | None:
        """Return the part of the conversation that `agent` carries on; None for all of it."""
        if (policy := agent.overrides.context) is None:
            return None
        try:
            return await part_of(policy, self._history.for_models(), self._limit)
        except Exception as error:  # noqa: BLE001 - a user callback: the agent gets the whole conversation
            logger.warning("The context of agent %s failed: %s", agent.id, located(error))
            logger.debug("The context of an agent failed here", exc_info=error)
            self._context.report_error(error, "context", is_recovered=True)
            return None

    def show(self, carried: ChatContext | None) -> bool:
        """Show the model that part of the conversation, or all of it; return whether earlier items change for it."""
        view = self._history.view
        was_whole = view.is_whole
        if carried is None:
            view.show_all()
        else:
            view.carry(carried, self._history.for_models())
        return not (was_whole and view.is_whole)

    # --- the end

    def end_task(self, task: Agent) -> None:
        """Clean up a task that is over, beside the conversation, and free it. The close does so for its last tasks."""
        if task not in self._agents or self._context.closing.is_asked:
            return
        self._agents.remove(task)
        self._over.append(task)
        call = partial(awaited_call, "cleanup", task.cleanup)
        run = self._context.hooks.start("callback", f"cleanup of task {task.id!r}", call, self._limit)
        self._context.group.start_soon(self._free, task, run, name=f"the end of task {task.id}")

    async def _free(self, task: Agent, run: Run) -> None:
        await run.finish()
        await self._setup.end(task)
        if task in self._over:
            self._over.remove(task)
            AgentControl.of(task).detach(self._session)

    def cleanups(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the `cleanup` of every agent that has had the conversation, but of tasks that were cleaned up."""
        hooks = [agent.cleanup for agent in self._agents if not is_default(agent.cleanup, Agent.cleanup)]
        return [partial(awaited_call, "cleanup", hook) for hook in hooks]

    def release(self) -> None:
        """Free the session's agents for another session."""
        for agent in (*self._agents, *self._over):
            AgentControl.of(agent).detach(self._session)

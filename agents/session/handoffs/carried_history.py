"""CarriedHistory: the part of the conversation that an agent carries on, as its `AgentOverrides.context` chooses it."""

from __future__ import annotations

import logging

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.speech.request_window import part_of
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.llm.chat_context import ChatContext

logger = logging.getLogger(__name__)


class CarriedHistory:
    """Asks an agent's policy, and shows the model the part that it chose.

    Args:
        limit: Seconds for the policy.
    """

    def __init__(self, context: SessionContext, history: HistoryControl, *, limit: float) -> None:
        self._context = context
        self._history = history
        self._limit = limit

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

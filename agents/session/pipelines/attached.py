"""AttachedPipeline: one pipeline's connection in a session, from its opening to its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.service import Service
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.session.lifecycle.preparing import Preparing
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.pipeline import Pipeline, PipelineConnection, PipelineContext, PipelineEvent


class AttachedPipeline:
    """Opens, serves and closes one connection, and knows what of the conversation it was told.

    Args:
        context: But for what the line takes and tells itself.
        on_event: Takes what the connection tells.
        on_crash: Told of an exception that ends it after it was open.
    Raises:
        ConfigurationError: The pipeline is attached to a session already.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        context: PipelineContext,
        history: HistoryControl,
        on_event: Callable[[AttachedPipeline, PipelineEvent], None],
        on_crash: Callable[[AttachedPipeline, Exception], None],
    ) -> None:
        self.pipeline = pipeline
        self.capabilities = pipeline.capabilities
        self.failure: Exception | None = None
        """What it was lost by, for good."""
        self.leaves = anyio.Event()
        """Set when it is to close at once, whatever it may still tell."""
        self.ended = anyio.Event()
        """Set when it is closed, or given up."""
        self._clock = context.clock
        self._history = history
        self._told: dict[str, ChatItem] | None = None
        self.connection: PipelineConnection = pipeline.open(
            replace(context, emit=lambda event: on_event(self, event), history=self._tell_history)
        )
        self._service = Service("pipeline", self.connection.run, on_crash=lambda _, error: on_crash(self, error))

    async def start(self, group: TaskGroup, limit: float, *, prepares: bool = False) -> None:
        """Connect, in a task of `group`, and wait until it is ready.

        Args:
            prepares: Whether the pipeline is prepared here, and not before with the session's start.
        Raises:
            SessionError: It is not prepared, or not ready, within `limit` seconds, or ended without getting ready.
            VoiceError: Whatever it raised itself.
        """
        if prepares:
            await Preparing(self._clock, limit).pipeline(self.pipeline)
        await self._service.start(group, limit)

    def bring_up_to_date(self, agent: Agent) -> None:
        """Tell it what it has missed since it was opened, before it takes over."""
        told, items = self._told or {}, self._history.copy().items
        known = {item.id: item for item in items}
        is_changed = any(known.get(item_id) is not item for item_id, item in told.items())
        self.connection.update(agent.instructions, agent.tools, is_history_changed=is_changed)
        if is_changed or self._told is None:
            return
        for item in items:
            if item.id not in self._told:
                self.connection.conversation.append(item)

    async def aclose(self) -> None:
        """End it; the caller bounds it."""
        try:
            await self._service.stop()
        finally:
            await self.connection.aclose()

    def _tell_history(self) -> ChatContext:
        history = self._history.copy()
        self._told = {item.id: item for item in history}
        return history

"""AttachedPipeline: one pipeline's connection in a session, from its opening to its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.core.context import Live, SessionContext
from vivavoce.agents.core.service import Service
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.session.lifecycle.preparing import Preparing
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.pipeline import (
    Pipeline,
    PipelineConnection,
    PipelineContext,
    PipelineEvent,
)


class AttachedPipeline:
    """Opens, serves and closes one connection, and knows which items of the history the connection has.

    Args:
        input_rate: Rate of the caller's audio in Hz.
        on_event: Called with each event of the connection.
        on_crash: Called with an exception that ends the connection after it was open.
    Raises:
        ConfigurationError: The pipeline is attached to a session already.
    """

    def __init__(
        self,
        context: SessionContext,
        pipeline: Pipeline,
        history: HistoryControl,
        *,
        input_rate: int,
        on_event: Callable[[AttachedPipeline, PipelineEvent], None],
        on_crash: Callable[[AttachedPipeline, Exception], None],
    ) -> None:
        self.opened = pipeline
        """The pipeline that opened it, and cannot open another connection before this one is closed."""
        self.pipeline = pipeline
        self.capabilities = pipeline.capabilities
        self.failure: Exception | None = None
        """The error by which it was lost for good."""
        self.must_close = anyio.Event()
        """Set when it has to close at once, although it may still report words."""
        self.ended = anyio.Event()
        """Set when it is closed, or given up."""
        self._clock = context.clock
        self._history = history
        self._sent: dict[str, ChatItem] | None = None
        """The items of the history when the connection last asked for it, by their ids; None if it never did."""
        self.connection: PipelineConnection = pipeline.open(
            PipelineContext(
                clock=context.clock,
                emit=lambda event: on_event(self, event),
                session_id=context.id,
                input_rate=input_rate,
                instructions=context.live.instructions,
                tools=context.live.tools,
                history=self._copy_history,
                transcript_timeout=lambda: context.live.endpointing.transcript_timeout,
            )
        )
        self._on_crash = on_crash
        self._service = Service("pipeline", self.connection.run, on_crash=lambda _, error: self.crashed(error))
        self._parts: list[Service] = []
        """The parts of components that came later."""
        self.is_lost = False
        """Whether it was lost for good."""

    def crashed(self, error: Exception) -> None:
        """An exception has ended a part of it."""
        self._on_crash(self, error)

    def take(self, pipeline: Pipeline, parts: Sequence[Service]) -> None:
        """It is the connection of `pipeline` from here on, and runs these parts too."""
        self.pipeline, self.capabilities = pipeline, pipeline.capabilities
        self._parts = [*(part for part in self._parts if not part.has_ended), *parts]

    def lose(self) -> None:
        """It is lost for good."""
        self.is_lost = True

    def fail(self, error: Exception) -> None:
        """Keep the error by which it was lost for good."""
        self.failure = error

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

    def bring_up_to_date(self, live: Live) -> None:
        """Send it the changes since it was opened, before it takes over."""
        sent, items = self._sent or {}, self._history.for_model().items
        known = {item.id: item for item in items}
        is_changed = any(known.get(item_id) is not item for item_id, item in sent.items())
        self.connection.update(live.instructions, live.tools, is_history_changed=is_changed)
        if is_changed or self._sent is None:
            return
        for item in items:
            if item.id not in self._sent:
                self.connection.conversation.append(item)

    async def aclose(self) -> None:
        """End it; the caller bounds it."""
        try:
            for service in (*self._parts, self._service):
                await service.stop()
        finally:
            await self.connection.aclose()

    def _copy_history(self) -> ChatContext:
        history = self._history.for_model()
        self._sent = {item.id: item for item in history}
        return history

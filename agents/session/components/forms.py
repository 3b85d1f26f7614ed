"""The two forms in which a successor has its components: `OwnConnection`, and `PartsOfPresent` of the present one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.service import Service
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.tools.agent_setup import Preparing
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.pipeline import ConnectionChange, Pipeline, PipelineContext, PipelineEvent


class Form(ABC):
    """Opens components beside those in use, has them take over, and closes those of no more use."""

    hears: bool = True
    """Whether a component that hears the caller changes."""
    failure: Exception | None = None
    """The error by which a component was lost before it took over."""

    @abstractmethod
    async def open(self, limit: float) -> None:
        """Connect, in tasks of the session, and wait until the components are ready.

        Raises:
            SessionError: One is not prepared, or not ready, within `limit` seconds, or ended without getting ready.
            VoiceError: Its own error.
        """

    @abstractmethod
    def take(self) -> None:
        """Have the new components serve from here on. Synchronous."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close the components that are not in use; the caller bounds it."""


class OwnConnection(Form):
    """A connection that a pipeline opens, and the items of the history that the connection has.

    Args:
        input_rate: Rate of the caller's audio in Hz.
        key_terms: Words that the recognisers expect.
        on_event: Called with each event of the connection.
        on_crash: Called with an exception that ends a part of the connection after it was open.
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
        key_terms: Sequence[str],
        on_event: Callable[[OwnConnection, PipelineEvent], None],
        on_crash: Callable[[OwnConnection, Exception], None],
    ) -> None:
        self.pipeline = pipeline
        """The pipeline that opened it, and cannot open another connection before this one is closed."""
        self._context = context
        self._history = history
        self._sent: dict[str, ChatItem] | None = None
        """The items of the history when the connection last asked for it, by their ids; None if it never did."""
        live = context.live
        self.connection = pipeline.open(
            PipelineContext(
                clock=context.clock,
                emit=lambda event: on_event(self, event),
                session_id=context.id,
                input_rate=input_rate,
                instructions=live.instructions,
                tools=live.tools,
                history=self._copy_history,
                transcript_timeout=lambda: live.endpointing.transcript_timeout,
                key_terms=tuple(key_terms),
            )
        )
        self._on_crash = on_crash
        self._service = Service("pipeline", self.connection.run, on_crash=lambda _, error: self.crashed(error))
        self._parts: list[Service] = []
        """The parts of components that came later."""

    async def open(self, limit: float, *, is_prepared: bool = False) -> None:
        if not is_prepared:
            await Preparing(self._context.clock, limit).pipeline(self.pipeline)
        await self._service.start(self._context.group, limit)

    def take(self) -> None:
        """Send the connection the changes since it was opened."""
        live, sent, items = self._context.live, self._sent or {}, self._history.for_model().items
        known = {item.id: item for item in items}
        is_changed = any(known.get(item_id) is not item for item_id, item in sent.items())
        self.connection.update(live.instructions, live.tools, is_history_changed=is_changed)
        if is_changed or self._sent is None:
            return
        for item in items:
            if item.id not in self._sent:
                self.connection.conversation.append(item)

    def add(self, parts: Sequence[Service]) -> None:
        """Run these parts too, those of components that have taken over."""
        self._parts = [*(part for part in self._parts if not part.has_ended), *parts]

    def crashed(self, error: Exception) -> None:
        """Report an exception that has ended a part."""
        self._on_crash(self, error)

    async def aclose(self) -> None:
        try:
            for service in (*self._parts, self._service):
                await service.stop()
        finally:
            await self.connection.aclose()

    def _copy_history(self) -> ChatContext:
        history = self._history.for_model()
        self._sent = {item.id: item for item in history}
        return history


class PartsOfPresent(Form):
    """Components in the present connection, whose other streams stay.

    Args:
        present: The connection.
        before: The pipeline that it serves.
        pipeline: The pipeline with the new components.
        on_failure: Called if a new component is lost for good before it takes over.
    """

    def __init__(
        self,
        context: SessionContext,
        present: OwnConnection,
        before: Pipeline,
        pipeline: Pipeline,
        on_failure: Callable[[PartsOfPresent], None],
    ) -> None:
        self.before: Pipeline | None = before
        """The pipeline without these parts, until they serve."""
        self.pipeline = pipeline
        self._context = context
        self._present = present
        self._on_failure = on_failure
        self._services: list[Service] = []
        self._is_taken = False
        self._change: ConnectionChange | None = present.connection.change(pipeline, self._fail)
        self.hears = self._change is not None and self._change.hears

    @property
    def is_possible(self) -> bool:
        """Whether the connection can change so; if not, the new pipeline needs a connection of its own."""
        return self._change is not None

    async def open(self, limit: float) -> None:
        assert self._change is not None
        if self.pipeline.text_filters and self.before is not None and not self.before.text_filters:
            await Preparing(self._context.clock, limit).pipeline(self.pipeline)
        self._change.open()
        for part in self._change.parts:
            service = Service("new component", part, on_crash=self._on_crash)
            self._services.append(service)
            await service.start(self._context.group, limit)

    def take(self) -> None:
        assert self._change is not None
        self._is_taken, self.before = True, None
        self._change.take()
        self._present.add(self._services)

    async def aclose(self) -> None:
        """Close the old components after `take()`, else the new ones."""
        try:
            if not self._is_taken:
                for service in self._services:
                    await service.stop()
        finally:
            if self._change is not None:
                self._change.close()

    def _on_crash(self, name: str, error: Exception) -> None:
        if self._is_taken:
            self._present.crashed(error)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        if not self._is_taken:
            self._on_failure(self)

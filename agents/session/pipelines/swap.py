"""ComponentSwap: the change of components in an open connection, whose other streams stay."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.core.service import Service
from vivavoce.agents.session.lifecycle.preparing import Preparing
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.pipeline import ConnectionChange, Pipeline


class ComponentSwap:
    """Opens new components beside those of a connection, has them take over, and closes those of no more use.

    Args:
        pipeline: The new pipeline.
        on_failure: Called if a new component is lost for good before it takes over.
    """

    def __init__(
        self, attached: AttachedPipeline, pipeline: Pipeline, clock: Clock, on_failure: Callable[[], None]
    ) -> None:
        self.pipeline = pipeline
        self.must_close = anyio.Event()
        """Set when it has to close at once."""
        self.ended = anyio.Event()
        """Set when the components of no more use are closed, or given up."""
        self.failure: Exception | None = None
        """The error by which a new component was lost."""
        self._attached = attached
        self._clock = clock
        self._on_failure: Callable[[], None] | None = on_failure
        self._services: list[Service] = []
        self._is_taken = False
        self._change: ConnectionChange | None = (
            None if attached.is_lost else attached.connection.change(pipeline, self._fail)
        )

    @property
    def is_possible(self) -> bool:
        """Whether the connection can change so; if not, the new pipeline needs a connection of its own."""
        return self._change is not None

    @property
    def hears(self) -> bool:
        """Whether a component that hears the caller changes."""
        return self._change is not None and self._change.hears

    async def start(self, group: TaskGroup, limit: float) -> None:
        """Open the new components, and wait until they are ready.

        Raises:
            SessionError: One is not ready within `limit` seconds.
            VoiceError: The error of a component.
        """
        assert self._change is not None
        if self.pipeline.text_filters and not self._attached.pipeline.text_filters:
            await Preparing(self._clock, limit).pipeline(self.pipeline)
        self._change.open()
        for part in self._change.parts:
            service = Service("new component", part, on_crash=self._on_crash)
            self._services.append(service)
            await service.start(group, limit)

    def take(self) -> None:
        """Have the new components serve from here on."""
        assert self._change is not None
        self._is_taken, self._on_failure = True, None
        self._change.take()
        self._attached.take(self.pipeline, self._services)

    async def aclose(self) -> None:
        """Close the components that are not in use: the old ones after `take()`, else the new ones."""
        try:
            if not self._is_taken:
                for service in self._services:
                    await service.stop()
        finally:
            if self._change is not None:
                self._change.close()

    def _on_crash(self, name: str, error: Exception) -> None:
        if self._is_taken:
            self._attached.crashed(error)
        else:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self.failure = error
        if self._on_failure is not None:
            self._on_failure()

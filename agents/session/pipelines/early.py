"""EarlySwap: the components of an agent whose handoff waits, opened beside those in use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.call_site import call_site
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.swap import ComponentSwap
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.pipeline import ONSET_SECONDS, Pipeline, is_like

logger = logging.getLogger(__name__)


class EarlySwap:
    """Opens components that hear the caller when a handoff is asked for, so that the handoff need not wait for them.

    Args:
        attached: The connection in use.
        pipeline: Its pipeline with the components of `agents`.
        agents: The one that is to have the conversation last; before it those behind the task.
        leave: Closes a swap that is of no use.
    """

    def __init__(
        self,
        context: SessionContext,
        attached: AttachedPipeline,
        pipeline: Pipeline,
        agents: Sequence[Agent],
        *,
        leave: Callable[[ComponentSwap], None],
    ) -> None:
        self.done = anyio.Event()
        """Set when the components are open and have heard the last half second, or cannot be had."""
        self.error: Exception | None = None
        """The error by which they cannot be had."""
        self._context = context
        self._attached, self._present = attached, attached.pipeline
        self._agents = tuple(agents)
        self._leave = leave
        self._on_failure: Callable[[], None] | None = None
        self._scope = anyio.CancelScope()
        self._swap = ComponentSwap(attached, pipeline, context.clock, self._lost)

    @property
    def is_worthwhile(self) -> bool:
        """Whether opening them takes time: they hear the caller, and the connection can change to them."""
        return self._swap.is_possible and self._swap.hears

    async def open(self, limit: float) -> None:
        """Open them, each within `limit` seconds."""
        call_site.set(None)  # the streams are no part of the code that asks for the handoff, and outlive it
        begins_at = self._context.clock.now() + ONSET_SECONDS
        try:
            with self._scope, strays_as_errors("the opening of an agent's components"):
                await self._swap.start(self._context.group, limit)
                await anyio.sleep(max(0.0, begins_at - self._context.clock.now()))
        except Exception as error:  # noqa: BLE001 - a provider that cannot be had; the handoff reports it
            logger.warning("The components of an agent that is to take over cannot be opened: %s", located(error))
            self.error = error
        finally:
            if self._scope.cancel_called:
                self._leave(self._swap)
            self.done.set()

    def fits(self, agents: Sequence[Agent], present: Pipeline, wanted: Pipeline) -> bool:
        """Whether these are the components of that change of the pipeline in use."""
        is_present = present is self._present and not self._attached.is_lost
        return is_present and self._agents == tuple(agents) and is_like(wanted, self._swap.pipeline)

    def take(self, on_failure: Callable[[], None]) -> ComponentSwap:
        """Return the swap, now that the change begins.

        Args:
            on_failure: Called if a component is lost for good before it takes over.
        """
        self._on_failure = on_failure
        return self._swap

    def drop(self) -> None:
        """Nothing comes of the handoff, or other components have come since: close them."""
        if self.done.is_set():
            self._leave(self._swap)
        else:
            self._scope.cancel()

    def _lost(self) -> None:
        self.error = self.error or self._swap.failure
        if self._on_failure is not None:
            self._on_failure()

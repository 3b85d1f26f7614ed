"""Tending: the background work of a connection's components, such as checks of the members of a fallback."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.boundary import provider_errors
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ProviderError

logger = logging.getLogger(__name__)


class Tending:
    """The background work of those components that have some.

    Args:
        components: Those of a connection; None for an absent one.
    """

    def __init__(self, components: Sequence[Component | None]) -> None:
        self._components = [one for one in components if one is not None and one.needs_tending]
        self._scope: anyio.CancelScope | None = None
        self._is_left = False

    @property
    def needs_task(self) -> bool:
        """Whether `run()` has something to do."""
        return bool(self._components)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Do the work until cancelled or left; failures of it are logged."""
        task_status.started()
        if self._is_left:
            return
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as group:
                for component in self._components:
                    group.start_soon(_tend, component, name=f"tending {component.provider}")

    def followed_by(self, other: Tending) -> Tending:
        """End the work if `other` takes its place, and return the one in use."""
        if other is not self:
            self._is_left = True
            if self._scope is not None:
                self._scope.cancel()
        return other


async def _tend(component: Component) -> None:
    try:
        with provider_errors(component.provider):
            await component.tend()
    except ProviderError as error:
        logger.warning("%s: its background work ended: %s", component.provider, error)

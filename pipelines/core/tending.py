"""Tending: the background work of a connection's components: the checks of the members of its fallbacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.members import Members


class Tending:
    """The background work of those components that are fallbacks.

    Args:
        components: Those of a connection; None for an absent one.
    """

    def __init__(self, components: Sequence[Component | None]) -> None:
        self._members = list(_members(components))
        self._scope: anyio.CancelScope | None = None
        self._is_left = False

    @property
    def needs_task(self) -> bool:
        """Whether `run()` has something to do."""
        return bool(self._members)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Do the work until cancelled or left."""
        task_status.started()
        if self._is_left:
            return
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as group:
                for members in self._members:
                    group.start_soon(members.tend, name=f"checks of {members.kind} members")

    def followed_by(self, other: Tending) -> Tending:
        """End the work if `other` takes its place, and return the one in use."""
        if other is not self:
            self._is_left = True
            if self._scope is not None:
                self._scope.cancel()
        return other


def _members(components: Sequence[Component | None]) -> Iterator[Members[Any]]:
    """Yield the members of each fallback, and of the fallbacks among them."""
    for component in components:
        if component is not None and (members := Members.of(component)) is not None:
            yield members
            yield from _members(members.components)

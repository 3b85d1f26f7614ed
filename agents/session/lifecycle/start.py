"""Starting: the part of a start that a close cuts, with the foreign code in it."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.core.context import Closing
from vivavoce.pipelines.core.errors import located
from vivavoce.pipelines.core.owned_call import OwnedCall

logger = logging.getLogger(__name__)


class Starting:
    """Runs the foreign calls of one start, and cuts it when the close is asked for, even before it began."""

    def __init__(self, closing: Closing) -> None:
        self._closing = closing
        self.has_entered = False
        """Whether it got as far as `on_enter`."""
        self._name = ""
        self._call: OwnedCall | None = None

    def open(self) -> anyio.CancelScope:
        """Return the scope to be entered around all steps of the start; the request of the close cancels it."""
        return self._closing.cuts(anyio.CancelScope())

    async def call(self, group: TaskGroup, name: str, call: Callable[[], Awaitable[None]]) -> None:
        """Wait for foreign code; it is cut with the start, which does not wait for its end then."""
        raised: list[BaseException] = []

        def failed(error: BaseException) -> None:
            raised.append(error)
            if self._closing.is_asked:  # nobody waits for it any more
                logger.warning("%s, cut by the close, raised %s", name, located(error))

        self._name, self._call = name, OwnedCall(name, call, failed)
        group.start_soon(self._call.run, name=name)
        try:
            await self._call.wait()
        finally:
            self._call.cut()
        if raised:
            raise raised[0]

    @property
    def open_call(self) -> tuple[str, OwnedCall] | None:
        """The call that was cut and has not ended, by name; the close waits for it."""
        return None if self._call is None or self._call.is_done else (self._name, self._call)

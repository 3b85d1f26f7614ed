"""Starting: the part of a start that the request of a close cuts, with the application code in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run


class Starting:
    """Waits for the application code of one start. The request of the close cuts it, even before it began."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self.has_entered = False
        """Whether it got as far as `on_enter`."""
        self._name = ""
        self._run: Run | None = None

    def open(self) -> anyio.CancelScope:
        """Return the scope to be entered around all steps of the start; the request of the close cancels it."""
        return self._context.closing.cuts(anyio.CancelScope())

    async def call(self, name: str, call: Callable[[], Awaitable[object]]) -> None:
        """Make a call in a task of its own, and wait for its end."""
        await self.wait(name, self._context.hooks.start("start", name, call, source=None))

    async def wait(self, name: str, run: Run) -> None:
        """Wait for the end of a run. It is cut with the start, which does not wait for its end then.

        Raises:
            BaseException: The error of the run.
        """
        self._name, self._run = name, run
        try:
            await run.wait()
        finally:
            if not run.is_over:
                run.cut()
                run.leave_behind()
        if run.error is not None and run.late is None:  # a handoff that waited for `on_enter` has reported its limit
            raise run.error

    @property
    def open_run(self) -> tuple[str, Run] | None:
        """The run that was cut and has not ended, by name; the close waits for it."""
        return None if self._run is None or self._run.is_over else (self._name, self._run)

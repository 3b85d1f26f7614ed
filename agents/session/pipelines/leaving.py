"""LeftPipelines: closes pipelines and components that were left, in the background and within a limit."""

from __future__ import annotations

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.session.pipelines.attached import AttachedPipeline
from vivavoce.agents.session.pipelines.swap import ComponentSwap
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.owned_call import OwnedCall
from vivavoce.pipelines.pipeline import Pipeline

CLOSE_LIMIT = 5.0
"""Seconds that closing one may take."""


class LeftPipelines:
    """Holds them until they are closed; an error of that is an `error` event."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._leaving: list[AttachedPipeline | ComponentSwap] = []

    def add(self, left: AttachedPipeline | ComponentSwap, *, linger: float) -> None:
        """Close it after `linger` seconds, in which it may still report words."""
        self._leaving.append(left)
        self._context.group.start_soon(self._retire, left, linger, name=f"closing a {left.pipeline.name} pipeline")

    async def freed(self, pipeline: Pipeline) -> None:
        """Have the connections that this pipeline opened closed at once, and wait; bounded by `CLOSE_LIMIT`."""
        for left in list(self._leaving):
            if isinstance(left, AttachedPipeline) and left.opened is pipeline:
                left.must_close.set()
                await left.ended.wait()

    def hurry(self) -> None:
        """The session closes: none lingers."""
        for left in self._leaving:
            left.must_close.set()

    async def closed(self) -> None:
        """Wait until all are closed; the caller sets a limit."""
        for left in list(self._leaving):
            await left.ended.wait()

    async def _retire(self, left: AttachedPipeline | ComponentSwap, linger: float) -> None:
        raised: list[BaseException] = []
        call = OwnedCall(f"closing the {left.pipeline.name} pipeline", left.aclose, raised.append)
        try:
            with anyio.move_on_after(linger):
                await left.must_close.wait()
            self._context.group.start_soon(call.run, name=call.what)
            await call.finish(CLOSE_LIMIT)
            if not call.is_done or call.is_cut:
                raised.append(SessionError(f"{call.what} took longer than {CLOSE_LIMIT:g} s"))
        finally:
            self._leaving.remove(left)
            left.ended.set()
        for error in raised:
            reported = error if isinstance(error, Exception) else SessionError(describe(error))
            self._context.report_error(reported, "pipeline", is_recovered=True)

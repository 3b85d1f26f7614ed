"""Serving a pipeline's connection on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from vivavoce.pipelines.events import PipelineEvent
from vivavoce.pipelines.pipeline import Pipeline, PipelineConnection, PipelineContext
from vivavoce.pipelines.testing import VirtualClock, run_virtual

Timed = list[tuple[float, PipelineEvent]]


@pytest.fixture
def serve() -> Callable[..., Timed]:
    """Return a function that runs `act` on an open connection and returns the events with their times."""

    def run(
        pipeline: Pipeline, act: Callable[[Any], Awaitable[Any]], *, input_rate: int = 16000, open_limit: float = 10.0
    ) -> Timed:
        return run_virtual(_serve(pipeline, act, input_rate, open_limit))

    return run


async def _serve(pipeline: Pipeline, act: Callable[[Any], Awaitable[Any]], input_rate: int, open_limit: float) -> Timed:
    clock, events = VirtualClock(), Timed()
    context = PipelineContext(
        clock=clock,
        emit=lambda event: events.append((clock.now(), event)),
        input_rate=input_rate,
        open_limit=open_limit,
        instructions="Be brief.",
    )
    connection: PipelineConnection = pipeline.open(context)
    async with anyio.create_task_group() as tasks:
        await tasks.start(connection.run)
        await act(connection)
        tasks.cancel_scope.cancel()
    await connection.aclose()
    return events

"""Owns a worker that runs beside a test, in the test's own loop."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self

from vivavoce.agents.worker.worker import Worker

READY_LIMIT = 60.0
CLOSE_LIMIT = 60.0


class Working:
    """`async with Working(worker):` the worker is registered in it and closed after it; its failure fails the test."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._ready = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    def started(self, value: None = None) -> None:
        """Called by the worker when the server knows it."""
        self._ready.set()

    @property
    def running(self) -> asyncio.Task[None]:
        """The run; await it where the worker ends by itself."""
        assert self._running is not None
        return self._running

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(self.worker.run(task_status=self))
        ready = loop.create_task(self._ready.wait())
        try:
            await asyncio.wait({self._running, ready}, timeout=READY_LIMIT, return_when=asyncio.FIRST_COMPLETED)
            if self._running.done():
                await self._running
            assert self._ready.is_set(), f"the worker did not register within {READY_LIMIT} s"
        except BaseException:
            self._running.cancel()
            raise
        finally:
            ready.cancel()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        async with asyncio.timeout(CLOSE_LIMIT):
            await self.worker.aclose()
            await self.running

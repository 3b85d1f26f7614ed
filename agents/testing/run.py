"""Run: the session, room and time of a harness, during the run and after it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.testing.recording import Played, stretches
from vivavoce.agents.transports.local import LocalTransport, VirtualSink
from vivavoce.pipelines.core.clock import Clock
from vivavoce.pipelines.testing import LoopGuard, VirtualTimeLoop


@dataclass(slots=True)
class Run:
    """A session, its room and its time; readable after the loop has ended too."""

    session: AgentSession[Any]
    transport: LocalTransport
    clock: Clock
    tasks_before: set[asyncio.Task[Any]]
    timers_left: int = 0
    _started: anyio.Event = field(default_factory=anyio.Event)
    _started_at: float = 0.0
    _began_at: float = field(init=False)
    _ended_at: float | None = None
    _guard: LoopGuard | None = None

    def __post_init__(self) -> None:
        self._began_at = self.clock.now()

    @property
    def now(self) -> float:
        """Seconds since the session's start; after the run, the time of its end."""
        return (self.clock.now() if self._ended_at is None else self._ended_at) - self._began_at

    @property
    def played(self) -> list[Played]:
        """Stretches of audio without a gap, as the caller heard them."""
        assert isinstance(self.transport.sink, VirtualSink)
        return stretches(self.transport.sink.frames(), began_at=self._began_at)

    async def start(self, resume_from: Mapping[str, Any] | None) -> None:
        """Start the session."""
        await self.session.start(self.transport, resume_from=resume_from)
        self._started_at = self.now
        self._started.set()

    async def started(self) -> float:
        """Wait until the session has started; return the time of it."""
        await self._started.wait()
        return self._started_at

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Guard a loop in real time; one of virtual time guards itself."""
        if not isinstance(loop, VirtualTimeLoop):
            self._guard = LoopGuard(loop)
            self._guard.__enter__()

    def stop_watching(self) -> None:
        """End the guard of `watch()`.

        Raises:
            LoopHeldError: The loop was blocked.
        """
        if self._guard is not None:
            guard, self._guard = self._guard, None
            guard.__exit__(*sys.exc_info())

    def end(self) -> None:
        """Stop the time."""
        self.transport.sink.clear()  # queued audio is never heard; from here on the sink asks no clock
        self._ended_at = self.clock.now()

    def count_timers(self) -> None:
        """Note how many timers wait in a loop of virtual time."""
        loop = asyncio.get_running_loop()
        self.timers_left = loop.timers_left() if isinstance(loop, VirtualTimeLoop) else 0

    def tasks_left(self) -> list[str]:
        """Return a line for each task of the run that has not ended."""
        left = [task for task in asyncio.all_tasks() - self.tasks_before if not task.done()]
        return [f"  {task.get_name()}: {task.get_coro()!r}" for task in left]

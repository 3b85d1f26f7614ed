"""The run of a soak: seats on which one session follows the other, and the process's resources at the end."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from kit.soak.life import Life
from vivavoce.agents import AgentSession
from vivavoce.pipelines.core.clock import LoopClock

FAILURES_AT_MOST = 5
"""Sessions that break a law until the run ends early."""
SETTLING = 5.0
"""Seconds in which threads of tools past their timeout, and other leftovers, may end."""


@dataclass(frozen=True)
class Held:
    """The resources of the process."""

    tasks: int
    threads: int
    descriptors: int
    sessions: int
    blocks: int
    """Memory blocks of the interpreter."""
    rss: float
    """MB of memory."""

    def __str__(self) -> str:
        return (
            f"tasks {self.tasks}, threads {self.threads}, descriptors {self.descriptors}, sessions {self.sessions}, "
            f"blocks {self.blocks}, rss {self.rss:.1f} MB"
        )


@dataclass
class Soak:
    """Runs sessions side by side.

    Args:
        seed: Of everything; each session's own is `<seed>/<phase>/<seat>/<number>`.
        seats: Sessions at a time.
        traces: Folder for their traces; only failing ones stay.
    """

    seed: str
    seats: int
    traces: Path

    def __post_init__(self) -> None:
        self.lives: Counter[str] = Counter()
        """Sessions that ended, by how they ended."""
        self.provoked: Counter[str] = Counter()
        self.turns: Counter[str] = Counter()
        self.unhandled: list[str] = []
        self.failures: list[Exception] = []

    async def run(self, phase: str, seconds: float, tell: Callable[[str], None]) -> Held:
        """Keep all seats busy for `seconds`, let the last sessions end, and return the resources then.

        Raises:
            ExceptionGroup: Sessions broke laws; the seed and the trace of each are in its notes.
            AssertionError: The event loop reported an unhandled error.
        """
        asyncio.get_running_loop().set_exception_handler(self._note_unhandled)
        until = LoopClock().now() + seconds
        async with anyio.create_task_group() as group:
            for seat in range(self.seats):
                group.start_soon(self._sit, f"{self.seed}/{phase}/{seat}", until)
            group.start_soon(self._watch, until, tell)
        if self.failures:
            raise ExceptionGroup(f"soak, seed {self.seed}", self.failures)
        assert not self.unhandled, f"seed {self.seed}: the loop was told of {self.unhandled}"
        return await self._settled()

    async def _sit(self, seed: str, until: float) -> None:
        number = 0
        while LoopClock().now() < until and len(self.failures) < FAILURES_AT_MOST:
            number += 1
            life = Life(f"{seed}/{number}", self.traces)
            try:
                await life.live()
            except Exception as error:  # noqa: BLE001 - raised at the end, with the others
                error.add_note(f"session seed {seed}/{number}, end {life.end!r}; vivavoce replay {life.trace_path}")
                self.failures.append(error)
            self.lives[life.end] += 1
            self.provoked += life.mood.provoked
            self.turns.update(turn.outcome for turn in life.session.turns)

    async def _watch(self, until: float, tell: Callable[[str], None]) -> None:
        while (left := until - LoopClock().now()) > 0:
            await anyio.sleep(min(60.0, left))
            tell(f"{sum(self.lives.values())} sessions so far; {held()}")

    async def _settled(self) -> Held:
        """Return the resources once only the caller's task is left, or the time for that is over."""
        for _ in range(int(SETTLING / 0.1)):
            gc.collect()
            if len(asyncio.all_tasks()) == 1 and not _tool_threads():
                break
            await anyio.sleep(0.1)
        return held()

    def _note_unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")


def held() -> Held:
    """Return the present resources of the process."""
    gc.collect()
    return Held(
        tasks=len(asyncio.all_tasks()),
        threads=len(_threads()),
        descriptors=len(os.listdir("/proc/self/fd")),
        sessions=sum(isinstance(thing, AgentSession) for thing in gc.get_objects()),
        blocks=sys.getallocatedblocks(),
        rss=int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20,
    )


def _threads() -> list[threading.Thread]:
    """Return all but anyio's pool, which keeps as many idle threads as calls once happened to overlap."""
    return [thread for thread in threading.enumerate() if not thread.name.startswith("AnyIO worker")]


def _tool_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(("tool-", "trace"))]

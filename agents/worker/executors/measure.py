"""Measures the own process: CPU time, memory, delay of the event loop."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections import deque
from pathlib import Path

import anyio

from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.pipelines.core.clock import LoopClock

TICK = 0.5
"""Seconds between two measurements of the loop's delay."""

TICKS_KEPT = 6

MEMORY_INTERVAL = 2.0
"""Seconds between two measurements of memory."""

_PROPORTIONAL = re.compile(r"^Pss:\s*(\d+) kB$", re.MULTILINE)


class ProcessMeter:
    """Measures the process that it is used in."""

    def __init__(self) -> None:
        self._delays: deque[float] = deque(maxlen=TICKS_KEPT)
        self._memory = own_memory()

    async def run(self) -> None:
        """Follow memory and the delay of the running event loop until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._follow_memory)
            clock = LoopClock()
            while True:
                due = clock.now() + TICK
                await anyio.sleep(TICK)
                self._delays.append(max(0.0, clock.now() - due))

    def facts(self, jobs: int) -> ProcessFacts:
        """Return the facts of now; memory as of the last seconds."""
        return ProcessFacts(
            pid=os.getpid(),
            jobs=jobs,
            cpu_time=time.process_time(),
            memory=self._memory,
            loop_delay=max(self._delays, default=0.0),
        )

    async def _follow_memory(self) -> None:
        """Measure in a thread: the system takes some milliseconds for a large process."""
        own_thread = anyio.CapacityLimiter(1)  # tools may hold all threads of the default limiter
        while True:
            await anyio.sleep(MEMORY_INTERVAL)
            self._memory = await anyio.to_thread.run_sync(own_memory, limiter=own_thread)


def own_memory() -> int:
    """Return the bytes of memory that this process holds: its own, and its share of shared pages (PSS).

    Source: /proc/self/smaps_rollup (Linux 4.14). Other systems do not know who shares a page; there it is the largest
    size that the process had so far.
    """
    rollup = Path("/proc/self/smaps_rollup")
    try:
        found = _PROPORTIONAL.search(rollup.read_text())
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

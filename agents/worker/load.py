"""The worker's load from measured facts: CPU, memory and the delay of event loops, each as a share of its limit. Pure.

A server gives a job to a worker at random, weighted by 1 - load. Jobs count too; the supervisor adds them, since it
knows a new one at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from vivavoce.agents.worker.executors.executor import ProcessFacts

WINDOW = 10.0
"""Seconds over which CPU and delay are averaged: one slow import is no load."""

MIN_INTERVAL = 1.0
"""Seconds between two measurements; a rate over less is noise."""

FULL_DELAY = 0.2
"""Seconds of delay of an event loop that are a load of 1: callers hear them in each answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The resources that the worker may use.

    Args:
        cores: Number of CPU cores.
        memory: Bytes that the control group allows; None without a limit.
        available_memory: Bytes that the machine can still give; None if unknown.
    """

    cores: float
    memory: int | None
    available_memory: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLoad:
    """The worker's use of its resources, each 0 to 1."""

    cpu: float = 0.0
    memory: float = 0.0
    delay: float = 0.0
    """Of the event loop with the smallest delay: a new job goes to a process that is free."""

    @property
    def largest(self) -> float:
        """The scarcest resource decides."""
        return max(self.cpu, self.memory, self.delay)


class LoadMeter:
    """Combines the facts of the processes that run jobs."""

    def __init__(self) -> None:
        self._measured = MeasuredLoad()
        self._at: float | None = None
        self._cpu_times: dict[int, float] = {}
        self._samples: deque[tuple[float, float, float, float]] = deque()
        """When each interval ended, its length, its CPU seconds, and the delay measured at its end."""

    @property
    def measured(self) -> MeasuredLoad:
        """The result of the last measurement."""
        return self._measured

    def is_due(self, now: float) -> bool:
        """Return whether enough time has passed for another measurement."""
        return self._at is None or now - self._at >= MIN_INTERVAL

    def measure(self, processes: Sequence[ProcessFacts], limits: Limits, now: float) -> MeasuredLoad:
        """Return the load of these processes, averaged over the last seconds; `now` grows from call to call."""
        # A process that is new has used its CPU time since the last measurement; one that is gone counts no more.
        used = sum(process.cpu_time - self._cpu_times.get(process.pid, 0.0) for process in processes)
        delay = min((process.loop_delay for process in processes), default=0.0)
        if self._at is not None:
            self._samples.append((now, now - self._at, max(0.0, used), delay))
        self._at = now
        self._cpu_times = {process.pid: process.cpu_time for process in processes}
        while self._samples and self._samples[0][0] <= now - WINDOW:
            self._samples.popleft()
        self._measured = MeasuredLoad(
            cpu=self._cpu(limits), memory=_memory(processes, limits), delay=self._mean_delay() / FULL_DELAY
        )
        return self._measured

    def _cpu(self, limits: Limits) -> float:
        seconds = sum(length for _, length, _, _ in self._samples)
        used = sum(used for _, _, used, _ in self._samples)
        return min(1.0, used / (seconds * limits.cores)) if seconds else 0.0

    def _mean_delay(self) -> float:
        delays = [delay for _, _, _, delay in self._samples]
        return min(FULL_DELAY, sum(delays) / len(delays)) if delays else 0.0


def _memory(processes: Sequence[ProcessFacts], limits: Limits) -> float:
    used = sum(process.memory for process in processes)
    bounds = [limits.memory] if limits.memory is not None else []
    if limits.available_memory is not None:
        bounds.append(used + limits.available_memory)
    return min(1.0, used / min(bounds)) if bounds and min(bounds) > 0 else 0.0

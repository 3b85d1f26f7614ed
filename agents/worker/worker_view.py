"""WorkerView: a worker as its tasks for callers without an agent see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.effects import Input, WorkerStatus
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.pipelines.core.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """A worker as its tasks see it.

    Args:
        account: URL, key and secret of the server.
        agent_name: The name that the worker registers.
        options: Options of the worker.
        post: Takes inputs for the worker's supervisor.
        status: Returns the worker's state.
        clock: The loop's time; its wall time dates records.
    """

    account: Credentials
    agent_name: str
    options: WorkerOptions
    post: Callable[[Input], None]
    status: Callable[[], WorkerStatus]
    clock: Clock

    @property
    def free_slots(self) -> int:
        """How many more jobs the worker can take now."""
        status = self.status()
        return status.max_jobs - len(status.active_jobs) if status.takes_jobs else 0

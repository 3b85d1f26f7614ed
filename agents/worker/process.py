"""The process of a worker: its signals and its heap."""

from __future__ import annotations

import gc
import logging
import signal

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskStatus

from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import first_error

logger = logging.getLogger(__name__)

GC_THRESHOLDS = (50_000, 50, 100)
"""A full collection in the middle of a call is an audible pause in every call of the process."""


async def run_worker(worker: Worker) -> None:
    """Run a worker as the only work of its process.

    SIGTERM drains it (running jobs may continue for `drain_timeout`), SIGINT ends the running jobs; a second signal of
    either kind ends them too, a third one only leaves the rooms. From the fourth on they have their usual effect, since
    code that swallows its cancellation can delay the third's.

    Raises:
        ConfigurationError: See `Worker.run`.
        WorkerError: See `Worker.run`.
    """
    try:
        async with anyio.create_task_group() as tasks:
            await tasks.start(_obey_signals, worker, tasks.cancel_scope)
            await worker.run(on_warm=freeze_heap)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = first_error(group)
        raise error from error.__cause__


def freeze_heap() -> None:
    """Exempt all loaded objects from garbage collection and make the collector run less often; for whole processes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


async def _obey_signals(
    worker: Worker, scope: CancelScope, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED
) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        task_status.started()
        count = 0
        async for number in signals:
            count += 1
            logger.info("got %s", number.name)
            if worker.status is None or count > 2:
                scope.cancel()
                return
            elif number == signal.SIGTERM and count == 1:
                worker.drain()
            else:
                worker.stop()

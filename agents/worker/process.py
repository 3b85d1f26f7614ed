"""The process of a worker: its signals."""

from __future__ import annotations

import logging
import signal
from functools import partial

import anyio
from anyio import TASK_STATUS_IGNORED, CancelScope
from anyio.abc import TaskStatus

from vivavoce.agents.worker.executors.nursery_process import NurseryProcess
from vivavoce.agents.worker.guardian import end_with_guardian
from vivavoce.agents.worker.heap import freeze_heap
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import first_error

logger = logging.getLogger(__name__)


async def run_worker(worker: Worker, nursery: NurseryProcess | None = None) -> None:
    """Run a worker as the only work of its process; `nursery` is for its job processes, if it was started early.

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
            end_with_guardian()
            await worker.run(on_warm=partial(_on_warm, worker), nursery=nursery)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        error = first_error(group)
        raise error from error.__cause__


def _on_warm(worker: Worker) -> None:
    freeze_heap()
    if (port := worker.health_port) is not None:
        logger.info("health, state and metrics: http://%s:%d/worker", worker.options.health_host, port)
    logger.info(
        "Ctrl-C ends the calls and the worker; SIGTERM lets the calls finish first, for %.0f s at most; a second one "
        "ends them",
        worker.options.drain_timeout,
    )


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

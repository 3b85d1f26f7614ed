"""The worker's health over HTTP: `GET /` for probes, `GET /worker` for people."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.worker.effects import WorkerStatus
from vivavoce.pipelines.core.errors import WorkerError

CLOSE_LIMIT = 1.0


async def serve_health(
    status: Callable[[], WorkerStatus], host: str, port: int, *, task_status: TaskStatus[int] = TASK_STATUS_IGNORED
) -> None:
    """Serve until cancelled; `started(port)` once the port is open.

    Raises:
        WorkerError: The port cannot be opened.
    """
    from aiohttp import web

    async def probe(request: web.Request) -> web.Response:
        now = status()
        if now.is_healthy:
            return web.Response(text="OK\n")
        return web.Response(status=503, text=f"{now.failure or 'not registered yet'}\n")

    async def worker(request: web.Request) -> web.Response:
        return web.json_response(worker_json(status()))

    app = web.Application()
    app.router.add_get("/", probe)
    app.router.add_get("/worker", worker)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_LIMIT)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            why = error.strerror or error
            raise WorkerError(
                f"the health endpoint needs {host}:{port}, got: {why}; choose another health_port"
            ) from error
        task_status.started(int(runner.addresses[0][1]))
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await runner.cleanup()


def worker_json(status: WorkerStatus) -> dict[str, Any]:
    """Return the body of `GET /worker`."""
    return {
        "agent_name": status.agent_name,
        "worker_id": status.worker_id,
        "registered": status.is_registered,
        "draining": status.is_draining,
        "healthy": status.is_healthy,
        "failure": status.failure,
        "load": status.load,
        "max_jobs": status.max_jobs,
        "active_jobs": [{"id": job.id, "room": job.room} for job in status.active_jobs],
    }

"""The worker over HTTP: `/` liveness, `/ready` readiness, `/worker` for people, `/metrics` for Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.effects import WorkerStatus
from vivavoce.agents.worker.metrics import NEEDS_EXTRA, WorkerState, exposition, has_library
from vivavoce.pipelines.core.errors import WorkerError
from vivavoce.pipelines.core.ports import why_no_port

CLOSE_LIMIT = 1.0


async def serve_health(
    state: Callable[[], WorkerState],
    figures: Callable[[], tuple[Figure, ...]],
    host: str,
    port: int,
    *,
    task_status: TaskStatus[int] = TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `started(port)` once the port is open.

    Args:
        state: Returns the worker's state.
        figures: Returns the figures of all its sessions.
    Raises:
        WorkerError: The port cannot be opened.
    """
    from aiohttp import web

    async def alive(request: web.Request) -> web.Response:
        now = state().status
        if now.is_healthy:
            return web.Response(text="OK\n")
        return web.Response(status=503, text=f"{now.failure or 'not registered yet'}\n")

    async def ready(request: web.Request) -> web.Response:
        now = state().status
        if now.is_ready:
            return web.Response(text="OK\n")
        return web.Response(status=503, text=f"{_why_not_ready(now)}\n")

    async def worker(request: web.Request) -> web.Response:
        return web.json_response(worker_json(state()))

    async def metrics(request: web.Request) -> web.Response:
        if not has_library():
            return web.Response(status=501, text=f"{NEEDS_EXTRA}\n")
        accept = request.headers.get("Accept", "")
        body, content_type = await anyio.to_thread.run_sync(exposition, state(), figures(), accept)
        return web.Response(body=body, headers={"Content-Type": content_type})

    app = web.Application()
    app.router.add_get("/", alive)
    app.router.add_get("/ready", ready)
    app.router.add_get("/worker", worker)
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=CLOSE_LIMIT)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise WorkerError(why_no_port(error, host, port, option="health_port")) from error
        task_status.started(int(runner.addresses[0][1]))
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await runner.cleanup()


def _why_not_ready(status: WorkerStatus) -> str:
    if status.failure or status.is_draining:
        return status.failure or "draining"
    return "no process can run jobs" if status.is_registered else "not registered"


def worker_json(state: WorkerState) -> dict[str, Any]:
    """Return the body of `GET /worker`."""
    status, measured = state.status, state.measured
    return {
        "agent_name": status.agent_name,
        "worker_id": status.worker_id,
        "registered": status.is_registered,
        "ready": status.is_ready,
        "draining": status.is_draining,
        "healthy": status.is_healthy,
        "failure": status.failure,
        "load": status.load,
        "use": {"cpu": measured.cpu, "memory": measured.memory, "event_loop": measured.delay},
        "max_jobs": status.max_jobs,
        "active_jobs": [{"id": job.id, "room": job.room} for job in status.active_jobs],
        "processes": [
            {
                "pid": process.pid,
                "jobs": process.jobs,
                "cpu_seconds": round(process.cpu_time, 3),
                "memory_bytes": process.memory,
                "event_loop_delay": round(process.loop_delay, 4),
            }
            for process in state.processes
        ],
    }

"""The life of a worker against a scripted server: warm-up, load, health, its end; its jobs join no room."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

import anyio
import pytest
from livekit.protocol import agent as wire

from kit import import_watch_app
from kit.blocked_loop import LoopWarnings
from kit.e2e.working import Working
from kit.idle_job import keep_job
from kit.servers.agent_server import AgentServer
from kit.telemetry import Watching
from vivavoce.agents.agent import Agent
from vivavoce.agents.current_job import required_job
from vivavoce.agents.job import JobContext
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.executors.nursery_process import start_nursery
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import WorkerError
from vivavoce.pipelines.testing import ScriptedTTS

LIMIT = 60.0

IMPORT_WATCH_APP = import_watch_app.__file__

Entrypoint = Callable[[JobContext], Awaitable[None]]


@pytest.fixture
async def server() -> AsyncIterator[AgentServer]:
    async with AgentServer() as server:
        yield server


def _worker(server: AgentServer, entrypoint: Entrypoint, *, agent_name: str = "", **options: object) -> Worker:
    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(**{"executor": TaskExecution(), **account, **options})  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name=agent_name, options=given)


async def _idle(ctx: JobContext) -> None:
    """Return at once; the job continues."""
    keep_job()


class _Model(Component):
    def __init__(self) -> None:
        self.is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True


async def test_prewarm_fills_what_the_jobs_share_and_its_components_are_closed_with_the_worker(
    server: AgentServer,
) -> None:
    model = _Model()
    seen: asyncio.Queue[Any] = asyncio.Queue()

    def prewarm(shared: dict[str, Any]) -> None:
        shared["model"] = model

    async def entrypoint(ctx: JobContext) -> None:
        seen.put_nowait((ctx.shared["model"], model.is_closed))
        keep_job()

    async with Working(_worker(server, entrypoint, prewarm=prewarm)):
        await server.start("AJ_1")
        async with asyncio.timeout(LIMIT):
            assert await seen.get() == (model, False)

    assert model.is_closed


async def test_closing_ends_the_jobs_reports_them_and_is_fine_twice(server: AgentServer) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        await anyio.sleep_forever()

    worker = _worker(server, entrypoint)
    await worker.aclose()
    async with Working(worker):
        await server.start("AJ_1")
        await server.heard(lambda m: m.update_job.status == wire.JS_RUNNING)
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as tasks:
            tasks.create_task(worker.aclose())
            tasks.create_task(worker.aclose())

    assert (await server.ended("AJ_1")).status == wire.JS_SUCCESS
    assert any(message.update_worker.draining for message in server.messages)


async def test_a_worker_that_is_cancelled_still_closes_the_sessions_of_its_jobs(server: AgentServer) -> None:
    closed: list[str] = []

    async def entrypoint(ctx: JobContext) -> None:
        async def close(reason: str) -> None:
            await anyio.sleep(0.01)
            closed.append(reason)

        required_job().attach_session(close)
        await anyio.sleep_forever()

    async with anyio.create_task_group() as tasks:
        await tasks.start(_worker(server, entrypoint).run)
        await server.start("AJ_1")
        await server.heard(lambda m: m.update_job.status == wire.JS_RUNNING)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()

    assert closed == ["the worker was cancelled"]


async def test_a_prewarm_that_fails_fails_the_worker_with_its_own_error(server: AgentServer) -> None:
    def prewarm(shared: dict[str, Any]) -> None:
        raise OSError("no model file")

    with pytest.raises(OSError, match="no model file"):
        await _worker(server, _idle, prewarm=prewarm).run()


async def test_a_worker_can_be_closed_while_it_warms_up(server: AgentServer) -> None:
    loop, warming, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def prewarm(shared: dict[str, Any]) -> None:
        loop.call_soon_threadsafe(warming.set)
        go_on.wait()

    worker = _worker(server, _idle, prewarm=prewarm)
    async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as tasks:
        tasks.create_task(worker.run())
        await warming.wait()
        tasks.create_task(worker.aclose())
        await asyncio.to_thread(lambda: None)
        go_on.set()

    assert server.connections == 0


async def test_a_prewarm_that_hangs_ends_the_worker_and_the_log_shows_where(
    server: AgentServer, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()

    def hanging_prewarm(shared: dict[str, Any]) -> None:
        go_on.wait()

    worker = _worker(server, _idle, prewarm=hanging_prewarm, executor=TaskExecution(start_limit=2.0))
    with pytest.raises(WorkerError, match=r"prewarm must return within start_limit=2 s, .* raise start_limit"):
        await worker.run()
    go_on.set()

    assert "in hanging_prewarm" in caplog.text
    assert server.connections == 0


async def test_a_prewarm_that_gets_no_memory_fails_the_worker_with_that_error(server: AgentServer) -> None:
    def prewarm(shared: dict[str, Any]) -> None:
        shared["food"] = bytearray(2**62)

    with pytest.raises(MemoryError):
        await _worker(server, _idle, prewarm=prewarm).run()


async def test_a_worker_runs_once_at_a_time_and_again_after_its_end(server: AgentServer) -> None:
    worker = _worker(server, _idle)
    async with Working(worker):
        with pytest.raises(WorkerError, match="runs already"):
            await worker.run()
    async with Working(worker):
        assert (await server.offer("AJ_1")).available


async def test_a_failing_load_function_harms_nobody_and_a_working_one_is_reported(server: AgentServer) -> None:
    loads: Iterator[Exception | float] = iter([RuntimeError("no meter"), 0.25])

    def load() -> float:
        value = next(loads, 0.25)
        if isinstance(value, Exception):
            raise value
        return value

    async with Working(_worker(server, _idle, load=load)):
        await server.heard(lambda m: m.update_worker.load == 0.25)


async def test_a_worker_without_a_load_function_reports_what_it_measures(server: AgentServer) -> None:
    async with Working(_worker(server, _idle)):
        idle = await server.heard(lambda m: m.HasField("update_worker"))

    assert idle.update_worker.job_count == 0
    assert 0.0 < idle.update_worker.load < 1.0  # its memory, at least


async def test_a_blocked_event_loop_is_noted_on_the_spans_of_the_jobs(server: AgentServer) -> None:
    watching = Watching()

    async def entrypoint(ctx: JobContext) -> None:
        warnings.block(0.8)
        await anyio.sleep(0.2)  # the loop runs again
        ctx.shutdown("done")

    worker = _worker(server, entrypoint, block_limit=0.2, telemetry=watching.telemetry)
    with LoopWarnings.collected() as warnings:
        async with Working(worker):
            await server.start("AJ_1")
            await server.ended("AJ_1")

    [job] = watching.of("job")
    blocked = [dict(event.attributes or {}) for event in job.events if event.name == "event_loop_blocked"]
    # Others are of a machine that let the loop wait elsewhere.
    [noted] = [one for one in blocked if "in entrypoint" in str(one["vivavoce.blocked.stack"])]
    assert float(str(noted["vivavoce.blocked.seconds"])) > 0.8


async def test_health_is_bad_before_the_registration_and_good_after(server: AgentServer) -> None:
    from aiohttp import ClientSession

    go_on = threading.Event()

    def prewarm(shared: dict[str, Any]) -> None:
        go_on.wait()

    worker = _worker(server, _idle, agent_name="host", health_port=0, prewarm=prewarm)
    async with ClientSession() as client, asyncio.TaskGroup() as tasks, asyncio.timeout(LIMIT):
        running = tasks.create_task(worker.run())
        while worker.health_port is None:  # noqa: ASYNC110 - the port is all that tells it is open
            await anyio.sleep(0.01)
        base = f"http://127.0.0.1:{worker.health_port}"
        async with client.get(f"{base}/") as answer:
            assert (answer.status, await answer.text()) == (503, "not registered yet\n")

        go_on.set()
        await server.heard(lambda m: m.HasField("update_worker"))
        await server.start("AJ_1")

        async with client.get(f"{base}/") as answer:
            assert (answer.status, await answer.text()) == (200, "OK\n")
        async with client.get(f"{base}/worker") as answer:
            shown = await answer.json()
        assert shown["agent_name"] == "host"
        assert shown["active_jobs"] == [{"id": "AJ_1", "room": "room-of-AJ_1"}]
        await worker.aclose()
        await running


async def test_a_worker_is_ready_while_it_is_registered_and_does_not_drain(server: AgentServer) -> None:
    from aiohttp import ClientSession

    worker = _worker(server, _idle, health_port=0)
    async with ClientSession() as client, asyncio.timeout(LIMIT), Working(worker) as working:
        base = f"http://127.0.0.1:{worker.health_port}"
        async with client.get(f"{base}/ready") as answer:
            assert (answer.status, await answer.text()) == (200, "OK\n")
        await server.start("AJ_1")
        worker.drain()
        await server.heard(lambda m: m.update_worker.draining)

        async with client.get(f"{base}/ready") as answer:
            assert (answer.status, await answer.text()) == (503, "draining\n")
        async with client.get(f"{base}/") as answer:
            assert answer.status == 200, "alive: its call goes on"
        await server.terminate("AJ_1")
        await working.running


async def test_one_scrape_shows_the_worker_and_the_sessions_of_its_jobs(server: AgentServer) -> None:
    from aiohttp import ClientSession

    async def entrypoint(ctx: JobContext) -> None:
        async with AgentSession[None](Agent("Help."), CascadingPipeline(tts=ScriptedTTS())) as session:
            await session.start(LocalTransport(LoopClock()))
            await session.say("One.")

    worker = _worker(server, entrypoint, health_port=0)
    async with ClientSession() as client, asyncio.timeout(LIMIT), Working(worker):
        await server.start("AJ_1")
        await server.ended("AJ_1")
        async with client.get(f"http://127.0.0.1:{worker.health_port}/metrics") as answer:
            assert (answer.status, answer.content_type) == (200, "text/plain")
            lines = (await answer.text()).splitlines()

    assert 'vivavoce_worker_jobs_ended_total{outcome="success"} 1.0' in lines
    assert "vivavoce_worker_registered 1.0" in lines
    turns = [line for line in lines if line.startswith("vivavoce_turns_total{") and "completed" in line]
    assert [line.split()[-1] for line in turns] == ["1.0"]
    assert any(line.startswith("vivavoce_session_duration_seconds_bucket{") for line in lines)


async def test_without_the_library_the_metrics_name_the_extra(
    server: AgentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiohttp import ClientSession

    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    worker = _worker(server, _idle, health_port=0)
    async with ClientSession() as client, asyncio.timeout(LIMIT), Working(worker):
        async with client.get(f"http://127.0.0.1:{worker.health_port}/metrics") as answer:
            assert answer.status == 501
            assert "pip install 'vivavoce[prometheus]'" in await answer.text()


async def test_a_worker_that_runs_jobs_as_tasks_keeps_no_process_that_was_started_for_job_processes(
    server: AgentServer,
) -> None:
    nursery = start_nursery()
    worker = _worker(server, _idle)
    async with anyio.create_task_group() as tasks:
        await tasks.start(partial(worker.run, nursery=nursery))
        assert nursery.process.poll() is not None
        await worker.aclose()


async def test_a_taken_health_port_is_named(server: AgentServer) -> None:
    port = int(server.url.rsplit(":", 1)[1])

    with pytest.raises(WorkerError, match=f"port {port} on 127.0.0.1 is taken.* choose another health_port"):
        await _worker(server, _idle, health_port=port).run()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("executor", ["processes", "tasks"])
async def test_the_watched_event_loop_loads_no_packages_at_the_worker_s_start(
    server: AgentServer, executor: str
) -> None:
    """The watch would name the library's own imports as the code that blocks the loop."""
    account = (server.url, server.api_key, server.api_secret)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, IMPORT_WATCH_APP, *account, executor, stdin=-1, stdout=-1, stderr=-1
    )
    try:
        async with asyncio.timeout(40):
            assert worker.stdout is not None
            assert await worker.stdout.readline() == b"registered\n"
            await server.start("AJ_1")
            await server.ended("AJ_1")
            out, err = await worker.communicate(b"\n")
    finally:
        if worker.returncode is None:
            worker.kill()
            await worker.wait()

    packages = {name.partition(".")[0] for name in json.loads(out)}
    assert packages <= {"vivavoce", "anyio"}, f"{out!r}, {err!r}"

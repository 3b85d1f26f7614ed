"""A worker against a scripted server: registration, offers, job ends; its jobs join no room."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import jwt
import pytest
from livekit.protocol import agent as wire

from kit.e2e.working import Working
from kit.idle_job import keep_job
from kit.servers.agent_server import AgentServer
from vivavoce.agents.current_job import get_job_context, required_job
from vivavoce.agents.job import JobContext, JobControl
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.request import JobRequest
from vivavoce.agents.worker.run import NO_SESSION
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import ConfigurationError, WorkerError

LIMIT = 60.0

Entrypoint = Callable[[JobContext], Awaitable[None]]


@pytest.fixture
async def server() -> AsyncIterator[AgentServer]:
    async with AgentServer() as server:
        yield server


def _worker(server: AgentServer, entrypoint: Entrypoint, *, agent_name: str = "", **options: object) -> Worker:
    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(executor=TaskExecution(), **account, **options)  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name=agent_name, options=given)


async def _idle(ctx: JobContext) -> None:
    """Return at once; the job continues."""
    keep_job()


# Registration


async def test_the_worker_registers_with_a_token_that_is_good_for_agents_only(server: AgentServer) -> None:
    async with Working(_worker(server, _idle, agent_name="host")):
        claims = jwt.decode(server.tokens[0], server.api_secret, algorithms=["HS256"])

    assert claims["iss"] == server.api_key
    assert claims["video"]["agent"] is True
    assert "roomJoin" not in claims["video"]
    assert server.messages[0].register.agent_name == "host"


async def test_the_agent_name_may_come_from_the_environment(
    server: AgentServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIVEKIT_AGENT_NAME", "waiter")

    async with Working(_worker(server, _idle)) as working:
        assert working.worker.agent_name == "waiter"

    assert server.messages[0].register.agent_name == "waiter"


async def test_an_upgrade_before_the_server_hangs_up_makes_the_next_try_no_first_one() -> None:
    """The pauses between tries grow with their number; see `test_supervisor`."""
    async with AgentServer(hangs_up=True) as server:
        with pytest.raises(WorkerError, match=r"hung up before it had registered the worker .*\(tried 2 times\)"):
            await _worker(server, _idle, max_retry=1).run()

    assert server.connections == 2


async def test_a_server_that_is_not_there_ends_the_worker_after_its_tries() -> None:
    async with AgentServer() as gone:
        pass

    with pytest.raises(
        WorkerError, match=r"no connection to ws://127.0.0.1:\d+: no server answers there \(connection refused\)"
    ):
        await _worker(gone, _idle, max_retry=0).run()


async def test_a_server_that_writes_text_is_understood() -> None:
    async with AgentServer(writes_text=True) as server, Working(_worker(server, _idle)):
        assert (await server.offer("AJ_1")).available


async def test_after_a_lost_connection_the_worker_registers_anew_and_names_its_jobs(server: AgentServer) -> None:
    async with Working(_worker(server, _idle)):
        await server.start("AJ_1")
        await server.heard(lambda m: m.update_job.status == wire.JS_RUNNING)
        spoken = len(server.messages)

        await server.hang_up()

        await server.heard(lambda m: m.HasField("register"), after=spoken)
        migrate = await server.heard(lambda m: m.HasField("migrate_job"), after=spoken)
        assert list(migrate.migrate_job.job_ids) == ["AJ_1"]


# Offers


async def test_a_full_worker_says_no(server: AgentServer) -> None:
    async with Working(_worker(server, _idle, max_jobs=1)):
        await server.start("AJ_1")

        assert not (await server.offer("AJ_2")).available


async def test_a_request_handler_chooses_jobs_and_identities(server: AgentServer) -> None:
    async def choose(request: JobRequest) -> None:
        if request.job.metadata == "vip":
            request.accept(identity="butler", attributes={"tier": "vip"})
        else:
            request.reject(terminate=True)

    async with Working(_worker(server, _idle, on_request=choose)):
        taken, refused = await server.offer("AJ_1", "vip"), await server.offer("AJ_2", "other")

    assert (taken.available, taken.participant_identity) == (True, "butler")
    assert dict(taken.participant_attributes) == {"tier": "vip"}
    assert (refused.available, refused.terminate) == (False, True)


async def test_a_request_handler_that_raises_hangs_or_says_nothing_passes_the_job_on(server: AgentServer) -> None:
    async def misbehave(request: JobRequest) -> None:
        match request.job.metadata:
            case "raise":
                raise ValueError("no idea")
            case "hang":
                await anyio.sleep_forever()
            case "twice":
                request.accept()
                request.accept()

    async with Working(_worker(server, _idle, on_request=misbehave, request_timeout=0.2)):
        assert not (await server.offer("AJ_1", "raise")).available
        assert not (await server.offer("AJ_2", "hang")).available
        assert not (await server.offer("AJ_3", "silent")).available
        assert (await server.offer("AJ_4", "twice")).available  # the first word counts, the second is an error


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"identity": 7}, "need identity as a str, got 7"),
        ({"metadata": b"x"}, "need metadata as a str, got b'x'"),
        ({"attributes": {"table": 7}}, "attributes must be a mapping of texts, got {'table': 7}"),
        ({"attributes": [("a", "b")]}, "attributes must be a mapping of texts"),
    ],
)
async def test_a_request_handler_that_accepts_with_a_value_of_the_wrong_type_rejects_and_says_why(
    server: AgentServer, caplog: pytest.LogCaptureFixture, given: dict[str, Any], words: str
) -> None:
    async def accept(request: JobRequest) -> None:
        if request.job.metadata == "wrong":
            request.accept(**given)
        else:
            request.accept()

    async with Working(_worker(server, _idle, on_request=accept)):
        assert not (await server.offer("AJ_1", "wrong")).available
        assert (await server.offer("AJ_2")).available
    assert words in caplog.text


# Jobs


async def test_a_job_whose_entrypoint_returns_without_a_session_and_a_room_is_reported_as_failed(
    server: AgentServer,
) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        ctx.add_shutdown_callback(lambda: None)

    async with Working(_worker(server, entrypoint)):
        await server.start("AJ_1")
        report = await server.ended("AJ_1")

    assert (report.status, report.error) == (wire.JS_FAILED, NO_SESSION)


async def test_a_job_goes_on_after_its_entrypoint_has_returned_until_it_is_shut_down(server: AgentServer) -> None:
    contexts: asyncio.Queue[JobContext] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        assert get_job_context() is ctx
        contexts.put_nowait(ctx)
        keep_job()

    async with Working(_worker(server, entrypoint)) as working:
        await server.start("AJ_1", "for two")
        async with asyncio.timeout(LIMIT):
            ctx = await contexts.get()
        status = working.worker.status
        assert status is not None
        assert [job.id for job in status.active_jobs] == ["AJ_1"]
        assert (ctx.job.room, ctx.job.metadata) == ("room-of-AJ_1", "for two")

        await asyncio.to_thread(ctx.shutdown, "done")

        report = await server.ended("AJ_1")
        assert (report.status, report.error) == (wire.JS_SUCCESS, "")
        assert ctx.reason == "done"


async def test_a_termination_ends_a_job_successfully(server: AgentServer) -> None:
    async with Working(_worker(server, _idle)):
        await server.start("AJ_1")
        await server.terminate("AJ_1")

        assert (await server.ended("AJ_1")).status == wire.JS_SUCCESS


async def _fail_as_metadata_says(ctx: JobContext) -> None:
    match ctx.job.metadata:
        case "raise":
            raise KeyError("no such table")
        case "group":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_raise, ValueError("one"))
        case "half a character":
            raise ValueError("the file '\udcff' is not there")
        case "exit":
            sys.exit(3)
        case "cancelled":
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            future.cancel()
            await future
    keep_job()


async def _raise(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("how", "error"),
    [
        ("raise", "KeyError: 'no such table'"),
        ("group", "ValueError: one"),
        ("half a character", r"ValueError: the file '\udcff' is not there"),
        ("exit", "SystemExit: 3"),
        ("cancelled", "VoiceError: the entrypoint of job AJ_bad ended with a cancellation that nobody here asked for"),
    ],
)
async def test_a_job_that_fails_reports_its_real_error_and_the_one_beside_it_goes_on(
    server: AgentServer, how: str, error: str
) -> None:
    async with Working(_worker(server, _fail_as_metadata_says)) as working:
        await server.start("AJ_good")
        await server.start("AJ_bad", how)

        report = await server.ended("AJ_bad")

        assert (report.status, report.error) == (wire.JS_FAILED, error)
        status = working.worker.status
        assert status is not None
        assert [job.id for job in status.active_jobs] == ["AJ_good"]


async def test_sessions_close_first_so_that_an_entrypoint_waiting_for_them_can_save_its_things(
    server: AgentServer,
) -> None:
    order: list[str] = []

    async def entrypoint(ctx: JobContext) -> None:
        closed = anyio.Event()

        async def close(reason: str) -> None:
            order.append(f"session closed: {reason}")
            closed.set()

        async def note() -> None:
            order.append("callback")

        required_job().attach_session(close)
        ctx.add_shutdown_callback(note)
        ctx.shutdown("hung up")
        await closed.wait()
        order.append("saved")

    async with Working(_worker(server, entrypoint)):
        await server.start("AJ_1")
        assert (await server.ended("AJ_1")).status == wire.JS_SUCCESS

    assert order == ["session closed: hung up", "saved", "callback"]


async def test_steps_that_raise_or_hang_are_cut_and_the_later_ones_still_run(server: AgentServer) -> None:
    ran: list[str] = []

    async def entrypoint(ctx: JobContext) -> None:
        async def hang(reason: str) -> None:
            ran.append("session")
            await anyio.sleep_forever()

        def explode() -> None:
            ran.append("first callback")
            raise RuntimeError("callback")

        required_job().attach_session(hang)
        ctx.add_shutdown_callback(explode)
        ctx.add_shutdown_callback(lambda reason: ran.append(f"second callback: {reason}"))
        ctx.shutdown("over")
        await anyio.sleep_forever()

    async with Working(_worker(server, entrypoint, job_close_timeout=0.1, entrypoint_timeout=0.1)):
        await server.start("AJ_1")
        assert (await server.ended("AJ_1")).status == wire.JS_SUCCESS

    assert ran == ["session", "first callback", "second callback: over"]


async def test_an_entrypoint_that_ignores_its_cancellation_does_not_hold_up_its_job(server: AgentServer) -> None:
    released = anyio.Event()

    async def entrypoint(ctx: JobContext) -> None:
        ctx.shutdown()
        with anyio.CancelScope(shield=True):
            await released.wait()

    async with Working(_worker(server, entrypoint, entrypoint_timeout=0.1)):
        await server.start("AJ_1")
        assert (await server.ended("AJ_1")).status == wire.JS_SUCCESS
        released.set()


async def test_a_job_that_has_ended_takes_nothing_more(server: AgentServer) -> None:
    jobs: asyncio.Queue[JobControl] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        ctx.shutdown("over")
        jobs.put_nowait(required_job())

    async def close(reason: str) -> None:
        raise AssertionError("never attached")

    async with Working(_worker(server, entrypoint)):
        await server.start("AJ_1")
        await server.ended("AJ_1")
        job = jobs.get_nowait()
        ctx = job.context
        with pytest.raises(WorkerError, match="job AJ_1 has ended: over"):
            job.attach_session(close)
        with pytest.raises(WorkerError, match="has ended"):
            await ctx.connect()
        ctx.shutdown("again")
        assert ctx.reason == "over"


async def test_a_shutdown_callback_of_a_wrong_form_is_refused_where_it_is_added(server: AgentServer) -> None:
    def wants_two(reason: str, more: str) -> None:
        raise AssertionError("never called")

    async def entrypoint(ctx: JobContext) -> None:
        ctx.add_shutdown_callback(wants_two)  # type: ignore[arg-type]

    async with Working(_worker(server, entrypoint)):
        await server.start("AJ_1")
        report = await server.ended("AJ_1")

    assert report.error.startswith("ConfigurationError: a shutdown callback takes the reason or nothing")


async def test_an_assignment_to_no_websocket_fails_the_job_and_says_why(server: AgentServer) -> None:
    async with Working(_worker(server, _idle)):
        await server.offer("AJ_1")
        await server.assign("AJ_1", url="gopher://host")

        assert "must look like" in (await server.ended("AJ_1")).error


def test_outside_a_job_there_is_no_job_context_and_the_error_says_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match=r"call it from a worker's entrypoint, or pass the room"):
        get_job_context()

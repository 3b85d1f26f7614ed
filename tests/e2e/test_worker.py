"""A worker on both servers: dispatch, the job's room, every way a job ends, and the worker's own end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import anyio
import pytest
from livekit import api
from livekit.protocol.agent import JobStatus
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import DeleteRoomRequest, RoomConfiguration

from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.worker_process import WorkerProcess
from kit.e2e.worker_tap import WorkerTap
from kit.e2e.working import Working
from kit.limits import LIMIT
from vivavoce.agents.current_job import get_job_context, required_job
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.job import RoomJob
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import RoomError, WorkerError

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

AGENT_KIND = 4
LEAVES_WITHIN = 20.0
"""A leave is seen at once, except for about one in twenty that follow right upon a join: the SDK closes its connection
before its leave is out, and the room gives it the 10 s in which a client may come back.
"""

Entrypoint = Callable[[JobContext], Awaitable[None]]
Connect = Callable[..., Awaitable[PeerProcess]]


def _worker(
    server: RoomEndpoint, entrypoint: Entrypoint, *, agent_name: str = "", url: str = "", **options: object
) -> Worker:
    account = {"url": url or server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(executor=TaskExecution(), **(account | options))  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name=agent_name, options=given)


def _dispatch(agent_name: str, metadata: str = "") -> RoomConfiguration:
    return RoomConfiguration(agents=[RoomAgentDispatch(agent_name=agent_name, metadata=metadata)])


@pytest.fixture
async def tap(room_server: RoomEndpoint) -> AsyncIterator[WorkerTap]:
    """The server as workers reach it in these tests, their words noted."""
    async with WorkerTap(room_server.url) as tap:
        yield tap


async def _mood(peer: PeerProcess, identity: str) -> str | None:
    others = await peer.call("others")
    mood: str | None = others[identity]["attributes"].get("mood")
    return mood


@pytest.mark.both_servers
async def test_a_caller_who_joins_a_new_room_meets_the_agent_of_the_only_worker_however_busy_that_is(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    jobs: list[JobContext] = []

    async def entrypoint(ctx: JobContext) -> None:
        assert get_job_context() is ctx
        await ctx.connect()
        await ctx.room.local_participant.set_attributes({"mood": "glad"})
        jobs.append(ctx)

    async with Working(_worker(room_server, entrypoint, load=lambda: 1.0)):
        caller = await connect(room_server, "caller")

        joined = await caller.event("participant_connected", kind=AGENT_KIND)
        with anyio.fail_after(LIMIT):
            # The SDK may emit no event for it, and the caller may see it before the agent has its answer.
            while not jobs or await _mood(caller, joined["identity"]) != "glad":  # noqa: ASYNC110 - as said
                await anyio.sleep(0.05)

        [ctx] = jobs
        assert ctx.job.room == room_name
        assert joined["identity"] == f"agent-{ctx.job.id}"
    await caller.event("participant_disconnected", identity=joined["identity"], limit=LEAVES_WITHIN)


@pytest.mark.both_servers
async def test_shutdown_runs_the_callbacks_in_the_room_then_leaves_and_reports_success(
    room_server: RoomEndpoint, tap: WorkerTap, connect: Connect, room_name: str
) -> None:
    order: list[str] = []
    contexts: asyncio.Queue[JobContext] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        async def close_session(reason: str) -> None:
            order.append(f"session closed: {reason}")

        async def note(reason: str) -> None:
            order.append(f"callback: {reason}, connected: {ctx.room.isconnected()}")

        await ctx.connect()
        required_job().attach_session(close_session)
        ctx.add_shutdown_callback(note)
        await ctx.wait_for_participant("caller")
        contexts.put_nowait(ctx)

    async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)):
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        agent = await caller.event("participant_connected", kind=AGENT_KIND)
        with anyio.fail_after(LIMIT):
            ctx = await contexts.get()
        ctx.shutdown("all said")
        await caller.event("participant_disconnected", identity=agent["identity"], limit=LEAVES_WITHIN)
        report = await tap.report(JobStatus.JS_SUCCESS)

    assert not report.error
    assert order == ["session closed: all said", "callback: all said, connected: True"]


@pytest.mark.both_servers
async def test_an_entrypoint_that_raises_reports_its_real_error_and_harms_no_other_job(
    room_server: RoomEndpoint, tap: WorkerTap, connect: Connect, room_name: str
) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        await ctx.connect()
        if ctx.job.metadata == "bad":
            raise KeyError("no such table")

    async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)):
        async with PeerProcess() as other:
            token = room_server.token("other", f"{room_name}-good", config=_dispatch("host", "good"))
            await other.call("connect", url=room_server.url, token=token)
            good = await other.event("participant_connected", kind=AGENT_KIND)
            await connect(room_server, "caller", config=_dispatch("host", "bad"))

            report = await tap.report(JobStatus.JS_FAILED)

            assert report.error == "KeyError: 'no such table'"
            assert good["identity"] in await other.call("others")


@pytest.mark.both_servers
async def test_a_token_reaches_the_worker_of_the_name_it_gives_and_no_other(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    reached: list[tuple[str, str]] = []

    def noting(name: str) -> Entrypoint:
        async def entrypoint(ctx: JobContext) -> None:
            reached.append((name, ctx.job.metadata))
            await ctx.connect()

        return entrypoint

    host = _worker(room_server, noting("host"), agent_name="host")
    cook = _worker(room_server, noting("cook"), agent_name="cook")
    anyone = _worker(room_server, noting("anyone"))
    async with Working(host), Working(cook), Working(anyone):
        caller = await connect(room_server, "caller", config=_dispatch("cook", "two eggs"))
        await caller.event("participant_connected", kind=AGENT_KIND)

    assert reached == [("cook", "two eggs")]


@pytest.mark.both_servers
async def test_a_deleted_room_ends_its_job(room_server: RoomEndpoint, connect: Connect, room_name: str) -> None:
    reasons: asyncio.Queue[str] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        ctx.add_shutdown_callback(reasons.put_nowait)
        await ctx.connect()

    async with Working(_worker(room_server, entrypoint, agent_name="host")) as working:
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        await caller.event("participant_connected", kind=AGENT_KIND)
        async with api.LiveKitAPI(room_server.url, room_server.api_key, room_server.api_secret) as client:
            await client.room.delete_room(DeleteRoomRequest(room=room_name))

        with anyio.fail_after(LIMIT):
            assert await reasons.get() == "room disconnected: ROOM_DELETED"
        status = working.worker.status
        assert status is not None
        assert status.is_registered


async def test_draining_lets_the_running_job_finish(
    room_server: RoomEndpoint, tap: WorkerTap, connect: Connect
) -> None:
    contexts: asyncio.Queue[JobContext] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        await ctx.connect()
        contexts.put_nowait(ctx)

    async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)) as working:
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        with anyio.fail_after(LIMIT):
            ctx = await contexts.get()
        await caller.event("participant_connected", kind=AGENT_KIND)
        working.worker.drain()
        await tap.draining()
        assert ctx.room.isconnected()
        assert "agent-" + ctx.job.id in await caller.call("others")

        ctx.shutdown("done")
        with anyio.fail_after(LIMIT):
            await working.running


async def test_waiting_for_a_caller_who_never_comes_fails_with_the_limit_named(
    room_server: RoomEndpoint, tap: WorkerTap, connect: Connect, room_name: str
) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        await ctx.wait_for_participant("nobody", limit=0.2)

    async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)):
        await connect(room_server, "caller", config=_dispatch("host"))
        report = await tap.report(JobStatus.JS_FAILED)

    assert report.error.startswith(f"RoomError: the participant 'nobody' had to join room {room_name!r} within 0.2 s")


@pytest.mark.both_servers
async def test_a_wrong_secret_ends_the_worker_at_once_and_says_whose_fault_it_is(room_server: RoomEndpoint) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        raise RoomError("no job can come")

    worker = _worker(room_server, entrypoint, api_secret="wrong" * 8)
    with anyio.fail_after(LIMIT), pytest.raises(WorkerError, match="refused API key .* with status 401"):
        await worker.run()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_closes_the_job_and_leaves_its_room_before_the_process_ends(
    room_server: RoomEndpoint, connect: Connect, number: signal.Signals
) -> None:
    account = (room_server.url, room_server.api_key, room_server.api_secret)
    async with WorkerProcess(*account) as worker:
        await worker.line("registered")
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        agent = await caller.event("participant_connected", kind=AGENT_KIND)
        await worker.line("joined")

        worker.process.send_signal(number)

        rest = await worker.rest()
        assert [line for line in rest if line != "draining"] == [
            "session closed",
            "callback, connected: True",
            "run_worker returned",
        ]
        assert await worker.status() == 0
        await caller.event("participant_disconnected", identity=agent["identity"], limit=LEAVES_WITHIN)


async def test_a_second_signal_ends_a_drain_at_once(room_server: RoomEndpoint, connect: Connect) -> None:
    account = (room_server.url, room_server.api_key, room_server.api_secret)
    async with WorkerProcess(*account, drain_timeout=600.0) as worker:
        await worker.line("registered")
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        agent = await caller.event("participant_connected", kind=AGENT_KIND)
        await worker.line("joined")

        worker.process.send_signal(signal.SIGTERM)
        await worker.line("draining")
        assert agent["identity"] in await caller.call("others")
        worker.process.send_signal(signal.SIGTERM)

        assert (await worker.rest())[-1] == "run_worker returned"
        assert await worker.status() == 0
        await caller.event("participant_disconnected", identity=agent["identity"], limit=LEAVES_WITHIN)


async def test_a_room_that_cannot_be_joined_fails_the_job_and_names_the_place(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    async def entrypoint(ctx: JobContext) -> None:
        await ctx.connect()

    async with WorkerTap(room_server.url, room_url="ws://127.0.0.1:9") as tap:
        async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)):
            await connect(room_server, "caller", config=_dispatch("host"))
            report = await tap.report(JobStatus.JS_FAILED)

    assert report.error.startswith(f"RoomError: could not join room {room_name!r} at ws://127.0.0.1:9")


@pytest.mark.both_servers
async def test_a_job_whose_token_has_expired_cannot_join_and_says_so(room_server: RoomEndpoint, room_name: str) -> None:
    token = room_server.token("agent-AJ_1", room_name, ttl=-120.0)
    async with anyio.create_task_group() as tasks:
        job = RoomJob(JobInfo(id="AJ_1", room=room_name), url=room_server.url, token=token, shared={}, tasks=tasks)
        with pytest.raises(RoomError, match=f"could not join room '{room_name}' at .*expired") as refused:
            await job.connect(True)
        await job.leave()
    assert token not in str(refused.value)


@pytest.mark.both_servers
async def test_a_lost_worker_connection_leaves_the_agent_in_its_room_and_the_report_comes_later(
    room_server: RoomEndpoint, tap: WorkerTap, connect: Connect
) -> None:
    contexts: asyncio.Queue[JobContext] = asyncio.Queue()

    async def entrypoint(ctx: JobContext) -> None:
        await ctx.connect()
        contexts.put_nowait(ctx)

    async with Working(_worker(room_server, entrypoint, agent_name="host", url=tap.url)):
        caller = await connect(room_server, "caller", config=_dispatch("host"))
        agent = await caller.event("participant_connected", kind=AGENT_KIND)
        with anyio.fail_after(LIMIT):
            ctx = await contexts.get()
        spoken = len(tap.messages)

        await tap.hang_up()
        ctx.shutdown("while nobody listens")

        await caller.event("participant_disconnected", identity=agent["identity"])
        await tap.registered(after=spoken)
        report = await tap.report(JobStatus.JS_SUCCESS, after=spoken)
        assert report.job_id == ctx.job.id

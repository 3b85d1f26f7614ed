"""No caller is left without an agent: each loss at the dispatch is healed, on both servers, and by one agent."""

from __future__ import annotations

import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from livekit import api
from livekit.protocol.agent_dispatch import RoomAgentDispatch
from livekit.protocol.room import RoomConfiguration

from kit.e2e import talking_app
from kit.e2e.listener import listening
from kit.e2e.many_calls import host_token, process_of_agent, worker_of
from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.silent_worker import silent_worker
from kit.e2e.working import Working
from kit.limits import LIMIT
from vivavoce.agents.job import JobContext, JobInfo
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker import healing
from vivavoce.agents.worker.agent_token import agent_token
from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
from vivavoce.agents.worker.job import RoomJob
from vivavoce.agents.worker.options import AgentPermissions, WorkerOptions
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.agents.worker.worker import Worker

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

AGENT_KIND = 4
HEALED_WITHIN = 30.0
"""Seconds for a caller's new agent, on a machine that may be loaded."""
PROMISED = 10.0
"""Seconds from the registration of a worker to the agent of a waiting caller, as docs/production.md says."""
JUDGED = pytest.mark.test_all("its seconds are judged, and a busy machine needs more of them")
SERVER_S_TIMES = pytest.mark.test_all("the server's own times take many seconds; the laws of healing are in make test")

Connect = Callable[..., Awaitable[PeerProcess]]
Entrypoint = Callable[[JobContext], Awaitable[None]]


class Jobs:
    """The jobs that came to the workers of a test."""

    def __init__(self) -> None:
        self.contexts: list[JobContext] = []

    async def entrypoint(self, ctx: JobContext) -> None:
        self.contexts.append(ctx)
        await ctx.connect()

    @property
    def facts(self) -> list[tuple[str, dict[str, str]]]:
        return [(ctx.job.metadata, dict(ctx.job.attributes)) for ctx in self.contexts]


def _worker(server: RoomEndpoint, name: str, entrypoint: Entrypoint, **options: object) -> Worker:
    account = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
    given = WorkerOptions(executor=TaskExecution(), **account, **options)  # type: ignore[arg-type]
    return Worker(entrypoint, agent_name=name, options=given)


def _dispatch(name: str) -> RoomConfiguration:
    return RoomConfiguration(agents=[RoomAgentDispatch(agent_name=name, metadata="table 7", attributes={"a": "b"})])


async def _agents(caller: PeerProcess) -> list[str]:
    return [identity for identity, one in (await caller.call("others")).items() if one["kind"] == AGENT_KIND]


@pytest.mark.real_server
async def test_a_caller_who_came_before_any_worker_gets_an_agent(
    room_server: RoomEndpoint, connect: Connect, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "LISTED_WITHIN", 1.0)  # no worker was asked, so that no job will be listed
    jobs = Jobs()
    caller = await connect(room_server, "caller", config=_dispatch(room_name))
    async with Working(_worker(room_server, room_name, jobs.entrypoint)):
        joined = await caller.event("participant_connected", kind=AGENT_KIND, limit=HEALED_WITHIN)
    assert joined["identity"].startswith("agent-AD_")
    # A worker that is offered its own new dispatch later joins by itself too; the server keeps one agent of the two.
    assert set(map(str, jobs.facts)) == {str(("table 7", {"a": "b"}))}


@JUDGED
async def test_a_caller_who_came_before_any_worker_gets_an_agent_within_10_seconds_of_its_registration(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    caller = await connect(room_server, "caller", config=_dispatch(room_name))
    async with Working(_worker(room_server, room_name, Jobs().entrypoint)):
        await caller.event("participant_connected", kind=AGENT_KIND, limit=PROMISED)


@SERVER_S_TIMES
@pytest.mark.real_server
async def test_a_caller_who_came_before_any_worker_gets_one_agent_from_two_workers(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    jobs = Jobs()
    caller = await connect(room_server, "caller", config=_dispatch(room_name))
    await anyio.sleep(1.0)

    one, two = (_worker(room_server, room_name, jobs.entrypoint) for _ in range(2))
    async with Working(one), Working(two):
        joined = await caller.event("participant_connected", kind=AGENT_KIND, limit=HEALED_WITHIN)

        assert joined["identity"].startswith("agent-AD_")
        # Workers that have looked in the same instant both dispatch; the server keeps one agent of the two.
        assert all(facts == ("table 7", {"a": "b"}) for facts in jobs.facts)
        await anyio.sleep(6.0)
        assert await _agents(caller) == [joined["identity"]]
        assert most_agents_at_once([joined, *caller.events]) == 1


@JUDGED
@pytest.mark.real_server
async def test_a_caller_whose_worker_did_not_answer_gets_the_agent_from_another_one(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    jobs = Jobs()
    async with AsyncExitStack() as silence:
        silent = await silence.enter_async_context(silent_worker(room_server, room_name))
        caller = await connect(room_server, "caller", config=_dispatch(room_name))
        with anyio.fail_after(HEALED_WITHIN):
            await silent.offered.wait()
        async with Working(_worker(room_server, room_name, jobs.entrypoint)):
            await anyio.sleep(3.5)  # the server gives up after 3 s
            await silence.aclose()
            joined = await caller.event("participant_connected", kind=AGENT_KIND, limit=PROMISED)

            assert jobs.facts == [("table 7", {"a": "b"})]
            assert await _agents(caller) == [joined["identity"]]


@SERVER_S_TIMES
async def test_a_call_that_the_agent_has_ended_gets_no_second_agent(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    jobs = Jobs()
    one, two = (_worker(room_server, room_name, jobs.entrypoint) for _ in range(2))
    async with Working(one), Working(two):
        caller = await connect(room_server, "caller", config=_dispatch(room_name))
        agent = await caller.event("participant_connected", kind=AGENT_KIND)
        await anyio.sleep(6.0)  # the server lists the job 5 s later
        jobs.contexts[0].shutdown("goodbye")
        await caller.event("participant_disconnected", identity=agent["identity"])
        async with api.LiveKitAPI(room_server.url, room_server.api_key, room_server.api_secret) as client:
            with anyio.fail_after(LIMIT):
                while await client.agent_dispatch.list_dispatch(room_name):  # noqa: ASYNC110 - no event for it
                    await anyio.sleep(0.2)
        await anyio.sleep(12.0)

        assert await _agents(caller) == []
        assert len(jobs.contexts) == 1


async def test_the_last_call_of_a_draining_worker_is_settled_before_the_worker_leaves(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    jobs = Jobs()
    async with Working(_worker(room_server, room_name, jobs.entrypoint)) as working:
        caller = await connect(room_server, "caller", config=_dispatch(room_name))
        await caller.event("participant_connected", kind=AGENT_KIND)
        working.worker.drain()
        jobs.contexts[0].shutdown("goodbye")
        with anyio.fail_after(LIMIT):
            await working.running
        async with api.LiveKitAPI(room_server.url, room_server.api_key, room_server.api_secret) as client:
            assert not await client.agent_dispatch.list_dispatch(room_name)


@pytest.mark.real_server
async def test_a_caller_whose_job_failed_gets_another_one_from_a_worker_without_a_name(
    room_server: RoomEndpoint, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "AFTER_FAILURE", 0.5)
    jobs = Jobs()

    async def entrypoint(ctx: JobContext) -> None:
        await jobs.entrypoint(ctx)
        if len(jobs.contexts) == 1:
            raise RuntimeError("no database")

    async with Working(_worker(room_server, "", entrypoint)):
        caller = await connect(room_server, "caller")
        with anyio.fail_after(HEALED_WITHIN):
            while len(jobs.contexts) < 2 or await _agents(caller) != [f"agent-{jobs.contexts[1].job.heals}"]:  # noqa: ASYNC110 - no event tells it
                await anyio.sleep(0.1)


@SERVER_S_TIMES
async def test_a_caller_whose_new_dispatch_is_lost_too_gets_an_agent_that_joins_by_itself(
    room_server: RoomEndpoint, connect: Connect, room_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    jobs = Jobs()
    async with silent_worker(room_server, room_name) as silent:  # it gets every offer: its load is 0
        caller = await connect(room_server, "caller", config=_dispatch(room_name))
        with anyio.fail_after(LIMIT):
            await silent.offered.wait()
        async with Working(_worker(room_server, room_name, jobs.entrypoint, load=lambda: 0.5)):
            joined = await caller.event("participant_connected", kind=AGENT_KIND, limit=30.0)

            (job,) = [ctx.job for ctx in jobs.contexts]
            assert (silent.offers, joined["identity"]) == (2, f"agent-{job.dispatch_id}")
            assert jobs.facts == [("table 7", {"a": "b"})]
            assert not job.id.startswith("AJ_"), "no server has assigned it"
    assert "dispatches lead to no job, this worker joins it" in caplog.text


@pytest.mark.real_server
async def test_a_caller_whose_agent_s_process_died_gets_another_one_though_no_call_is_kept(
    room_server: RoomEndpoint, room_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "AFTER_FAILURE", 0.5)
    worker = worker_of(room_server.url, room_server, talking_app.talks_on, executor=ProcessExecution(processes=2))
    async with Working(worker), listening(room_server.url, host_token(room_server, room_name)) as caller:
        process = await process_of_agent(caller)
        (dead,) = caller.agents

        os.kill(process, signal.SIGKILL)

        await caller.until(lambda: len(caller.agents) == 1 and caller.agents != [dead], limit=HEALED_WITHIN)
        (successor,) = caller.agents
        await caller.until(lambda: bool(caller.heard.get(successor)))
        assert successor.startswith("agent-AD_")


@pytest.mark.both_servers
async def test_an_agent_with_a_token_of_the_worker_s_own_is_in_the_room_as_a_dispatched_one_would_be(
    room_server: RoomEndpoint, connect: Connect, room_name: str
) -> None:
    account = Credentials(url=room_server.url, api_key=room_server.api_key, api_secret=room_server.api_secret)
    caller = await connect(room_server, "caller")
    token = agent_token(account, room_name, "agent-AD_1", AgentPermissions(), agent_name="host")
    async with ServerApi(account) as server, anyio.create_task_group() as tasks:
        job = RoomJob(JobInfo(id="job_1", room=room_name), url=account.url, token=token, shared={}, tasks=tasks)
        await job.connect(True)
        joined = await caller.event("participant_connected", kind=AGENT_KIND)
        present = {one.identity: one for one in await server.participants(room_name) or ()}
        await job.leave()

    assert joined["identity"] == "agent-AD_1"
    assert (present["agent-AD_1"].is_agent, present["agent-AD_1"].agent_name) == (True, "host")
    assert present["caller"].is_caller


def most_agents_at_once(events: list[dict[str, Any]]) -> int:
    """Return how many agents a caller has seen in the room at the same time, at most."""
    present: set[str] = set()
    most = 0
    for event in events:
        if event["event"] == "participant_connected" and event.get("kind") == AGENT_KIND:
            present.add(event["identity"])
        elif event["event"] == "participant_disconnected":
            present.discard(event["identity"])
        most = max(most, len(present))
    return most

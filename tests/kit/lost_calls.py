"""Calls of dead processes on a development room in this process, and workers that look for them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
from aiohttp import ClientSession

from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.signal_client import Clients
from kit.supervisor_bench import Bench
from vivavoce.agents.dev_room import RoomServer, RoomServerOptions
from vivavoce.agents.memory.calls_in_store import CallsInStore, RunningCall
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.care import Care
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.effects import CallClaimed, CallLeft, Input, JoinRequested, WorkerStatus
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.owner import owner_of_job
from vivavoce.agents.worker.rescue import Rescue
from vivavoce.agents.worker.room_facts import DispatchFacts
from vivavoce.agents.worker.server_api import ServerApi
from vivavoce.agents.worker.worker_view import WorkerView
from vivavoce.pipelines.core.clock import LoopClock

LIMIT = 60.0


def dead_owner(job_id: str) -> str:
    """The owner of a call in a process of this machine that has ended."""
    machine, pid, started_at, _ = owner_of_job(job_id).split("/")
    return f"{machine}/{pid}/{int(started_at) - 1}/{job_id}"


CALL = RunningCall(
    lease="AJ_1",
    owner=dead_owner("AJ_1"),
    url="",
    room="r",
    agent_name="host",
    dispatch_id="AD_1",
    metadata="table 7",
    attributes={"tier": "gold"},
    identity="agent-AJ_1",
    conversation="{}",
)


class Place:
    """A server, a store, and workers that look for lost calls."""

    def __init__(self, server: RoomEndpoint, path: Path, clients: Clients) -> None:
        self.server = server
        self.path = path
        self.calls = CallsInStore(SqliteStore(path))
        self.clients = clients
        self.claimed: list[str] = []
        self.posted: list[JoinRequested | CallLeft] = []
        """The inputs of the workers' supervisors about calls that are lost while their workers drain."""
        self.call = replace(CALL, url=server.url)

    def rescue(
        self,
        api: ServerApi,
        store: SessionStore | None = None,
        *,
        slots: int = 10,
        status: Callable[[], WorkerStatus] | None = None,
        identity: str | None = None,
    ) -> Rescue:
        def post(input: Input) -> None:
            if isinstance(input, JoinRequested | CallLeft):
                self.posted.append(input)
                return
            assert isinstance(input, CallClaimed)
            self.claimed.append(f"{input.lease} with {input.participant}" if input.participant else input.lease)

        view = self.view(status or Bench(max_jobs=slots).supervisor.status, post, identity)
        return Rescue(api, view, CrashSafety(store=store or SqliteStore(self.path)))

    def care(self, status: Callable[[], WorkerStatus]) -> Care:
        return Care(self.view(status, lambda input: None))

    def view(
        self, status: Callable[[], WorkerStatus], post: Callable[[Input], None], identity: str | None = None
    ) -> WorkerView:
        safety = CrashSafety(store=SqliteStore(self.path))
        options = WorkerOptions(healing=False, crash_safety=safety, identity=identity)
        return WorkerView(
            account=self.account, agent_name="host", options=options, post=post, status=status, clock=LoopClock()
        )

    async def caller_joins(self) -> None:
        """Have a caller in the room of the calls."""
        await (await self.clients.join(self.server, "caller")).next("join")

    async def agent_joins(self, identity: str) -> None:
        """Have an agent in the room of the calls."""
        await (await self.clients.join(self.server, identity, agent=True)).next("join")

    async def agent_joins_by(self, token: str) -> None:
        """Have an agent join with a token of a worker's own."""
        await (await self.clients.join_by(self.server, token)).next("join")

    async def present(self) -> list[tuple[str, str]]:
        """Return identity and sid of each participant of the room."""
        async with ServerApi(self.account) as api:
            return [(one.identity, one.sid) for one in await api.participants("r") or ()]

    async def resumed(self) -> list[str]:
        """Return the leases that the room's dispatches name."""
        async with ServerApi(self.account) as api:
            return [one.resumes for one in await api.dispatches("r") if one.resumes]

    async def look(self, workers: int = 1) -> tuple[DispatchFacts, ...]:
        """Have so many workers look at the same time; return the room's dispatches that name a call."""
        async with ServerApi(self.account) as api:
            async with anyio.create_task_group() as tasks:
                for _ in range(workers):
                    tasks.start_soon(self.rescue(api).look)
            return tuple(one for one in await api.dispatches("r") if one.resumes)

    @property
    def account(self) -> Credentials:
        return Credentials(url=self.server.url, api_key=self.server.api_key, api_secret=self.server.api_secret)

    async def owners(self) -> list[str]:
        return [call.owner for call in await self.calls.read()]

    async def until_owners_are(self, *owners: str) -> None:
        with anyio.fail_after(LIMIT):
            while await self.owners() != list(owners):  # noqa: ASYNC110 - a store has no event
                await anyio.sleep(0.01)


@asynccontextmanager
async def lost_calls(folder: Path) -> AsyncIterator[Place]:
    """Run a development room and keep its calls in a file in `folder`."""
    server = RoomServer(RoomServerOptions(port=0))
    await server.start()
    given = server.options
    endpoint = RoomEndpoint(url=server.url, api_key=given.api_key, api_secret=given.api_secret, kind="embedded")
    async with ClientSession() as http, AsyncExitStack() as stack:
        yield Place(endpoint, folder / "calls.db", Clients(http, stack))
    await server.aclose()

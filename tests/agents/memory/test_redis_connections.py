"""RedisStore's connections: idle ones that the server closed, and passwords that it does not take."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import anyio
import pytest
from redis.asyncio import Redis

from kit.idle_job import keep_job
from kit.memory import session_with
from kit.servers.agent_server import AgentServer
from kit.servers.redis_server import RedisServer, running_redis_server
from vivavoce.agents.job import JobContext
from vivavoce.agents.memory.options import MemoryOptions
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable

PLACE = Place("call", "data")
LIMIT = 60.0

Call = Callable[[RedisStore], Awaitable[object]]
Url = Callable[[RedisServer], str]

BY_SOCKET_AND_PORT = pytest.mark.parametrize(
    "url", [lambda server: server.url, lambda server: server.port_url], ids=["socket", "port"]
)
"""redis-py gives connections by a port notifications of maintenance, and checks them less."""

CALLS: dict[str, Call] = {
    "read": lambda store: store.read(PLACE, "card"),
    "write": lambda store: store.write(PLACE, "card", "2"),
    "append": lambda store: store.append(PLACE, "cards", "2"),
    "log": lambda store: store.log(PLACE, ["2"], keep=10),
    "log_state": lambda store: store.log_state(PLACE),
    "keep": lambda store: store.keep(PLACE.session_id, 60.0),
    "follow": lambda store: store.follow({PLACE: 0}, 10, 0.0),
}


class Later(LoopClock):
    """The loop's time, which a test moves on."""

    def __init__(self) -> None:
        self.passed = 0.0

    def now(self) -> float:
        return super().now() + self.passed


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with running_redis_server(has_port=True) as server:
        yield server


async def _clients(watch: Any) -> list[Any]:
    """Return the server's clients without the one that asks."""
    own = await watch.client_id()
    return [one for one in await watch.client_list() if int(one["id"]) != own]


@BY_SOCKET_AND_PORT
async def test_a_connection_that_redis_closed_after_its_timeout_is_replaced_before_the_next_call(url: Url) -> None:
    with running_redis_server("--timeout", "1", has_port=True) as server:
        store = RedisStore(url(server))
        await store.write(PLACE, "card", "1")
        with anyio.fail_after(LIMIT):
            async with Redis.from_url(server.url) as watch:
                while True:
                    if not await _clients(watch):
                        break
                    await anyio.sleep(0.1)

        assert await store.read(PLACE, "card") == "1"
        await store.aclose()


@BY_SOCKET_AND_PORT
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_no_call_is_sent_on_an_idle_connection_that_is_closed(server: RedisServer, url: Url, call: Call) -> None:
    clock = Later()
    store = RedisStore(url(server), clock=clock)
    await call(store)
    clock.passed += 1.0
    async with Redis.from_url(server.url) as watch:
        await watch.client_kill_filter(_type="normal", skipme=True)

        await call(store)  # the loop has not read the end of the connection yet

    await store.aclose()


@pytest.mark.parametrize("login", ["", ":wrong@", "anna:wrong@"], ids=["none", "password", "name"])
async def test_a_session_whose_redis_does_not_take_the_password_does_not_start(login: str) -> None:
    with running_redis_server("--requirepass", "right", has_port=True) as server:
        store = RedisStore(server.port_url.replace("//", f"//{login}"))
        for _ in range(2):
            with pytest.raises(ConfigurationError, match="refused the login of RedisStore's URL") as raised:
                await store.read(PLACE, "card")
            told = str(raised.value)
            assert f"the Redis at {server.port_url.removeprefix('redis://').split('/')[0]} refused" in told
            assert "redis://:password@host:6379/0, or with a user of an ACL redis://name:password@host:6379/0" in told
            assert "wrong@" not in told
            assert "anna" not in told

        session = session_with(MemoryOptions(store=store), clock=LoopClock())
        with pytest.raises(ConfigurationError, match="refused the login of RedisStore's URL"):
            await session.start(LocalTransport(LoopClock()))
        await store.aclose()


async def test_a_password_that_the_server_changes_in_mid_call_is_an_outage() -> None:
    with running_redis_server("--requirepass", "right", has_port=True) as server:
        url = server.port_url.replace("//", "//:right@")
        store = RedisStore(url)
        await store.write(PLACE, "card", "1")
        async with Redis.from_url(url) as watch:
            await watch.config_set("requirepass", "other")
            await watch.client_kill_filter(_type="normal", skipme=True)
            await store.aclose()  # a later call connects again
            with pytest.raises(StoreUnavailable, match="could not be reached"):
                await store.read(PLACE, "card")

            await watch.config_set("requirepass", "right")
            assert await store.read(PLACE, "card") == "1"
        await store.aclose()


async def _entrypoint(ctx: JobContext) -> None:
    keep_job()


async def test_a_worker_whose_redis_does_not_take_the_password_does_not_start() -> None:
    with running_redis_server("--requirepass", "right", has_port=True) as redis:
        store = RedisStore(redis.port_url.replace("//", "//:wrong@"))
        async with AgentServer() as server:
            account: dict[str, Any] = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
            safety = CrashSafety(store=store)
            options = WorkerOptions(**account, executor=TaskExecution(), crash_safety=safety)
            with anyio.fail_after(LIMIT):
                with pytest.raises(ConfigurationError, match="refused the login of RedisStore's URL"):
                    await Worker(_entrypoint, options=options).run()
        await store.aclose()

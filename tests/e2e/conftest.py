"""Fixtures of the end-to-end tests: the same test runs against the embedded room and against a real LiveKit server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from itertools import count
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from livekit import rtc

from kit.e2e.demo_run import Ran, run_demo
from kit.e2e.peer_process import PeerProcess
from kit.e2e.room_endpoint import RoomEndpoint
from kit.e2e.sdk_client import token
from kit.servers.livekit_server import running_livekit_server
from kit.servers.otel_collector import Collector, running_collector
from kit.wanted import all_are_wanted
from vivavoce.agents.dev_room import RoomProcess, RoomServerOptions

ROOM_NUMBERS = count()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run a test that can run on both servers on one of them, unless marked or all tests are wanted."""
    if all_are_wanted():
        return
    twins = [item for item in items if _is_left_out(item)]
    left_out = set(twins)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=twins)


def _is_left_out(item: pytest.Item) -> bool:
    """Whether it is the run of a test whose run on the other server is enough."""
    if not isinstance(item, pytest.Function) or not item.path.is_relative_to(Path(__file__).parent):
        return False
    if item.get_closest_marker("both_servers") is not None:
        return False
    return ("embedded" if item.get_closest_marker("real_server") is not None else "livekit") in _parameters(item)


def _parameters(item: pytest.Function) -> list[object]:
    return list(item.callspec.params.values()) if hasattr(item, "callspec") else []


@contextmanager
def _embedded() -> Iterator[RoomEndpoint]:
    # In a loop of its own thread, so that the child's log is read between tests too.
    with ExitStack() as stack:
        portal = stack.enter_context(start_blocking_portal())
        process = RoomProcess(RoomServerOptions(port=0))
        room = stack.enter_context(portal.wrap_async_context_manager(process))
        yield RoomEndpoint(url=room.url, api_key=room.api_key, api_secret=room.api_secret, kind="embedded")


@contextmanager
def _livekit() -> Iterator[RoomEndpoint]:
    with running_livekit_server() as server:
        yield RoomEndpoint(url=server.url, api_key=server.api_key, api_secret=server.api_secret, kind="livekit")


@pytest.fixture(scope="session")
def embedded_room() -> Iterator[RoomEndpoint]:
    """The embedded room alone, for guarantees that only it gives."""
    with _embedded() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def livekit_room() -> Iterator[RoomEndpoint]:
    """A real LiveKit server."""
    with _livekit() as endpoint:
        yield endpoint


@pytest.fixture(params=["embedded", "livekit"])
def room_server(request: pytest.FixtureRequest) -> RoomEndpoint:
    """Both servers, one after the other."""
    endpoint: RoomEndpoint = request.getfixturevalue(f"{request.param}_room")
    return endpoint


@pytest.fixture(scope="session")
def grpc_collector() -> Iterator[Collector]:
    """Receives the telemetry of the demo on its own server, over gRPC."""
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="session")
def on_embedded(tmp_path_factory: pytest.TempPathFactory, grpc_collector: Collector) -> Ran:
    """The demo as a newcomer runs it, but for where its telemetry goes; once for all tests that look at it."""
    return run_demo(
        tmp_path_factory.mktemp("embedded"),
        *("--port", "0", "--seed", "1"),
        env={
            "OTEL_EXPORTER_OTLP_ENDPOINT": grpc_collector.grpc_url,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        },
    )


@pytest.fixture(scope="session")
def http_collector() -> Iterator[Collector]:
    """Receives the telemetry of the demo on a real server, over HTTP."""
    with running_collector() as collector:
        yield collector


@pytest.fixture(scope="session")
def on_livekit(tmp_path_factory: pytest.TempPathFactory, livekit_room: RoomEndpoint, http_collector: Collector) -> Ran:
    """The same call on a real server, its secret and where its telemetry goes from the environment."""
    return run_demo(
        tmp_path_factory.mktemp("livekit"),
        *("--url", livekit_room.url, "--api-key", livekit_room.api_key, "--seed", "2"),
        env={
            "LIVEKIT_API_SECRET": livekit_room.api_secret,
            "OTEL_EXPORTER_OTLP_ENDPOINT": http_collector.http_url,
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        },
    )


@pytest.fixture
def room_name() -> str:
    """A room that no other test uses."""
    return f"room-{next(ROOM_NUMBERS)}"


@pytest.fixture
async def agent_room(room_server: RoomEndpoint, room_name: str) -> AsyncIterator[rtc.Room]:
    """The agent's room, connected as a job would have it."""
    room = rtc.Room()
    await room.connect(room_server.url, token(room_server, room_name, "agent", "agent"))
    yield room
    await room.disconnect()


Connect = Callable[..., Awaitable[PeerProcess]]


@pytest.fixture
async def connect(room_name: str) -> AsyncIterator[Connect]:
    """Start client processes that join the test's room; they leave when the test ends."""
    async with AsyncExitStack() as stack:

        async def join(endpoint: RoomEndpoint, identity: str, **token: object) -> PeerProcess:
            peer = await stack.enter_async_context(PeerProcess())
            jwt = endpoint.token(identity, room_name, **token)  # type: ignore[arg-type]
            await peer.call("connect", url=endpoint.url, token=jwt)
            return peer

        yield join

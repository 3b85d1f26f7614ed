"""Fixtures: every store, each with nothing in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from kit.own_store import OwnStore
from kit.servers.redis_server import RedisServer, running_redis_server
from kit.store_roles import RolePlayer, role_players
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.pipelines.core.ids import new_id

SHARED = ("sqlite", "redis")
"""Stores that processes share."""

Where = tuple[str, str]

OpenStore = Callable[[], SessionStore]
"""Opens a further store on the same data, as another process would."""


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for all tests; each has a prefix of its own."""
    with running_redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def players() -> Iterator[list[RolePlayer]]:
    """Two processes that play roles with a store."""
    with role_players(2) as running:
        yield running


@pytest.fixture(params=SHARED)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """Where processes find the same store: file or URL, and prefix."""
    if request.param == "sqlite":
        return str(tmp_path / "store.sqlite"), "none"
    server: RedisServer = request.getfixturevalue("redis_server")
    return server.url, new_id("test")


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that a test may stop."""
    with running_redis_server() as server:
        yield server


@pytest.fixture(params=SHARED)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens stores that share their data."""
    if request.param == "sqlite":
        return lambda: SqliteStore(tmp_path / "store.sqlite")
    server: RedisServer = request.getfixturevalue("redis_server")
    prefix = new_id("test")
    return lambda: RedisStore(server.url, prefix)


@pytest.fixture(params=("in_process", "own", *SHARED))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    """One of the stores, empty."""
    if request.param == "in_process":
        made: SessionStore = InProcessStore()
    elif request.param == "own":
        made = OwnStore()
    elif request.param == "sqlite":
        made = SqliteStore(tmp_path / "store.sqlite")
    else:
        made = RedisStore(request.getfixturevalue("redis_server").url, new_id("test"))
    yield made
    await made.aclose()

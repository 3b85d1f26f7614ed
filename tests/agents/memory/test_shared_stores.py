"""Stores that processes share: no write is lost, and a store that is down says so."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from kit.servers.redis_server import RedisServer
from kit.store_roles import RolePlayer
from kit.store_writer import opened
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable, StoreValueError

WRITER = Path(__file__).parents[2] / "kit" / "store_writer.py"
PLACE, WORDS = Place("session_1", "data"), Place("session_1", "words")
EACH = 4000
Where = tuple[str, str]
OpenStore = Callable[[], SessionStore]


@pytest.mark.timeout(120)
async def test_two_processes_append_8000_values_and_lose_none(where: Where, players: list[RolePlayer]) -> None:
    async with anyio.create_task_group() as tasks:
        for player, first in zip(players, (0, EACH), strict=True):
            tasks.start_soon(player.play, "append_numbers", *where, first, EACH)
    store = opened(*where)
    values = await Namespace(store, PLACE, timeout=60.0).get("list")
    await store.aclose()
    assert sorted(values) == list(range(2 * EACH))


@contextmanager
def writer(where: Where) -> Iterator[subprocess.Popen[str]]:
    """Run a process that writes, and kill it at the end at the latest: one that is left fails the whole run."""
    arguments = [sys.executable, str(WRITER), *where, "0", "1000000"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


async def test_kill_9_loses_nothing_that_was_acknowledged(where: Where) -> None:
    with writer(where) as process:
        assert process.stdout is not None
        for _ in range(10):
            await anyio.to_thread.run_sync(process.stdout.readline)
        process.kill()
        rest, _ = await anyio.to_thread.run_sync(process.communicate)
    acknowledged = int((rest.split() or ["200"])[-1])
    store = opened(*where)
    values = await Namespace(store, PLACE, timeout=60.0).get("list")
    await store.aclose()
    assert set(range(acknowledged)) <= set(values)


async def test_redis_that_is_down_makes_calls_fail_and_they_work_once_it_is_back(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url)
    data = Namespace(store, PLACE, timeout=60.0)
    await data.set("key", 1)
    own_server.stop()
    for call in (data.get("key"), data.set("key", 2), data.append("list", 1), data.get_all(), data.delete("key")):
        with pytest.raises(StoreUnavailable, match="could not be reached"):
            await call
    own_server.start()
    assert await data.get("key") == 1
    await store.aclose()


async def test_a_store_that_does_not_answer_is_given_up_within_the_limit(own_server: RedisServer) -> None:
    store = RedisStore(own_server.url)
    data = Namespace(store, PLACE, timeout=60.0)
    await data.set("key", 1)
    with own_server.frozen(), pytest.raises(StoreUnavailable, match="within 0.2 s"):
        await Namespace(store, PLACE, timeout=0.2).get("key")
    assert await data.get("key") == 1
    await store.aclose()


async def test_a_redis_that_hangs_ends_the_calls_whose_caller_sets_no_limit(own_server: RedisServer) -> None:
    patient, store = RedisStore(own_server.url), RedisStore(own_server.url, timeout=0.5)
    await patient.write(PLACE, "key", "1")
    by_id = (store.delete, store.history, store.snapshot)
    calls: list[Callable[[], Awaitable[object]]] = [
        store.sessions,
        store.sweep,
        *(partial(one, "call") for one in by_id),
    ]
    with own_server.frozen():
        for call in calls:
            with pytest.raises(StoreUnavailable, match=r"within 0\.5 s"):
                await call()
    await store.aclose()
    await patient.aclose()


async def test_a_text_an_id_or_a_change_that_fails_does_so_alone_and_is_not_shown(
    open_store: OpenStore,
) -> None:
    store = open_store()
    outcomes: dict[str, object] = {}

    async def note(name: str, call: Awaitable[object]) -> None:
        try:
            outcomes[name] = await call
        except (StoreValueError, KeyError) as error:
            outcomes[name] = error

    def refuse(_: str | None) -> tuple[str, None]:
        raise KeyError("of the application")

    bad = Place("secret \udcff", "data")
    async with anyio.create_task_group() as tasks:  # in SQLite, all of them in one transaction
        tasks.start_soon(note, "before", store.write(PLACE, "before", '"kept"'))
        tasks.start_soon(note, "text", store.write(PLACE, "key", '"secret \udcff"'))
        tasks.start_soon(note, "id", store.write(bad, "key", "1"))
        tasks.start_soon(note, "log", store.log(bad, ["1"], keep=10))
        tasks.start_soon(note, "lease", store.hold(bad.session_id, "me", 5.0))
        tasks.start_soon(note, "change", store.change(PLACE, "before", refuse))
        tasks.start_soon(note, "after", store.log(WORDS, ["1"], keep=10))
    with pytest.raises(StoreValueError, match="half of a surrogate pair"):
        await store.log(WORDS, ["\udcff"], keep=10)
    with pytest.raises(StoreValueError, match="half of a surrogate pair"):
        await store.write_many(PLACE, {"first": "1", "key": "\udcff"})
    assert (outcomes["before"], outcomes["after"]) == (True, 1)
    assert isinstance(outcomes["change"], KeyError)
    for name in ("text", "id", "log", "lease"):
        assert isinstance(outcomes[name], StoreValueError)
        assert "half of a surrogate pair" in str(outcomes[name])
        assert "secret" not in str(outcomes[name])
    assert await store.read_all(PLACE) == {"before": '"kept"'}
    assert [one.id for one in await store.sessions()] == [PLACE.session_id]
    await store.aclose()


async def test_a_sqlite_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    data = Namespace(SqliteStore(tmp_path / "folder"), PLACE, timeout=60.0)
    with pytest.raises(StoreUnavailable, match="folder"):
        await data.get("key")


@pytest.mark.parametrize("url", ["http://:secret@localhost", "redis://:secret/x@localhost:6379"])
async def test_a_malformed_redis_url_is_refused_without_showing_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="must look like redis://") as raised:
        RedisStore(url)
    assert "secret" not in str(raised.value)


async def test_a_redis_without_memory_is_unavailable_and_the_error_shows_no_value(own_server: RedisServer) -> None:
    async with Redis.from_url(own_server.url) as client:
        await client.config_set("maxmemory", 1)
    store = RedisStore(own_server.url)
    data = Namespace(store, PLACE, timeout=60.0)
    with pytest.raises(StoreUnavailable, match="Redis takes no calls now: O") as raised:
        await data.set("card", "4111 1111")
    assert "4111" not in str(raised.value)
    assert raised.value.__cause__ is None
    await store.aclose()

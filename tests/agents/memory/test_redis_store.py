"""RedisStore alone: what its scripts do, and the versions that it takes."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import anyio
import pytest
from redis.asyncio import Redis

from kit.servers.old_redis import redis_of
from kit.servers.redis_proxy import redis_between
from kit.servers.redis_server import RedisServer
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.store import Place
from vivavoce.pipelines.core.errors import StoreError, StoreUnavailable
from vivavoce.pipelines.core.ids import new_id

PLACE = Place("call", "data")
WAITING = 4
"""Clients that are more than the queue of a listening socket holds, which then leaves a next one without an answer."""

Call = Callable[[RedisStore], Awaitable[object]]


@pytest.mark.parametrize(
    ("call", "command"),
    [
        (lambda store: store.write(PLACE, "card", '"4111"'), b"HSET"),
        (lambda store: store.append(PLACE, "cards", '"4111"'), b"EVALSHA"),
        (lambda store: store.change(PLACE, "card", lambda _: ('"4111"', None)), b"EVALSHA"),
        (lambda store: store.log(PLACE, ['"4111"'], keep=10), b"EVALSHA"),
    ],
    ids=["write", "append", "change", "log"],
)
async def test_words_whose_process_died_in_the_write_are_erased_with_their_session(
    redis_server: RedisServer, call: Call, command: bytes
) -> None:
    prefix = new_id("test")
    whole = RedisStore(redis_server.url, prefix)
    await call(whole)  # the server has the script
    await whole.delete(PLACE.session_id)
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        async with redis_between(redis_server.socket, Path(folder), command) as url:
            dying = RedisStore(url, prefix)
            with pytest.raises(StoreUnavailable, match="could not be reached"):
                await call(dying)
            await dying.aclose()
    await whole.delete(PLACE.session_id)
    async with Redis.from_url(redis_server.url) as client:
        assert await client.keys(f"{prefix}:*") == []
    assert await call(whole) is not None or await whole.read(PLACE, "card") == '"4111"'
    await whole.aclose()


@pytest.mark.parametrize("command", [b"SMEMBERS", b"UNLINK", b"EVALSHA"])
async def test_a_session_that_begins_again_while_idle_ones_are_erased_is_not_erased(
    redis_server: RedisServer, command: bytes
) -> None:
    prefix = new_id("test")
    whole = RedisStore(redis_server.url, prefix)
    await whole.write(PLACE, "card", '"4111"')
    await whole.keep(PLACE.session_id, 0.001)

    has_begun = False

    async def begin() -> None:
        nonlocal has_begun
        has_begun = await whole.hold(PLACE.session_id, "me", 15.0)

    await anyio.sleep(0.01)
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        async with redis_between(redis_server.socket, Path(folder), command, before=begin) as url:
            sweeping = RedisStore(url, prefix)
            await sweeping.sweep()
            await sweeping.aclose()
    assert (await whole.read(PLACE, "card"), await whole.is_held(PLACE.session_id)) == (
        ('"4111"', True) if has_begun else (None, False)
    )
    await whole.aclose()


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize(
    ("version", "knows_hello", "named"),
    # redis-py 7 and older send no HELLO, so that such a server can tell its version.
    [("6.0.16", True, r"6\.0\.16"), ("5.0.14", False, r"(5 or older|5\.0\.14)")],
)
async def test_a_redis_that_is_too_old_is_named_with_the_version_that_is_needed(
    version: str, knows_hello: bool, named: str, is_local: bool
) -> None:
    with tempfile.TemporaryDirectory(prefix="redis-") as folder:
        async with redis_of(version, f"{folder}/sock" if is_local else "", knows_hello=knows_hello) as url:
            store = RedisStore(url)
            for call in (store.sessions, partial(store.read, PLACE, "card"), partial(store.hold, "call", "me", 15.0)):
                with pytest.raises(StoreError, match=f"needs Redis 6.2 or newer, got Redis {named}; update") as raised:
                    await call()
                assert not isinstance(raised.value, StoreUnavailable)
            await store.aclose()


@pytest.mark.parametrize(("version", "tells"), [("6.2.0", True), ("10.1", True), ("unknown", True), ("8.0.0", False)])
async def test_a_redis_of_6_2_or_newer_and_one_that_does_not_tell_its_version_are_used(
    version: str, tells: bool
) -> None:
    async with redis_of(version, tells=tells) as url:
        store = RedisStore(url)
        assert await store.read(PLACE, "card") == "1"
        await store.aclose()


@pytest.mark.test_all("six seconds of waiting")
async def test_the_limit_of_a_store_holds_for_a_connection_that_no_server_accepts() -> None:
    with ExitStack() as sockets, socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        for _ in range(WAITING):
            waiting = sockets.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        store = RedisStore(f"redis://127.0.0.1:{full.getsockname()[1]}", timeout=6.0)  # above redis' own limit, 5 s
        with pytest.raises(StoreUnavailable, match="did not answer within 6 s"):
            await store.read(PLACE, "card")
        await store.aclose()

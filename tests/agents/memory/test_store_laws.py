"""Random calls give on every store the results of a plain dict."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.servers.redis_server import RedisServer
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.pipelines.core.errors import StoreTypeError
from vivavoce.pipelines.core.ids import new_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(".".join)
CALLS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, JSON, st.booleans()),
        st.tuples(st.just("append"), KEYS, JSON),
        st.tuples(st.sampled_from(("delete", "get", "length")), KEYS),
    ),
    max_size=25,
)


class Model:
    """The same methods on a dict."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def _parent(self, key: str, *, make: bool) -> tuple[Any, str]:
        *parents, last = key.split(".")
        value: Any = self.values
        for name in parents:
            if not isinstance(value, dict):
                break
            value = value.setdefault(name, {}) if make else value.get(name, {})
        return value, last

    def get(self, key: str) -> Any:
        parent, last = self._parent(key, make=False)
        return parent.get(last, "missing") if isinstance(parent, dict) else "missing"

    def set(self, key: str, value: Any, nx: bool) -> bool:
        if nx and self.get(key) != "missing":
            return False
        before = copy.deepcopy(self.values)
        parent, last = self._parent(key, make=True)
        if not isinstance(parent, dict):
            self.values = before
            raise StoreTypeError("model")
        parent[last] = copy.deepcopy(value)
        return True

    def append(self, key: str, value: Any) -> int:
        held = self.get(key)
        if held == "missing":
            held = []
        if not isinstance(held, list):
            raise StoreTypeError("model")
        self.set(key, [*held, value], False)
        return len(held) + 1

    def delete(self, key: str) -> bool:
        was_there: bool = self.get(key) != "missing"
        if was_there:
            parent, last = self._parent(key, make=False)
            del parent[last]
        return was_there

    def length(self, key: str) -> int:
        held = self.get(key)
        if held == "missing":
            return 0
        if not isinstance(held, list | dict):
            raise StoreTypeError("model")
        return len(held)


async def check(store: SessionStore, calls: list[tuple[Any, ...]]) -> None:
    data, model = Namespace(store, Place(new_id("session"), "data"), timeout=30.0), Model()
    for name, *arguments in calls:
        try:
            expected = getattr(model, name)(*arguments)
        except StoreTypeError:
            with pytest.raises(StoreTypeError):
                await _called(data, name, arguments)
        else:
            assert await _called(data, name, arguments) == expected
        assert await data.get_all() == model.values


async def _called(data: Namespace, name: str, arguments: list[Any]) -> Any:
    if name == "set":
        return await data.set(arguments[0], arguments[1], nx=arguments[2])
    if name == "get":
        return await data.get(arguments[0], "missing")
    return await getattr(data, name)(*arguments)


UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
"""A busy machine is slow; the fixtures give each example a place of its own."""

# The calls' own code is the same for all stores: other stores need examples of their own work only.
LAWS = settings(max_examples=25, deadline=None, suppress_health_check=UNCHECKED)


@settings(max_examples=100)
@given(calls=CALLS)
async def test_the_store_of_this_process_behaves_like_a_dict(calls: list[tuple[Any, ...]]) -> None:
    await check(InProcessStore(), calls)


@LAWS
@given(calls=CALLS)
async def test_the_sqlite_store_behaves_like_a_dict(calls: list[tuple[Any, ...]], tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.sqlite")
    await check(store, calls)
    await store.aclose()


@LAWS
@given(calls=CALLS)
async def test_the_redis_store_behaves_like_a_dict(calls: list[tuple[Any, ...]], redis_server: RedisServer) -> None:
    store = RedisStore(redis_server.url, new_id("test"))
    await check(store, calls)
    await store.aclose()

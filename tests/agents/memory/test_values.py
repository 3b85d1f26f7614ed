"""Keys and values that no store takes: refused before the store is reached."""

from __future__ import annotations

import datetime
import math

import pytest

from kit.memory import ScriptedStore
from vivavoce.agents.core.values import MAX_DEPTH
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.store import Place
from vivavoce.pipelines.core.errors import StoreValueError

CIRCLE: list[object] = []
CIRCLE.append(CIRCLE)
DEEP: list[object] = []
for _ in range(100_000):
    DEEP = [DEEP]

NO_JSON = [
    (math.nan, "Out of range"),
    ([math.inf], "Out of range"),
    ((1, 2), "tuple"),
    ({"a": (1,)}, "tuple"),
    ({1: "a"}, "no str"),
    ({"a": {None: 1}}, "no str"),
    ({1, 2}, "set"),
    (b"bytes", "bytes"),
    (datetime.datetime(2026, 1, 1), "datetime"),
    ("\ud800", "surrogate"),
    (CIRCLE, "Circular"),
    (DEEP, "nested too deeply"),
    ("x" * (1024 * 1024), "1048576 bytes"),
    ("é" * (600 * 1024), "1048576 bytes"),
]


def namespace() -> Namespace:
    return Namespace(InProcessStore(), Place("session_1", "data"), timeout=1.0)


@pytest.mark.parametrize(("value", "reason"), NO_JSON, ids=[str(number) for number in range(len(NO_JSON))])
async def test_a_value_that_is_no_json_or_too_long_is_refused(value: object, reason: str) -> None:
    data = namespace()
    for call in (data.set("key", value), data.set("deep.key", value), data.append("key", value)):
        with pytest.raises(StoreValueError, match=reason):
            await call
    assert await data.get_all() == {}


@pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a\n", "a\0b", "k" * 513, None, 5, b"a"], ids=repr)
async def test_an_illegal_key_is_refused_before_the_store_is_reached(key: str) -> None:
    store = ScriptedStore()
    data = Namespace(store, Place("session_1", "data"), timeout=1.0)
    for call in (data.get(key), data.set(key, 1), data.delete(key), data.append(key, 1), data.length(key)):
        with pytest.raises(ValueError, match="a key "):
            await call
    assert store.calls == 0


def nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_a_value_that_a_store_takes_can_be_read_from_deep_in_a_program() -> None:
    data = namespace()
    await data.set("key", nested(MAX_DEPTH))
    await data.set(".".join("k" * (MAX_DEPTH // 2)), nested(MAX_DEPTH // 2))
    for key in ("key", "k"):
        assert await from_deep(data, key, 250)  # a tracer (coverage) doubles the depth of a call
    with pytest.raises(StoreValueError, match="nested too deeply"):
        await data.set("key", nested(MAX_DEPTH + 1))
    with pytest.raises(StoreValueError, match="nested too deeply"):
        await data.set(".".join("j" * MAX_DEPTH), nested(MAX_DEPTH // 2))
    assert set(await data.get_all()) == {"key", "k"}


async def from_deep(data: Namespace, key: str, calls: int) -> object:
    """Return a value, read by a coroutine behind so many others."""
    return await (data.get(key) if calls == 0 else from_deep(data, key, calls - 1))


async def test_changing_what_was_given_or_got_does_not_change_the_store() -> None:
    data, value = namespace(), {"list": [1]}
    await data.set("key", value)
    value["list"].append(2)
    (await data.get("key"))["list"].append(3)
    assert await data.get("key") == {"list": [1]}

"""The contract of streams, the same on every store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from vivavoce.agents.memory import InProcessStore, StoreError, StoreValueError, Stream, StreamItem
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.store import Place, Record, SessionStore
from vivavoce.agents.memory.streams import following
from vivavoce.agents.memory.streams.streams import Streams
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError

LIMIT = 30.0
"""Seconds for a call: none of these tests is about it."""


@pytest.fixture(autouse=True)
def idle_readers_look_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have an idle reader look after a tenth of a second whether the session is still there."""
    monkeypatch.setattr(following, "WAIT_SHARE", 0.1 / LIMIT)


def streams_of(store: SessionStore, *, clock: Clock | None = None) -> Streams:
    base = MemoryBase(store, timeout=LIMIT, clock=clock or LoopClock())
    base.open("call")
    return Streams(base, lambda: "desk")


@pytest.fixture
def streams(store: SessionStore) -> Streams:
    """The streams of a session without any."""
    return streams_of(store)


async def values(stream: Stream, start: int = 0, *, follow: bool = True) -> list[Any]:
    return [item.value async for item in stream.read(start, follow)]


async def test_a_closed_stream_is_read_in_order_from_any_index_to_its_end(streams: Streams) -> None:
    stream = await streams.open("orders", ["orders"])
    written: list[Any] = ["tea", None, [1, {"a": []}], {}]
    assert [await stream.write(value) for value in written] == [0, 1, 2, 3]
    assert await stream.control("PROGRESS", value=0.5) == 4
    await stream.close()
    await stream.close()
    items = [item async for item in stream.read()]
    assert [(item.index, item.value, item.code, dict(item.args)) for item in items] == [
        (0, "tea", "", {}),
        (1, None, "", {}),
        (2, [1, {"a": []}], "", {}),
        (3, {}, "", {}),
        (4, None, "PROGRESS", {"value": 0.5}),
    ]
    assert [item.is_control for item in items] == [False, False, False, False, True]
    assert items[0].at <= items[4].at
    assert await values(stream, 3) == [{}, None]
    assert await values(stream, 9, follow=False) == []


async def test_without_following_a_reader_ends_with_the_newest_item(streams: Streams) -> None:
    stream = await streams.open("orders", [])
    assert await values(stream, follow=False) == []
    for number in range(250):
        await stream.write(number)
    assert await values(stream, follow=False) == list(range(250))
    assert await values(stream, 249, follow=False) == [249]


async def test_a_follower_gets_old_and_new_items_once_until_the_stream_is_closed_elsewhere(streams: Streams) -> None:
    stream = await streams.open("orders", [])
    read: list[Any] = []
    for number in range(150):
        await stream.write(number)

    async def follow() -> None:
        async for item in stream.read():
            read.append(item.value)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        for number in range(150, 300):
            await stream.write(number)
        await (await streams.open("orders", [])).close()
    assert read == list(range(300))


async def test_a_closed_stream_takes_nothing_more_in_any_process(store: SessionStore, streams: Streams) -> None:
    await (await streams.open("orders", [])).close()
    other = await streams_of(store).open("orders", [])
    for call in (other.write(1), other.control("PROGRESS")):
        with pytest.raises(StoreError, match="'orders' is closed"):
            await call
    assert await values(other) == []


async def test_a_slow_reader_misses_dropped_items_and_sees_the_gap(store: SessionStore, streams: Streams) -> None:
    stream = await streams.open("orders", [])
    await stream.write("first")
    reader = stream.read()
    assert (await anext(reader)).value == "first"
    log = Place("call", "items:orders")
    texts = [f"[0.0,{number}]" for number in range(1, 10_501)]
    for first in range(0, len(texts), 2_100):
        await store.log(log, texts[first : first + 2_100], keep=10_000)  # as other writers, but faster
    item = await anext(reader)
    assert (item.index, item.value) == (501, 501)
    await reader.aclose()
    assert (await streams.debug_info())["orders"]["length"] == 10_000
    assert len(await values(stream, follow=False)) == 10_000


async def test_a_stream_is_announced_once_and_again_for_new_tags(streams: Streams) -> None:
    assert await streams.announce("orders", ["orders"], "desk")
    assert not await streams.announce("orders", ["orders"], "other")
    assert await streams.announce("orders", ["urgent", "orders"], "other")
    await streams.open("orders", ["orders", "urgent"])
    await streams.open("notes", [])
    told = [item async for item in streams.session_stream.read(follow=False)]
    assert [(item.code, dict(item.args)) for item in told] == [
        ("ADD_STREAM", {"stream": "orders", "agent": "desk", "tags": ["orders"]}),
        ("ADD_STREAM", {"stream": "orders", "agent": "other", "tags": ["orders", "urgent"]}),
        ("ADD_STREAM", {"stream": "notes", "agent": "desk", "tags": []}),
    ]
    await (await streams.open("orders", [])).write(1)
    await (await streams.open("notes", [])).close()
    assert await streams.debug_info() == {
        "orders": {"creator": "desk", "tags": ["orders", "urgent"], "length": 1},
        "notes": {"creator": "desk", "tags": [], "length": 0},
    }


async def test_agents_come_and_go_once_and_the_one_with_the_floor_is_always_there(streams: Streams) -> None:
    assert [(one.id, one.has_floor) for one in await streams.list_agents()] == [("desk", True)]
    assert await streams.add_agent("cook", ["orders", ("food", "urgent")], ["drinks"])
    assert not await streams.add_agent("cook", ["other"], [])
    assert [one.to_json() for one in await streams.list_agents()] == [
        {"id": "cook", "tags": ["orders", ["food", "urgent"]], "exclude": ["drinks"], "has_floor": False},
        {"id": "desk", "tags": [], "exclude": [], "has_floor": True},
    ]
    assert await streams.remove_agent("cook")
    assert not await streams.remove_agent("cook")
    assert [one.id for one in await streams.list_agents()] == ["desk"]
    told = [(item.code, item.args["agent"]) async for item in streams.session_stream.read(follow=False)]
    assert told == [("ADD_AGENT", "cook"), ("REMOVE_AGENT", "cook")]


async def test_a_subscription_replays_and_follows_matching_streams_old_and_new(streams: Streams) -> None:
    tea = await streams.open("tea", ["orders"])
    await tea.write("green")
    await (await streams.open("gossip", ["talk"])).write("psst")
    found: list[tuple[str, Any]] = []
    got_three = anyio.Event()

    async def subscribe() -> None:
        async for stream, item in streams.subscribe(["orders", ("food", "urgent")], ["secret"]):
            found.append((stream.name, "end" if item.is_end else item.value))
            if len(found) == 3:
                got_three.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(subscribe)
        food = await streams.open("food", ["food"])
        await food.write("soup")
        await tea.write("black")
        await (await streams.open("hidden", ["orders", "secret"])).write("no")
        await streams.announce("food", ["urgent"], "desk")  # now it matches: its old items come too
        await got_three.wait()
        await tea.close()
        await food.write("bread")
        await streams.end()
    assert [value for name, value in found if name == "tea"] == ["green", "black", "end"]
    assert [value for name, value in found if name == "food"] == ["soup", "bread", "end"]
    assert {name for name, _ in found} == {"tea", "food"}


async def test_a_reader_goes_on_after_an_outage_where_it_has_stopped(streams: Streams) -> None:
    tea, food = await streams.open("tea", ["orders"]), await streams.open("food", ["orders"])
    for number in range(3):
        await tea.write(number)
    positions: dict[str, int] = {}
    reader = streams.subscribe(["orders"], [], positions)
    for _ in range(2):
        stream, item = await anext(reader)
        positions[stream.name] = item.index + 1
    await reader.aclose()
    await food.write("soup")
    await tea.close()
    await streams.end()
    found = [(stream.name, item.value) async for stream, item in streams.subscribe(["orders"], [], positions)]
    assert found == [("tea", 2), ("food", "soup"), ("tea", None), ("food", None)]
    read_to_its_end = {"tea": 4, "food": 2, "unknown": 7}
    assert [item async for item in streams.subscribe(["orders"], [], read_to_its_end)] == []


@pytest.mark.parametrize("start", [3, ["tea"], {3: 1}, {"tea": -1}, {"tea": "1"}])
def test_a_wrong_start_of_a_subscription_is_refused(streams: Streams, start: Any) -> None:
    with pytest.raises(ConfigurationError, match="start"):
        streams.subscribe(["orders"], [], start)


async def test_two_streams_are_replayed_in_the_order_of_their_times(streams: Streams) -> None:
    user, agent = await streams.open("user", ["talk"]), await streams.open("agent", ["talk"])
    for number in range(130):
        await (user if number % 3 else agent).write(number)
    await streams.end()
    found = [item.value async for _, item in streams.subscribe(["talk"], []) if not item.is_end]
    assert found == list(range(130))


async def test_the_end_of_the_session_ends_all_streams_and_refuses_new_ones(streams: Streams) -> None:
    stream = await streams.open("orders", ["orders"])
    ended: list[str] = []

    async def follow(name: str, reader: Any) -> None:
        async for _ in reader:
            pass
        ended.append(name)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow, "stream", stream.read())
        tasks.start_soon(follow, "session", streams.session_stream.read())
        tasks.start_soon(follow, "subscription", streams.subscribe(["orders"], []))
        tasks.start_soon(follow, "nothing", streams.subscribe(["none"], []))
        await anyio.sleep(0.05)
        await streams.end()
    assert sorted(ended) == ["nothing", "session", "stream", "subscription"]
    with pytest.raises(StoreError, match="'orders' is closed"):
        await stream.write(1)
    for call in (streams.open("late", []), streams.announce("orders", ["new"], ""), streams.add_agent("late", [], [])):
        with pytest.raises(StoreError, match="has ended"):
            await call
    assert await streams.debug_info() == {"orders": {"creator": "desk", "tags": ["orders"], "length": 0}}
    await streams.end()


async def test_a_session_that_goes_on_opens_its_streams_again_but_not_those_that_were_closed(streams: Streams) -> None:
    going_on, closed = await streams.open("going_on", ["all"]), await streams.open("closed", ["all"])
    await going_on.write(1)
    await closed.close()
    await streams.end()
    await streams.reopen()
    await going_on.write(2)
    with pytest.raises(StoreError, match="is closed"):
        await closed.write(1)
    assert await values(going_on, follow=False) == [1, 2]
    reader = going_on.read()
    assert [(await anext(reader)).value, (await anext(reader)).value] == [1, 2]
    await streams.end()
    assert [item async for item in reader] == []


async def test_a_reader_of_an_erased_session_is_told(store: SessionStore) -> None:
    streams = streams_of(store)
    stream = await streams.open("orders", ["orders"])

    async def erase() -> None:
        await anyio.sleep(0.05)
        await store.delete("call")

    for reader in (stream.read(), streams.subscribe(["orders"], [])):
        await streams.open("orders", ["orders"])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(erase)
            with pytest.raises(StoreError, match="was erased"):
                await anext(reader)


class LateStore(InProcessStore):
    """Answers a call that has waited for nothing so many seconds late."""

    late = 0.0

    async def follow(self, starts: Mapping[Place, int], limit: int, seconds: float) -> dict[Place, list[Record]]:
        found = await super().follow(starts, limit, seconds)
        if seconds and not found:
            await anyio.sleep(self.late)
        return found


def test_a_follower_that_has_waited_for_nothing_gives_the_store_the_whole_limit_to_say_so() -> None:
    async def test() -> Any:
        store = LateStore(clock=VirtualClock())
        store.late = LIMIT - 0.1
        stream = await streams_of(store, clock=VirtualClock()).open("orders", [])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write_later, stream)
            item = await anext(stream.read())
        return item.value

    async def write_later(stream: Stream) -> None:
        await anyio.sleep(3 * LIMIT)
        await stream.write("tea")

    assert run_virtual(test()) == "tea"


@pytest.mark.parametrize("wrong", ["", 3, None, "a\nb", "x" * 300])
async def test_names_and_codes_that_are_none_are_refused_before_the_store_is_asked(wrong: Any) -> None:
    streams = streams_of(None)  # type: ignore[arg-type]  # a call to the store would fail in another way
    for call in (streams.open(wrong, []), streams.announce(wrong, [], ""), streams.add_agent(wrong, [], [])):
        with pytest.raises(ConfigurationError, match="need"):
            await call
    with pytest.raises(ConfigurationError, match="need code"):
        await streams.session_stream.control(wrong)


async def test_wrong_items_and_arguments_are_refused() -> None:
    streams = streams_of(None)  # type: ignore[arg-type]  # as above
    stream = streams.session_stream
    for value in (float("nan"), object(), {1: 2}, "x" * 2**20, ("a",)):
        with pytest.raises(StoreValueError):
            await stream.write(value)
        with pytest.raises(StoreValueError):
            await stream.control("PROGRESS", value=value)
    with pytest.raises(ConfigurationError, match="close"):
        await stream.control("EOS")
    with pytest.raises(ConfigurationError, match="'session'"):
        await streams.open("session", [])
    for start, follow in ((-1, True), (1.5, True), (0, "no")):
        with pytest.raises(ConfigurationError):
            stream.read(start, follow)  # type: ignore[arg-type]  # that is the test
    for tags in ([], "orders", [()]):
        with pytest.raises(ConfigurationError, match="tag"):
            streams.subscribe(tags, [])


def test_an_item_does_not_show_its_content() -> None:
    item = StreamItem(index=0, at=0.0, value="secret", args={"card": "4111"})
    assert "secret" not in repr(item)
    assert "4111" not in repr(item)

"""The contract of session stores, the same for every store."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.agents.core.values import MAX_BYTES
from vivavoce.agents.memory.history.stored_items import HISTORY, item_text
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.stores.store import CALLS, METADATA, LogState, Place, SessionStore
from vivavoce.pipelines.core.errors import StoreTypeError, StoreValueError
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage, FunctionCall, FunctionCallOutput

LIMIT = 60.0
"""Seconds after which a call counts as hung."""

VALUES: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -3,
    2**70,
    1.5,
    "",
    "né 雨 🙂",
    [],
    [1, [2, {}]],
    {},
    {"a": {"b": [None]}},
    "#1\n[1]",
)


def namespace(store: SessionStore, name: str = "data", session_id: str = "session_1") -> Namespace:
    return Namespace(store, Place(session_id, name), timeout=LIMIT)


@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_a_value_comes_back_as_it_was_set(store: SessionStore, value: object) -> None:
    data = namespace(store)
    assert await data.set("one", value)
    assert await data.set("deep.down.one", value)
    assert await data.get("one", "missing") == value
    assert await data.get("deep.down.one", "missing") == value
    assert await data.get_all() == {"one": value, "deep": {"down": {"one": value}}}


async def test_a_missing_key_gives_the_default_and_an_empty_namespace_nothing(store: SessionStore) -> None:
    data = namespace(store)
    assert await data.get("none") is None
    assert await data.get("none.inside", 7) == 7
    assert await data.get_all() == {}
    assert await data.length("none") == 0
    await data.set("text", "abc")
    assert await data.get("text.inside", 7) == 7


async def test_with_nx_only_the_first_value_is_written(store: SessionStore) -> None:
    data = namespace(store)
    for key in ("flat", "deep.key"):
        assert await data.set(key, 1, nx=True)
        assert not await data.set(key, 2, nx=True)
        assert await data.get(key) == 1
        assert await data.set(key, 3)
        assert await data.get(key) == 3


async def test_entries_are_written_together_and_replace_those_with_their_names(store: SessionStore) -> None:
    place = Place("session_1", "words")
    await store.write(place, "a", "1")
    await store.write_many(place, {"a": "2", "b": "né 雨 🙂"})
    await store.write_many(place, {})
    assert await store.read_all(place) == {"a": "2", "b": "né 雨 🙂"}
    assert [one.id for one in await store.sessions()] == ["session_1"]
    await store.write_many(Place("session_2", "words"), {str(number): "x" for number in range(500)})
    assert len(await store.read_all(Place("session_2", "words"))) == 500


async def test_a_key_that_holds_null_has_a_value(store: SessionStore) -> None:
    data = namespace(store)
    await data.set("nothing", None)
    assert await data.get("nothing", "default") is None
    assert not await data.set("nothing", 1, nx=True)
    assert await data.delete("nothing")


async def test_delete_removes_a_key_with_all_inside_and_says_whether_it_was_there(store: SessionStore) -> None:
    data = namespace(store)
    await data.set("a.b.c", 1)
    await data.set("a.d", 2)
    assert not await data.delete("a.b.x")
    assert not await data.delete("a.d.e")
    assert await data.delete("a.b")
    assert await data.get_all() == {"a": {"d": 2}}
    assert await data.delete("a")
    assert not await data.delete("a")
    assert await data.get_all() == {}


async def test_append_begins_a_list_extends_it_and_counts(store: SessionStore) -> None:
    data = namespace(store)
    items: list[object] = ["a", [1, 2], {"b": []}]
    for key in ("list", "deep.list"):
        assert [await data.append(key, item) for item in items] == [1, 2, 3]
        assert await data.get(key) == ["a", [1, 2], {"b": []}]
        assert await data.length(key) == 3
        await data.set(key, [])
        assert await data.append(key, None) == 1
        assert await data.get(key) == [None]


@pytest.mark.parametrize("held", [{"a": 1}, "text", 5, None, True], ids=repr)
async def test_append_to_something_else_than_a_list_is_refused_and_changes_nothing(
    store: SessionStore, held: object
) -> None:
    data = namespace(store)
    for key in ("flat", "deep.key"):
        await data.set(key, held)
        with pytest.raises(StoreTypeError, match="needs a list"):
            await data.append(key, 1)
        assert await data.get(key, "missing") == held


async def test_a_key_through_a_value_that_is_no_object_is_refused(store: SessionStore) -> None:
    data = namespace(store)
    await data.set("text", "abc")
    for call in (data.set("text.inside", 1), data.append("text.inside", 1)):
        with pytest.raises(StoreTypeError, match="no object"):
            await call
    assert await data.get_all() == {"text": "abc"}


async def test_a_list_that_would_become_too_long_stays_as_it_was(store: SessionStore) -> None:
    data = namespace(store)
    await data.set("list", ["x" * (MAX_BYTES - 100)])
    with pytest.raises(StoreValueError, match="1048576 bytes"):
        await data.append("list", "y" * 200)
    assert await data.length("list") == 1


async def test_namespaces_and_sessions_do_not_see_each_other(store: SessionStore) -> None:
    await namespace(store, "data").set("key", 1)
    await namespace(store, "other").set("key", 2)
    await namespace(store, "data", "session:*").set("key", 3)
    assert await namespace(store, "data").get_all() == {"key": 1}
    assert await store.delete("session:*")
    assert await namespace(store, "data").get_all() == {"key": 1}
    assert await namespace(store, "data", "session:*").get_all() == {}


async def test_a_log_counts_its_records_and_keeps_the_newest(store: SessionStore) -> None:
    log = Place("session_1", "stream")
    assert await store.records(log, 0, 10) == []
    assert await store.log(log, ["0", "1"], keep=3) == 2
    assert await store.log(log, ["2", "3"], keep=3) == 4
    assert [(one.index, one.text) for one in await store.records(log, 0, 10)] == [(1, "1"), (2, "2"), (3, "3")]
    assert [one.index for one in await store.records(log, 2, 10)] == [2, 3]
    assert [one.index for one in await store.records(log, 0, 2)] == [1, 2]
    assert await store.records(log, 4, 10) == []


async def test_a_reader_waits_for_the_next_record(store: SessionStore) -> None:
    log = Place("session_1", "stream")
    await store.log(log, ["0"], keep=10)
    with anyio.fail_after(LIMIT):
        await store.wait(log, 0, 60)  # is there already
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.wait, log, 1, 60)
            await anyio.wait_all_tasks_blocked()
            await store.log(log, ["1"], keep=10)
    await store.wait(log, 2, 0.05)
    assert len(await store.records(log, 0, 10)) == 2


async def test_records_of_several_logs_come_with_one_call(store: SessionStore) -> None:
    one, two, none = (Place("session_1", name) for name in ("one", "two", "none"))
    await store.log(one, ["a", "b", "c"], keep=2)
    await store.log(two, ["d"], keep=2)
    found = await store.follow({one: 0, two: 1, none: 0}, 10, 0.0)
    assert {place.name: [(record.index, record.text) for record in records] for place, records in found.items()} == {
        "one": [(1, "b"), (2, "c")]
    }
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: store.log(none, ["e"], keep=2))
            found = await store.follow({one: 3, two: 1, none: 0}, 10, 60.0)
    assert list(found) == [none]


async def test_calls_side_by_side_all_take_effect_and_get_their_own_results(store: SessionStore) -> None:
    log, found = Place("session_1", "log"), dict[int, str]()

    async def write(one: int) -> None:
        for number in range(50):
            following = await store.log(log, [f"{one} {number}"], keep=10_000)
            assert following is not None
            found[following - 1] = f"{one} {number}"

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for one in range(20):
                tasks.start_soon(write, one)
        records = await store.records(log, 0, 10_000)
    assert {record.index: record.text for record in records} == found
    assert sorted(found) == list(range(1_000))


async def test_readers_of_many_sessions_wait_side_by_side(store: SessionStore) -> None:
    found: list[str] = []

    async def follow(log: Place) -> None:
        for records in (await store.follow({log: 0}, 10, 60.0)).values():
            found.extend(record.text for record in records)

    logs = [Place(f"session_{number}", "log") for number in range(150)]
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            for log in logs:
                tasks.start_soon(follow, log)
            await anyio.sleep(0.05)
            for log in logs:
                await store.log(log, [log.session_id], keep=10)
    assert sorted(found) == sorted(log.session_id for log in logs)


async def test_a_closed_log_takes_no_records_until_it_is_opened_again(store: SessionStore) -> None:
    one, two = Place("session_1", "one"), Place("session_1", "two")
    assert await store.log_state(one) == LogState(0, "")
    assert await store.log(one, ["a", "end"], keep=10, closes="writer") == 2
    assert await store.log(two, ["end"], keep=10, closes="session") == 1
    for log in (one, two):
        assert await store.log(log, ["late"], keep=10) is None
        assert await store.log(log, ["end"], keep=10, closes="again") is None
    assert [record.text for record in await store.records(one, 0, 10)] == ["a", "end"]
    await store.reopen("session_1", "session")
    await store.reopen("other", "session")
    assert await store.log_state(one) == LogState(2, "writer")
    assert await store.log_state(two) == LogState(1, "")
    assert await store.log(two, ["b"], keep=10) == 2


async def test_one_holder_has_a_session_until_it_gives_it_up_or_another_takes_over(store: SessionStore) -> None:
    assert not await store.is_held("session_1")
    assert await store.hold("session_1", "a", 60)
    assert await store.is_held("session_1")
    assert await store.hold("session_1", "a", 60)
    assert not await store.hold("session_1", "b", 60)
    assert await store.hold("session_1", "b", 60, takes_over=True)
    assert not await store.hold("session_1", "a", 60)
    await store.release("session_1", "a")
    assert not await store.hold("session_1", "a", 60)
    await store.release("session_1", "b")
    assert not await store.is_held("session_1")
    assert await store.hold("session_1", "a", 60)


async def test_a_lease_ends_by_itself(store: SessionStore) -> None:
    assert await store.hold("session_1", "a", 0.01)
    with anyio.fail_after(LIMIT):
        while not await store.hold("session_1", "b", 60):  # noqa: ASYNC110 - time is the event
            await anyio.sleep(0.01)
    assert await store.hold("session_2", "a", 0.01)
    with anyio.fail_after(LIMIT):
        while await store.is_held("session_2"):  # noqa: ASYNC110 - time is the event
            await anyio.sleep(0.01)


async def test_sessions_are_listed_by_user_the_newest_first(store: SessionStore) -> None:
    for number, user in enumerate(("anna", "bert", "anna")):
        await namespace(store, METADATA, f"session_{number}").set("user", user)
        await anyio.sleep(0.002)
    assert [one.id for one in await store.sessions()] == ["session_2", "session_1", "session_0"]
    assert [one.id for one in await store.sessions("anna")] == ["session_2", "session_0"]
    assert (await store.sessions("bert"))[0].metadata == {"user": "bert"}


async def test_idle_sessions_are_erased_but_not_pinned_held_or_kept_ones(store: SessionStore) -> None:
    for name in ("idle", "pinned", "held", "kept", "later"):
        await namespace(store, "data", name).set("key", name)
        await store.keep(name, {"kept": None, "later": 600.0}.get(name, 0.0))
    await namespace(store, METADATA, "pinned").set("pinned", True)
    await store.hold("held", "a", 60)
    await anyio.sleep(0.005)
    assert await store.sweep() == ["idle"]
    assert {one.id for one in await store.sessions()} == {"pinned", "held", "kept", "later"}
    assert await namespace(store, "data", "idle").get_all() == {}


async def test_a_sweep_erases_a_few_sessions_at_a_time(store: SessionStore) -> None:
    names = {f"session_{number}" for number in range(5)}
    for name in names:
        await namespace(store, "data", name).set("key", name)
        await store.keep(name, 0.0)
    await anyio.sleep(0.005)
    erased = [await store.sweep(2) for _ in range(4)]
    assert [len(each) for each in erased] == [2, 2, 1, 0]
    assert {name for each in erased for name in each} == names


async def test_running_calls_are_never_idle(store: SessionStore) -> None:
    await store.write(Place(CALLS, "calls"), "AJ_1", "{}")
    await store.keep(CALLS, 0.0)
    await anyio.sleep(0.005)
    assert await store.sweep() == []


async def test_an_erased_session_leaves_nothing(store: SessionStore) -> None:
    log = Place("session_1", "stream")
    await namespace(store).set("key", 1)
    await store.log(log, ["0"], keep=10, closes="writer")
    await store.hold("session_1", "a", 60)
    assert await store.delete("session_1")
    assert not await store.delete("session_1")
    assert await store.sessions() == []
    assert await store.records(log, 0, 10) == []
    assert await store.log(log, ["0"], keep=10) == 1
    assert await store.hold("session_1", "b", 60)


async def test_an_item_with_half_a_character_is_kept_whole(store: SessionStore) -> None:
    place = Place("session_1", HISTORY)
    items: list[ChatItem] = [
        ChatMessage(role="user", content="a \ud83d", id="item_\udcff", sequence=1),
        FunctionCall(call_id="c", name="f", arguments='{"a": "\\ud83d"}', sequence=2),
        FunctionCallOutput(call_id="c", name="f", output="b \ude00", sequence=3),
    ]
    await store.write_many(place, {item.id: item_text(item, images=False) for item in items})
    kept = await store.history("session_1")
    assert [item.id for item in kept] == [item.id for item in items]
    assert kept.messages()[0].content == "a \ufffd"
    assert [item.output for item in kept if isinstance(item, FunctionCallOutput)] == ["b \ufffd"]

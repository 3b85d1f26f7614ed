"""`session.memory` in virtual time: data, private data, snapshots, the lease, and other processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.memory import HandOver, ScriptedStore, session_with, started
from vivavoce.agents import Agent, MemoryOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import (
    InProcessStore,
    SessionMemory,
    SqliteStore,
    StoreError,
    StoreTypeError,
    StoreUnavailable,
    StoreValueError,
)
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.states import CloseReason
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.errors import ConfigurationError, SessionNotStartedError

Test = Callable[[], Coroutine[Any, Any, None]]


def virtually(test: Test) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


def in_process() -> InProcessStore:
    return InProcessStore(clock=VirtualClock())


# --- data


@virtually
async def test_a_memory_without_options_keeps_data_of_the_session_its_agents_and_streams() -> None:
    session = session_with()
    await started(session)
    memory = session.memory
    await memory.data.set("order.size", 2)
    await memory.agent_data("desk").set("mood", "good")
    await memory.stream_data("orders").append("seen", 1)
    assert await memory.data.get_all() == {"order": {"size": 2}}
    assert await memory.agent_data(session.agent).get("mood") == "good"
    assert await memory.stream_data("orders").length("seen") == 1
    report = await session.close()
    assert report.is_clean
    assert await memory.data.get("order.size") == 2


@virtually
async def test_metadata_begin_with_the_date_the_user_the_name_and_not_pinned() -> None:
    for store in (None, in_process()):
        session = session_with(MemoryOptions(store=store, user="ada", name="A table"))
        await started(session)
        found = await session.memory.metadata.get_all()
        assert found.pop("created_date").endswith("+00:00")
        assert found == {"user": "ada", "name": "A table", "pinned": False}
        await session.close()


@virtually
async def test_to_dict_shows_id_metadata_and_agents_and_nothing_private() -> None:
    session = session_with()
    await started(session)
    session.memory.private.set("secret", "hunter2")
    shown = await session.memory.to_dict()
    assert set(shown) == {"id", "metadata", "agents"}
    assert shown["id"] == "call"
    assert "hunter2" not in json.dumps(shown)
    await session.close()


@virtually
async def test_before_the_start_a_memory_says_so() -> None:
    session = session_with()
    with pytest.raises(SessionNotStartedError, match="call start"):
        _ = session.memory.data


@pytest.mark.parametrize("agent", ["", 3, None, "a\nb"])
def test_the_data_of_no_agent_are_refused(agent: Any) -> None:
    async def test() -> None:
        session = session_with()
        await started(session)
        with pytest.raises(ValueError, match="need the agent"):
            session.memory.agent_data(agent)
        with pytest.raises(ValueError, match="need the stream"):
            session.memory.stream_data(agent)
        await session.close()

    run_virtual(test())


@pytest.mark.parametrize(
    "wrong",
    [{"store": "redis"}, {"keep": 0}, {"keep": float("nan")}, {"timeout": 0}, {"user": None}, {"name": 3}],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        MemoryOptions(**wrong)


# --- private data


@virtually
async def test_private_data_are_set_read_and_deleted_without_waiting() -> None:
    private = session_with().memory.private
    private.set("visits", 3)
    private.set("caller.name", "Ada")
    assert (private.get("visits"), private.get("caller"), private.get("none", 7)) == (3, {"name": "Ada"}, 7)
    assert private.delete("visits")
    assert not private.delete("visits")
    assert private.delete("caller.name")
    assert not private.delete("caller.name")
    assert private.get("caller") == {}


@virtually
async def test_private_data_have_the_keys_and_values_of_a_namespace() -> None:
    private = session_with().memory.private
    private.set("number", 1)
    for key in ("", "a..b", 3):
        with pytest.raises(ValueError, match="a key"):
            private.set(key, 1)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(StoreValueError):
        private.set("key", object())
    with pytest.raises(StoreTypeError):
        private.set("number.part", 1)


# --- snapshots


def stored(session: Any) -> dict[str, Any]:
    """Return a snapshot as another process would read it."""
    read: dict[str, Any] = json.loads(json.dumps(session.snapshot()))
    return read


@virtually
async def test_a_snapshot_carries_the_private_data_and_the_namespaces_of_this_process() -> None:
    first = session_with()
    await started(first)
    await first.memory.data.set("order", {"size": 2})
    first.memory.private.set("visits", 3)
    snapshot = stored(first)
    await first.close()
    second = session_with(id="later")
    second.memory.private.set("visits", 0)
    await started(second, resume_from=snapshot)
    assert second.memory.id == "call"
    assert await second.memory.data.get("order.size") == 2
    assert second.memory.private.get("visits") == 3
    await second.close()


@virtually
async def test_values_of_a_process_move_into_the_store_of_the_session_that_resumes_it() -> None:
    first = session_with()
    await started(first)
    await first.memory.data.set("order", {"size": 2})
    snapshot = stored(first)
    await first.close()
    store = ScriptedStore()
    second = session_with(MemoryOptions(store=store), id="later")
    await started(second, resume_from=snapshot)
    await second.close()
    async with SessionMemory.attach(store, "call") as memory:
        assert await memory.data.get("order.size") == 2


@virtually
async def test_values_that_a_store_has_already_are_newer_than_those_of_a_snapshot() -> None:
    store = in_process()
    first = session_with(MemoryOptions(store=store))
    await started(first)
    await first.memory.data.set("order", 1)
    snapshot = stored(first)
    await first.memory.data.set("order", 2)
    await first.close()
    second = session_with(MemoryOptions(store=store), id="later")
    await started(second, resume_from=snapshot)
    assert await second.memory.data.get("order") == 2
    await second.close()


def test_a_session_without_the_store_of_its_snapshot_says_that_it_begins_empty(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    async def test() -> None:
        store = SqliteStore(tmp_path / "calls.db")
        first = session_with(MemoryOptions(store=store))
        await started(first)
        await first.memory.data.set("order", 1)
        snapshot = stored(first)
        assert "namespaces" not in snapshot["extensions"]["memory"]
        await first.close()
        second = session_with(id="later")
        await started(second, resume_from=snapshot)
        assert await second.memory.data.get_all() == {}
        await second.close()
        await store.aclose()

    run_virtual(test())
    assert "in a store that this session does not have" in caplog.text


@virtually
async def test_a_snapshot_of_an_unused_memory_holds_none_and_one_of_version_1_is_read() -> None:
    first = session_with()
    await started(first)
    snapshot = stored(first)
    await first.close()
    assert snapshot["version"] == 3
    assert snapshot.pop("extensions") == {}
    versions: list[dict[str, Any]] = [{"version": 1}, {"version": 2, "memory": None}]
    for number, version in enumerate(versions):
        second = session_with(id=f"later {number}")
        await started(second, resume_from={**snapshot, **version})
        assert second.memory.id == f"later {number}"
        await second.close()


@virtually
async def test_the_memory_in_a_snapshot_of_version_2_goes_on() -> None:
    first = session_with()
    await started(first)
    first.memory.private.set("visits", 3)
    await first.memory.data.set("order", 1)
    snapshot = stored(first)
    await first.close()
    older = {**snapshot, "version": 2, "memory": snapshot.pop("extensions")["memory"]}
    second = session_with(id="later")
    await started(second, resume_from=older)
    memory = second.memory
    assert (memory.id, memory.private.get("visits"), await memory.data.get("order")) == ("call", 3, 1)
    await second.close()


@virtually
async def test_a_session_that_takes_over_goes_on_with_the_memory_and_waiters_see_no_end() -> None:
    store = in_process()
    old = session_with(MemoryOptions(store=store))
    await started(old)
    old.memory.private.set("visits", 3)
    watch, new = HandOver(), session_with(MemoryOptions(store=store), id="later")
    async with SessionMemory.attach(store, "call") as memory, anyio.create_task_group() as group:
        with watch_scope(watch):
            group.start_soon(started, new)
            await anyio.sleep(1.0)
        snapshot = stored(old)
        await old.close(CloseReason.REPLACED)
        assert not await memory.wait(timeout=5.0)
        watch.give(snapshot)
        assert not await memory.wait(timeout=30.0)
        assert (new.memory.id, new.memory.private.get("visits")) == ("call", 3)
        await new.close()
        assert await memory.wait(timeout=1.0)


# --- the lease


@virtually
async def test_a_second_start_under_the_same_id_is_refused_while_the_first_runs() -> None:
    store = in_process()
    first = session_with(MemoryOptions(store=store))
    await started(first)
    await anyio.sleep(60.0)
    with pytest.raises(StoreError, match="runs already"):
        await started(session_with(MemoryOptions(store=store)))
    await first.memory.data.set("order", 1)
    report = await first.close()
    assert report.is_clean
    third = session_with(MemoryOptions(store=store))
    await started(third)
    assert await third.memory.data.get("order") == 1
    await third.close()


@virtually
async def test_a_resumed_session_continues_the_memory_and_a_former_holder_that_lives_closes() -> None:
    store = in_process()
    first = session_with(MemoryOptions(store=store))
    await started(first)
    await first.memory.data.set("order", 1)
    second = session_with(MemoryOptions(store=store), id="later")
    await started(second, resume_from=stored(first))
    assert second.memory.id == "call"
    assert await second.memory.data.get("order") == 1
    with anyio.fail_after(0.5):
        report = await first.wait_closed()
    assert report.reason == CloseReason.ERROR.value
    assert "another session" in report.error
    await anyio.sleep(60.0)
    assert (await second.close()).is_clean


# --- other processes


@virtually
async def test_an_attached_process_shares_everything_but_the_private_data() -> None:
    store = in_process()
    session = session_with(MemoryOptions(store=store))
    await started(session)
    await session.memory.data.set("order", 1)
    async with SessionMemory.attach(store, "call") as memory:
        assert await memory.data.get("order") == 1
        await memory.agent_data("desk").set("mood", "good")
        with pytest.raises(StoreError, match="own process"):
            _ = memory.private
        assert not await memory.wait(timeout=3.0)
        await memory.stop()
        assert await memory.wait(timeout=5.0)
    assert await session.memory.agent_data("desk").get("mood") == "good"
    assert (await session.wait_closed()).reason == CloseReason.USER_INITIATED.value


@virtually
async def test_attaching_to_a_session_that_the_store_does_not_have_is_refused() -> None:
    with pytest.raises(StoreError, match="no session 'nobody'"):
        async with SessionMemory.attach(in_process(), "nobody"):
            pass
    with pytest.raises(ConfigurationError):
        async with SessionMemory.attach(None, "call"):  # type: ignore[arg-type]  # that is the test
            pass


@virtually
async def test_threads_that_use_a_memory_first_get_the_same_one_which_begins_on_the_event_loop() -> None:
    session = session_with()
    room = await started(session)
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(lambda: session.memory) for _ in range(4)]
        assert len({id(future.result()) for future in futures}) == 1
    assert session.snapshot()["extensions"]["memory"]["namespaces"] == {}
    assert await session.memory.metadata.get("pinned") is False
    await anyio.sleep(0.1)
    room.send_text("a table")
    await anyio.sleep(2.0)
    stream = await session.memory.open_stream("user_transcript")
    assert [item.value async for item in stream.read(follow=False)] == ["a table"]
    assert (await session.close()).is_clean


@pytest.mark.parametrize("is_in_thread", [False, True])
def test_a_memory_that_is_first_used_after_the_close_has_its_values_and_no_task(is_in_thread: bool) -> None:
    async def test() -> None:
        session = session_with()
        await started(session)
        assert (await session.close()).is_clean
        if is_in_thread:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(lambda: session.memory).result()
            await anyio.sleep(0.0)
        await session.memory.data.set("order", 1)
        assert (await session.memory.to_dict())["metadata"]["pinned"] is False
        assert session.snapshot()["extensions"]["memory"]["namespaces"]["data"] == {"order": 1}
        with pytest.raises(StoreError, match="has ended"):
            await session.memory.open_stream("orders")
        assert [item async for item in session.memory.stream.read()] == []

    run_virtual(test())


@virtually
async def test_stop_and_wait_in_the_sessions_own_process() -> None:
    session = session_with()
    await started(session)
    assert not await session.memory.wait(timeout=1.0)
    await session.memory.stop()
    assert await session.memory.wait()


@virtually
async def test_wait_without_time_says_whether_the_session_has_ended() -> None:
    store = InProcessStore(clock=VirtualClock())
    session = session_with(MemoryOptions(store=store))
    await started(session)
    async with SessionMemory.attach(store, "call") as other:
        assert (await session.memory.wait(timeout=0), await other.wait(timeout=0)) == (False, False)
        await session.close()
        assert (await session.memory.wait(timeout=0), await other.wait(timeout=0)) == (True, True)


# --- a store that is down


@virtually
async def test_a_store_that_hangs_makes_calls_fail_within_the_timeout() -> None:
    store = ScriptedStore()
    session = session_with(MemoryOptions(store=store, timeout=1.0))
    await started(session)
    store.hangs = True
    before = anyio.current_time()
    for call in (session.memory.data.get("key"), session.memory.data.get_all(), session.memory.data.set("key", 1)):
        with pytest.raises(StoreUnavailable, match="1 s"):
            await call
    assert anyio.current_time() - before <= 3.1
    store.hangs = False
    await session.close()


@virtually
async def test_a_call_goes_on_while_its_store_is_down_and_says_so_once() -> None:
    store = ScriptedStore()
    session = session_with(MemoryOptions(store=store))
    errors: list[ErrorOccurred] = []
    session.on("error", errors.append)
    room = await started(session)
    store.is_down = True
    room.send_text("a table")
    await anyio.sleep(60.0)
    assert [turn.outcome for turn in session.turns] == ["completed"]
    assert [(event.source, event.is_recovered) for event in errors] == [("memory", True)]
    store.is_down = False
    await anyio.sleep(10.0)
    assert (await session.close()).is_clean


@virtually
async def test_a_session_starts_without_its_store_and_takes_the_lease_once_that_is_back() -> None:
    store = ScriptedStore()
    store.is_down = True
    session = session_with(MemoryOptions(store=store, user="ada"))
    await started(session)
    await anyio.sleep(30.0)
    store.is_down = False
    await anyio.sleep(10.0)
    assert await session.memory.metadata.get("user") == "ada"
    with pytest.raises(StoreError, match="runs already"):
        await started(session_with(MemoryOptions(store=store)))
    assert (await session.close()).lost_writes == 0


@virtually
async def test_the_close_counts_the_writes_that_the_store_did_not_get() -> None:
    store = ScriptedStore()
    store.hangs = True
    session = session_with(MemoryOptions(store=store))
    await started(session)
    report = await session.close()
    assert report.lost_writes == 7
    assert "7 writes" in next(step.error for step in report.steps if step.name == "memory")
    assert report.seconds < 5.5


# --- unused


@virtually
async def test_text_that_a_store_refuses_costs_one_line_of_the_transcript_and_no_word_of_the_call() -> None:
    store = ScriptedStore()
    store.refused = "secret"
    session = session_with(MemoryOptions(store=store))
    await started(session)
    await session.say("The secret is there.")
    await session.say("Good.")
    report = await session.close()
    assert report.lost_writes == 1
    assert [message.content for message in session.history.messages()] == ["The secret is there.", "Good."]


def test_an_unused_memory_makes_no_task_and_no_step_of_the_close() -> None:
    names: set[str] = set()

    async def test() -> None:
        session = session_with(agent=Agent("Be brief."))
        await started(session)
        names.update(task.name or "" for task in anyio.get_running_tasks())
        report = await session.close()
        names.update(step.name for step in report.steps)
        assert report.lost_writes == 0

    run_virtual(test())
    assert not [name for name in names if "memory" in name]

"""The records of running calls: one contract, whatever session store keeps them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TypeVar

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.servers.redis_server import RedisServer
from vivavoce.agents.memory.calls_in_store import CALLS_PLACE, WORDS_PLACE, CallsInStore, RunningCall
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.redis import RedisStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.memory.stores.store import METADATA, Change, Place
from vivavoce.agents.session.options import checked_options
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.pipelines.core.errors import ConfigurationError, StoreUnavailable
from vivavoce.pipelines.core.ids import new_id

CALL = RunningCall(
    lease="AJ_1",
    owner="here/7/1/AJ_1",
    url="ws://127.0.0.1:7880",
    room="kitchen",
    agent_name="host",
    dispatch_id="AD_1",
    metadata="table 7",
    attributes={"tier": "gold"},
    identity="agent-AJ_1",
    written_at=12.5,
    conversation='{"agent": "Höst 🙂"}',
)

T = TypeVar("T")

Open = Callable[[], CallsInStore]


@pytest.fixture(params=["in_process", "sqlite", "redis"])
def open_calls(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens stores on the same calls, as other processes would (in_process: other workers)."""
    if request.param == "in_process":
        shared = InProcessStore()
        return lambda: CallsInStore(shared)
    if request.param == "sqlite":
        return lambda: CallsInStore(SqliteStore(tmp_path / "store.sqlite"))
    server: RedisServer = request.getfixturevalue("redis_server")
    prefix = new_id("test")
    return lambda: CallsInStore(RedisStore(server.url, prefix))


async def test_a_record_is_kept_and_found_by_another_process_without_its_conversation(open_calls: Open) -> None:
    first, second = open_calls(), open_calls()
    await first.write(CALL)
    await first.write(replace(CALL, lease="AJ_0"))

    assert await second.read() == [replace(CALL, lease="AJ_0", conversation=""), replace(CALL, conversation="")]
    await first.aclose()
    await second.aclose()


async def test_the_newest_state_of_a_record_is_kept(open_calls: Open) -> None:
    store = open_calls()
    await store.write(CALL)
    await store.write(replace(CALL, conversation='{"agent": "Waiter"}'))

    claimed = await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0)

    assert claimed == replace(CALL, conversation='{"agent": "Waiter"}', owner="there", written_at=20.0)
    await store.aclose()


async def test_of_many_claims_at_the_same_time_one_succeeds(open_calls: Open) -> None:
    stores = [open_calls() for _ in range(8)]
    await stores[0].write(CALL)
    won: list[str] = []

    async def claim(number: int, store: CallsInStore) -> None:
        if await store.claim("AJ_1", owner=CALL.owner, by=f"worker {number}", at=20.0):
            won.append(f"worker {number}")

    async with anyio.create_task_group() as tasks:
        for number, store in enumerate(stores):
            tasks.start_soon(claim, number, store)

    assert len(won) == 1
    assert [call.owner for call in await stores[0].read()] == won
    for store in stores:
        await store.aclose()


async def test_a_process_that_lost_its_record_neither_changes_nor_removes_it(open_calls: Open) -> None:
    store = open_calls()
    await store.write(CALL)
    claimed = await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0)

    await store.write(replace(CALL, conversation="{}"))
    await store.remove("AJ_1", owner=CALL.owner)

    assert await store.claim("AJ_1", owner="there", by="there", at=20.0) == claimed
    await store.aclose()


async def test_a_removed_record_is_gone_and_the_store_works_after_its_close(open_calls: Open) -> None:
    store = open_calls()
    await store.write(CALL)
    await store.remove("AJ_1", owner=CALL.owner)
    await store.aclose()

    assert await store.read() == []
    assert await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0) is None
    await store.remove("AJ_1", owner=CALL.owner)
    await store.aclose()


def test_calls_in_one_process_cannot_be_sent_to_job_processes() -> None:
    with pytest.raises(ConfigurationError, match="use RedisStore or SqliteStore.*TaskExecution"):
        pickle.dumps(CrashSafety(store=InProcessStore()))


@pytest.mark.parametrize("open_calls", ["sqlite", "redis"], indirect=True)
async def test_a_store_of_calls_is_sent_to_job_processes(open_calls: Open) -> None:
    safety = CrashSafety(store=open_calls().store, sentence="I am back.")
    await safety.calls.write(CALL)
    sent: CrashSafety = pickle.loads(pickle.dumps(safety))
    assert [call.lease for call in await sent.calls.read()] == ["AJ_1"]
    assert (sent.sentence, sent.calls.store) == ("I am back.", sent.store)
    await sent.calls.aclose()
    await safety.calls.aclose()


@pytest.mark.parametrize("open_calls", ["sqlite", "redis"], indirect=True)
async def test_one_store_keeps_running_calls_and_the_memories_of_sessions(open_calls: Open) -> None:
    calls = open_calls()
    await calls.write(CALL)
    await calls.store.write(Place("call", METADATA), "created_date", '"2026-11-26"')
    async with SessionMemory.attach(calls.store, "call") as memory:
        await memory.data.set("day", "friday")
        await calls.aclose()  # as a worker does that ends
        assert await memory.data.get("day") == "friday"

    await calls.remove("AJ_1", owner=CALL.owner)
    assert [one.id for one in await calls.store.sessions()] == ["call"]
    await calls.aclose()


async def test_kept_calls_are_no_sessions_of_their_store(tmp_path: Path) -> None:
    sessions = SqliteStore(tmp_path / "store.sqlite")
    await CallsInStore(sessions).write(CALL)
    await sessions.keep("call", None)

    assert [one.id for one in await sessions.sessions()] == ["call"]
    await sessions.aclose()
    with pytest.raises(ConfigurationError, match="running calls are kept under it"):
        checked_options(None, "vivavoce.calls")


async def test_the_words_of_a_call_go_with_its_record(tmp_path: Path) -> None:
    sessions = SqliteStore(tmp_path / "store.sqlite")
    store = CallsInStore(sessions)
    await store.write(CALL)
    for by in ("there", "elsewhere"):
        await store.claim("AJ_1", owner=CALL.owner, by=by, at=20.0)
    await store.write(CALL)
    await store.write(replace(CALL, owner="there"))
    assert list(await sessions.read_all(WORDS_PLACE)) == ["AJ_1 there"]

    await store.remove("AJ_1", owner="there")
    assert await sessions.read_all(WORDS_PLACE) == {}
    await store.aclose()


class CutOffStore(InProcessStore):
    """A store that is lost with the `calls`-th call from now on."""

    calls = 1_000

    def _reach(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise StoreUnavailable("scripted")

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        self._reach()
        return await super().change(place, entry, change)

    async def read(self, place: Place, entry: str) -> str | None:
        self._reach()
        return await super().read(place, entry)

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        self._reach()
        return await super().write(place, entry, text, nx=nx)


@pytest.mark.parametrize("calls", range(7))
async def test_a_process_that_dies_in_a_claim_or_in_its_first_write_loses_no_words_and_leaves_none(calls: int) -> None:
    sessions = CutOffStore()
    store = CallsInStore(sessions)
    await store.write(CALL)
    sessions.calls = calls
    with suppress(StoreUnavailable):
        if await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0):
            await store.write(replace(CALL, owner="there", conversation='{"agent": "newer"}'))
    sessions.calls = 1_000

    [kept] = await store.read()
    claimed = await store.claim("AJ_1", owner=kept.owner, by="elsewhere", at=30.0)
    assert claimed is not None
    assert claimed.conversation in (CALL.conversation, '{"agent": "newer"}')
    await store.remove("AJ_1", owner="elsewhere")
    for place in (CALLS_PLACE, WORDS_PLACE):
        assert await sessions.read_all(place) == {}


class SlowStore(InProcessStore):
    """A store whose calls take their time, before and after they take effect."""

    def __init__(self, draw: Random) -> None:
        super().__init__(clock=VirtualClock())
        self.draw = draw

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        await anyio.sleep(self.draw.random())
        result = await super().change(place, entry, change)
        await anyio.sleep(self.draw.random())
        return result

    async def read(self, place: Place, entry: str) -> str | None:
        await anyio.sleep(self.draw.random())
        return await super().read(place, entry)

    async def write(self, place: Place, entry: str, text: str, *, nx: bool = False) -> bool:
        await anyio.sleep(self.draw.random())
        return await super().write(place, entry, text, nx=nx)


@settings(max_examples=25)
@given(st.integers(0, 1_000_000_000))
def test_however_processes_claim_write_and_die_a_call_keeps_its_words_until_its_end(seed: int) -> None:
    async def test() -> None:
        draw = Random(seed)
        sessions = SlowStore(draw)
        store = CallsInStore(sessions)
        await store.write(CALL)

        async def write(owner: str) -> None:
            for _ in range(draw.randint(0, 3)):
                await store.write(replace(CALL, owner=owner))
                await anyio.sleep(draw.random())

        async def process(name: str) -> None:
            await anyio.sleep(6 * draw.random())
            with anyio.move_on_after(draw.choice((8 * draw.random(), 1_000.0))):  # then it dies
                for call in await store.read():
                    claimed = await store.claim("AJ_1", owner=call.owner, by=name, at=20.0)
                    assert claimed is None or claimed.conversation == CALL.conversation
                    await write(name)

        async with anyio.create_task_group() as group:
            group.start_soon(write, CALL.owner)
            for name in "abcd":
                group.start_soon(process, name)
        [kept] = await store.read()
        claimed = await store.claim("AJ_1", owner=kept.owner, by="last", at=20.0)
        assert claimed is not None
        assert claimed.conversation == CALL.conversation
        await store.remove("AJ_1", owner="last")
        for place in (CALLS_PLACE, WORDS_PLACE):
            assert await sessions.read_all(place) == {}

    run_virtual(test())


@pytest.mark.parametrize("calls", [0, 1, 2])
async def test_a_removal_that_was_cut_off_is_finished_by_the_next_reader(calls: int) -> None:
    sessions = CutOffStore()
    store = CallsInStore(sessions)
    await store.write(CALL)
    sessions.calls = calls
    with pytest.raises(StoreUnavailable):
        await store.remove("AJ_1", owner=CALL.owner)
    sessions.calls = 1_000

    if calls == 0:
        await store.remove("AJ_1", owner=CALL.owner)
    assert await store.claim("AJ_1", owner=CALL.owner, by="there", at=20.0) is None
    assert await store.read() == []
    for place in (CALLS_PLACE, WORDS_PLACE):
        assert await sessions.read_all(place) == {}


async def test_without_redis_a_call_of_the_store_says_so() -> None:
    store = CallsInStore(RedisStore("unix:///nowhere/redis.sock"))
    with pytest.raises(StoreUnavailable):
        await store.write(CALL)
    await store.aclose()

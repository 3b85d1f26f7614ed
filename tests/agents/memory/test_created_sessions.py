"""Sessions without a call, in each store: `SessionMemory.create()`."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import MemoryOptions
from vivavoce.agents.memory import InProcessStore, SessionMemory, SessionStore, StoreError, StoreUnavailable
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.testing import run_virtual
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError

PATIENT = 60.0
"""Seconds for a call to the store where none may fail."""


async def test_programs_share_a_session_that_one_of_them_has_created(store: SessionStore) -> None:
    async with SessionMemory.create(store, "plan", user="anna", name="Plan", timeout=PATIENT) as first:
        await first.data.set("goal", "tea")
        assert first.id == "plan"
        assert isinstance(await first.metadata.get("created_date"), str)
    async with SessionMemory.attach(store, "plan", timeout=PATIENT) as second:
        assert await second.data.get("goal") == "tea"
        assert await second.list_agents() == []
    async with SessionMemory.create(store, "plan", user="anna", timeout=PATIENT) as third:
        assert await third.data.get("goal") == "tea", "it is shared, since it is there"
        assert await third.metadata.get("name") == "Plan"
    assert [one.id for one in await store.sessions("anna")] == ["plan"]


async def test_its_streams_carry_items_until_it_is_stopped(store: SessionStore) -> None:
    got: list[Any] = []
    async with SessionMemory.create(store, "plan", timeout=PATIENT) as memory:
        numbers = await memory.open_stream("numbers", tags=["numbers"])
        assert await memory.wait(timeout=0) is False

        async def read() -> None:
            async for _, item in memory.subscribe(["numbers"]):
                got.append(item.value if not item.is_end else "end")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            for number in range(3):
                await numbers.write(number)
            await memory.stop()
        assert got == [0, 1, 2, "end"]
        assert await memory.wait(timeout=PATIENT) is True
        with pytest.raises(StoreError, match="has ended"):
            await memory.open_stream("others")


async def test_a_session_that_was_stopped_begins_again_with_its_values(store: SessionStore) -> None:
    async with SessionMemory.create(store, "plan", timeout=PATIENT) as memory:
        await memory.data.set("goal", "tea")
        await memory.stop()
    async with SessionMemory.create(store, "plan", timeout=PATIENT) as memory:
        assert await memory.wait(timeout=0) is False
        assert await memory.data.get("goal") == "tea"
        numbers = await memory.open_stream("numbers")
        await numbers.write(1)


async def test_a_call_begins_under_its_id_and_has_its_values(store: SessionStore) -> None:
    async with SessionMemory.create(store, "call", timeout=PATIENT) as memory:
        await memory.data.set("goal", "tea")
        session, clock = session_with(MemoryOptions(store=store, timeout=PATIENT), clock=LoopClock()), LoopClock()
        await started(session, clock=clock)
        assert await session.memory.data.get("goal") == "tea"
        async with SessionMemory.create(store, "call", timeout=PATIENT) as other:
            assert await other.data.get("goal") == "tea"
            await other.stop()
        assert (await session.wait_closed()).is_clean
        assert await memory.wait(timeout=0) is True


async def test_a_session_of_another_user_is_refused(store: SessionStore) -> None:
    async with SessionMemory.create(store, "plan", user="anna", timeout=PATIENT):
        pass
    for user in ("ben", ""):
        with pytest.raises(StoreError, match="the session 'plan' is that of another user; take another id, or erase"):
            async with SessionMemory.create(store, "plan", user=user, timeout=PATIENT):
                pass


async def test_of_two_users_that_create_a_session_at_the_same_time_one_has_it() -> None:
    class Racing(InProcessStore):
        readers = 0
        both = anyio.Event()

        async def read(self, place: Place, entry: str) -> str | None:
            text = await super().read(place, entry)
            if entry == "user" and not self.both.is_set():
                self.readers += 1
                if self.readers == 2:
                    self.both.set()
                await self.both.wait()
            return text

    store = Racing()
    got: dict[str, str] = {}

    async def create(user: str) -> None:
        try:
            async with SessionMemory.create(store, "plan", user=user, timeout=PATIENT):
                got[user] = "created"
        except StoreError as error:
            got[user] = str(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(create, "anna")
        tasks.start_soon(create, "ben")
    (owner,) = (user for user, how in got.items() if how == "created")
    assert [one.id for one in await store.sessions(owner)] == ["plan"]
    (refused,) = (how for how in got.values() if how != "created")
    assert "is that of another user" in refused


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"store": None}, "store must be SessionStore"),
        ({"session_id": ""}, "need session_id as the id of a session, got ''"),
        ({"user": 1}, "need user as a str, got 1"),
        ({"name": None}, "need name as a str, got None"),
        ({"keep": 0}, "keep"),
        ({"timeout": -1}, "timeout"),
    ],
)
async def test_other_arguments_are_refused(given: dict[str, Any], match: str) -> None:
    arguments = {"store": ScriptedStore(), "session_id": "plan", **given}
    with pytest.raises(ConfigurationError, match=match):
        async with SessionMemory.create(**arguments):
            pass


def test_it_lives_without_a_process_as_long_as_it_is_kept() -> None:
    async def scenario() -> None:
        store = ScriptedStore()
        async with SessionMemory.create(store, "plan", keep=1000.0) as memory:
            assert await memory.wait(timeout=500.0) is False, "no process needs to renew it"
            assert await memory.data.get("goal") is None
        await anyio.sleep(1100.0)
        assert await store.sweep() == ["plan"]

    run_virtual(scenario())


def test_a_store_that_hangs_ends_the_call_in_time() -> None:
    async def scenario() -> None:
        store = ScriptedStore()
        store.hangs = True
        began = anyio.current_time()
        with pytest.raises(StoreUnavailable):
            async with SessionMemory.create(store, "plan", timeout=0.5):
                pass
        assert anyio.current_time() - began == pytest.approx(0.5)

    run_virtual(scenario())

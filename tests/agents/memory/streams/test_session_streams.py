"""Streams of a session in virtual time: the agents' items, members and the floor, outages, resumption, the end."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from kit.streams import Reader
from vivavoce.agents import Agent, AgentSession, MemoryOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import InProcessStore, SessionMemory, StoreError, StoreUnavailable, Stream, StreamItem
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError


def errors_of(session: AgentSession[Any]) -> list[str]:
    found: list[str] = []

    def note(event: ErrorOccurred) -> None:
        found.append(f"{event.source}: {type(event.error).__name__}")

    session.on(ErrorOccurred, note)
    return found


def shared() -> InProcessStore:
    return InProcessStore(clock=VirtualClock())


def test_an_agent_with_the_floor_gets_the_items_of_its_streams_old_and_new_one_after_the_other() -> None:
    async def test() -> None:
        agent = Reader()
        session = session_with(agent=agent)
        await started(session)
        memory = session.memory
        orders = await memory.open_stream("orders", tags=["orders"])
        await orders.write("tea")
        assert await memory.add_agent(agent, tags=["orders"], exclude=["secret"])
        assert not await memory.add_agent(agent, tags=["other"])
        await (await memory.open_stream("hidden", tags=["orders", "secret"])).write("no")
        await orders.control("PROGRESS", value=1)
        await orders.close()
        await anyio.sleep(1.0)
        assert agent.items == [("orders", "tea"), ("orders", "PROGRESS"), ("orders", "EOS")]
        assert (await session.close()).is_clean

    run_virtual(test())


def test_a_reader_that_raises_causes_an_error_event_and_gets_the_next_item() -> None:
    async def test() -> None:
        agent = Reader()
        session = session_with(agent=agent)
        errors = errors_of(session)
        await started(session)
        await session.memory.add_agent(agent, tags=["orders"])
        orders = await session.memory.open_stream("orders", tags=["orders"])
        for value in ("raise", "tea"):
            await orders.write(value)
        await anyio.sleep(1.0)
        assert agent.items == [("orders", "raise"), ("orders", "tea")]
        assert errors == ["on_stream: ValueError"]
        assert (await session.close()).is_clean

    run_virtual(test())


def test_an_agent_may_speak_when_it_gets_an_item_and_await_it() -> None:
    async def test() -> None:
        agent = Reader()
        session = session_with(agent=agent)
        await started(session)
        await session.memory.add_agent(agent, tags=["orders"])
        await (await session.memory.open_stream("orders", tags=["orders"])).write("speak")
        await anyio.sleep(30.0)
        assert agent.items == [("orders", "speak"), ("orders", "spoken")]
        assert [message.content for message in session.history.messages("assistant")] == ["I have read it."]
        assert (await session.close()).is_clean

    run_virtual(test())


def test_the_limit_of_a_reader_stands_still_while_its_own_speech_plays() -> None:
    class Narrator(Reader):
        async def on_stream(self, stream: Stream, item: StreamItem) -> None:
            await self.session.say(" ".join(["word"] * 60))
            await super().on_stream(stream, item)

    async def test() -> None:
        agent = Narrator()
        session = session_with(agent=agent)
        errors = errors_of(session)
        await started(session)
        await session.memory.add_agent(agent, tags=["orders"])
        await (await session.memory.open_stream("orders", tags=["orders"])).write("tea")
        await anyio.sleep(60.0)
        assert agent.items == [("orders", "tea")]
        assert errors == []
        await session.close()

    run_virtual(test())


def test_an_agent_without_the_floor_is_part_of_the_session_until_it_closes() -> None:
    async def test() -> None:
        helper, session, other = Reader("helper"), session_with(), session_with(id="other")
        await started(session)
        await started(other)
        with pytest.raises(ConfigurationError, match="a list of tags"):
            await other.memory.add_agent(helper, tags="orders")
        await session.memory.add_agent(helper, tags=["orders"])
        assert helper.session is session
        orders = await session.memory.open_stream("orders", tags=["orders"])
        await orders.write("tea")
        await anyio.sleep(1.0)
        with pytest.raises(SessionError, match="in session 'call'"):
            await other.memory.add_agent(helper, tags=["orders"])
        await session.memory.remove_agent(helper)
        await anyio.sleep(3.0)
        await orders.write("no more")
        await anyio.sleep(3.0)
        await session.memory.add_agent(helper, tags=["orders"])
        await orders.write("again")
        await anyio.sleep(3.0)
        assert helper.items == [("orders", "tea"), ("orders", "no more"), ("orders", "again")]
        assert (await session.close()).is_clean
        await other.memory.add_agent(helper, tags=["orders"])
        await other.close()

    run_virtual(test())


def test_an_attached_memory_takes_no_object_whose_hook_is_never_called_there() -> None:
    async def test() -> None:
        store = shared()
        session = session_with(MemoryOptions(store=store))
        await started(session)
        async with SessionMemory.attach(store, "call") as memory:
            await anyio.sleep(1.0)
            with pytest.raises(ConfigurationError, match=r"whose on_stream is never called here; add 'clerk' and read"):
                await memory.add_agent(Reader("clerk"), tags=["orders"])
            assert [one.id for one in await memory.list_agents()] == ["desk"]
            assert await memory.add_agent(Agent("Help.", id="plain"), tags=["orders"])
            assert await memory.add_agent("clerk", tags=["orders"])
        await session.close()

    run_virtual(test())


def test_the_agent_with_the_floor_is_a_member_for_all_processes_after_a_handoff_too() -> None:
    async def test() -> None:
        store = shared()
        session = session_with(MemoryOptions(store=store))
        await started(session)
        clerk = Reader("clerk")
        async with SessionMemory.attach(store, "call") as memory:
            await anyio.sleep(1.0)
            assert [one.id for one in await memory.list_agents()] == ["desk"]
            await memory.add_agent("clerk", tags=["orders"])
            await (await memory.open_stream("orders", tags=["orders"])).write("tea")
            await session.update_agent(clerk)
            await anyio.sleep(1.0)
            for seen in (memory, session.memory):
                assert [(one.id, one.has_floor) for one in await seen.list_agents()] == [("clerk", True)]
            assert (await memory.to_dict())["agents"] == [
                {"id": "clerk", "tags": ["orders"], "exclude": [], "has_floor": True}
            ]
        assert clerk.items == [("orders", "tea")]
        await session.close()

    run_virtual(test())


def test_another_process_writes_for_an_agent_and_follows_what_the_session_writes() -> None:
    async def test() -> None:
        store, agent = shared(), Reader()
        session = session_with(MemoryOptions(store=store), agent=agent)
        room = await started(session)
        await session.memory.add_agent(agent, tags=["orders"])
        words: list[tuple[str, str]] = []

        async def follow() -> None:
            async with SessionMemory.attach(store, "call") as memory:
                await (await memory.open_stream("orders", tags=["orders"])).write("tea")
                async for stream, item in memory.subscribe(["transcript"]):
                    if not item.is_end:
                        words.append((stream.name, item.value))

        with anyio.fail_after(120.0):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                room.send_text("a table")
                await anyio.sleep(30.0)
                await session.close()
        assert words == [("user_transcript", "a table"), ("agent_transcript", "Fine.")]
        assert agent.items == [("orders", "tea")]

    run_virtual(test())


def test_after_the_session_its_streams_are_over_and_say_so() -> None:
    async def test() -> None:
        for options in (None, MemoryOptions(store=shared())):
            session = session_with(options)
            await started(session)
            orders = await session.memory.open_stream("orders")
            await orders.write("tea")
            await session.close()
            assert [item.value async for item in orders.read()] == ["tea"]
            with pytest.raises(StoreError, match="is closed"):
                await orders.write("late")

    run_virtual(test())


def test_an_outage_of_the_store_delays_items_and_loses_none() -> None:
    async def test() -> None:
        store, agent = ScriptedStore(), Reader()
        session = session_with(MemoryOptions(store=store), agent=agent)
        errors = errors_of(session)
        await started(session)
        await session.memory.add_agent(agent, tags=["orders"])
        orders = await session.memory.open_stream("orders", tags=["orders"])
        await orders.write(1)
        await anyio.sleep(1.0)
        store.is_down = True
        with pytest.raises(StoreUnavailable):
            await orders.write(2)
        with pytest.raises(StoreUnavailable):
            await anext(orders.read())
        await anyio.sleep(20.0)
        store.is_down = False
        await orders.write(3)
        await anyio.sleep(10.0)
        assert agent.items == [("orders", 1), ("orders", 3)]
        assert errors == ["memory: StoreUnavailable"]
        assert (await session.close()).is_clean

    run_virtual(test())


def test_a_reader_of_a_store_that_hangs_is_told_within_the_limit_after_its_wait() -> None:
    async def test() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store, timeout=1.0))
        await started(session)
        orders = await session.memory.open_stream("orders", tags=["orders"])
        store.hangs = True
        for reader in (orders.read(), session.memory.subscribe(["orders"])):
            before = anyio.current_time()
            with pytest.raises(StoreUnavailable, match=r"within 1(\.5)? s"):
                await anext(reader)
            assert anyio.current_time() - before <= 1.5
        store.hangs = False
        await session.close()

    run_virtual(test())


def test_a_resumed_session_goes_on_with_the_streams_and_its_agent_with_the_next_item() -> None:
    async def test() -> None:
        store, agent = shared(), Reader()
        first = session_with(MemoryOptions(store=store), agent=agent)
        await started(first)
        await first.memory.add_agent(agent, tags=["orders"])
        orders = await first.memory.open_stream("orders", tags=["orders"])
        await orders.write(1)
        await anyio.sleep(1.0)
        snapshot = json.loads(json.dumps(first.snapshot()))
        await first.close()
        again = Reader()
        second = session_with(MemoryOptions(store=store), agent=again, id="later")
        await started(second, resume_from=snapshot)
        await (await second.memory.open_stream("orders")).write(2)
        await anyio.sleep(3.0)
        assert [item for item in again.items if item[1] != "EOS"] == [("orders", 2)]
        assert (await second.close()).is_clean

    run_virtual(test())


@pytest.mark.parametrize("store", ["of the process", "another", "emptied"])
def test_the_agent_of_a_resumed_session_misses_no_item_where_the_old_ones_are_gone(store: str) -> None:
    async def test() -> None:
        kept = ScriptedStore()
        options = None if store == "of the process" else MemoryOptions(store=kept)
        first = session_with(options, agent=(agent := Reader()))
        await started(first)
        await first.memory.add_agent(agent, tags=["orders"])
        orders = await first.memory.open_stream("orders", tags=["orders"])
        for number in range(3):
            await orders.write(number)
        await anyio.sleep(1.0)
        assert len(agent.items) == 3
        snapshot = json.loads(json.dumps(first.snapshot()))
        await first.close()
        if store == "emptied":
            await kept.delete("call")
        if store == "another":
            options = MemoryOptions(store=ScriptedStore())
        again, helper = Reader(), Reader("helper")
        second = session_with(options, agent=again, id="later")
        await started(second, resume_from=snapshot)
        await second.memory.add_agent(again, tags=["orders"])
        orders = await second.memory.open_stream("orders", tags=["orders"])
        for number in range(10, 15):
            await orders.write(number)
        await second.memory.add_agent(helper, tags=["orders"])
        await anyio.sleep(3.0)
        for reader in (again, helper):
            assert [value for _, value in reader.items] == [10, 11, 12, 13, 14]
        assert (await second.close()).is_clean

    run_virtual(test())


def test_an_agent_that_joins_late_misses_no_item_of_a_store_that_was_emptied() -> None:
    async def test() -> None:
        store = ScriptedStore()
        first = session_with(MemoryOptions(store=store))
        await started(first)
        await first.memory.add_agent(agent := Reader("helper"), tags=["orders"])
        await (await first.memory.open_stream("orders", tags=["orders"])).write("old")
        await anyio.sleep(1.0)
        assert agent.items == [("orders", "old")]
        snapshot = json.loads(json.dumps(first.snapshot()))
        await first.close()
        await store.delete("call")
        second = session_with(MemoryOptions(store=store), id="later")
        await started(second, resume_from=snapshot)
        await anyio.sleep(1.0)
        orders = await second.memory.open_stream("orders", tags=["orders"])
        for number in range(2):
            await orders.write(number)
        await second.memory.add_agent(late := Reader("helper"), tags=["orders"])
        await anyio.sleep(3.0)
        assert [value for _, value in late.items] == [0, 1]
        assert (await second.close()).is_clean

    run_virtual(test())


def test_the_follower_of_a_session_whose_process_died_ends_when_no_other_one_resumes_it() -> None:
    async def test() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store))
        await started(session)
        await anyio.sleep(1.0)
        async with SessionMemory.attach(store, "call") as memory:
            reader = (await memory.open_stream("user_transcript")).read()
            store.is_down = True
            await session.close()
            store.is_down = False
            with anyio.fail_after(40.0):
                assert [item async for item in reader] == []

    run_virtual(test())


def test_a_reader_from_behind_the_end_of_a_closed_stream_ends() -> None:
    async def test() -> None:
        session = session_with()
        await started(session)
        stream = await session.memory.open_stream("orders")
        await stream.write("tea")
        await stream.close()
        with anyio.fail_after(5.0):
            assert [item async for item in stream.read(9)] == []
        await session.close()

    run_virtual(test())


def test_an_agent_without_the_hook_and_an_unused_memory_make_no_task_for_streams() -> None:
    async def test() -> None:
        session = session_with(agent=Reader())
        await started(session)
        assert not [task.name for task in anyio.get_running_tasks() if "streams" in (task.name or "")]
        await session.memory.add_agent("desk", tags=["orders"])
        assert [task.name for task in anyio.get_running_tasks() if "streams" in (task.name or "")]
        await session.close()
        plain = session_with(agent=Agent("Be brief.", id="desk"))
        await started(plain)
        await plain.memory.add_agent("desk", tags=["orders"])
        assert not [task.name for task in anyio.get_running_tasks() if "streams" in (task.name or "")]
        await plain.close()

    run_virtual(test())


async def test_a_memory_that_a_thread_is_the_first_to_use_gives_an_agent_its_items_too() -> None:
    agent, clock = Reader(), LoopClock()
    session = session_with(agent=agent, clock=clock)
    await started(session, clock=clock)
    await anyio.to_thread.run_sync(lambda: session.memory.private.set("visits", 1))  # as a sync tool would
    await session.memory.add_agent(agent, tags=["orders"])
    await (await session.memory.open_stream("orders", tags=["orders"])).write("tea")
    with anyio.fail_after(60):
        while not agent.items:  # noqa: ASYNC110 - it comes from the store
            await anyio.sleep(0.01)
    assert agent.items == [("orders", "tea")]
    assert (await session.close()).is_clean

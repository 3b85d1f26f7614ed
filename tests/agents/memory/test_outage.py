"""Each call of a memory that reaches the store raises StoreUnavailable without it: no result is empty by mistake."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import MemoryOptions
from vivavoce.agents.budget import BudgetOptions
from vivavoce.agents.budget.budget import Budget
from vivavoce.agents.memory import SessionMemory, StoreUnavailable, Stream
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.streams.following import WAIT_SHARE
from vivavoce.agents.replies import Markdown
from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.local import VirtualSink

TIMEOUT = 1.0

Call = Callable[[Any, Stream], Awaitable[object]]
"""A call of a budget, or of a memory and of a stream in it."""

CALLS: dict[type, dict[str, Call]] = {
    Namespace: {
        "get": lambda memory, _: memory.data.get("key", "none"),
        "get_all": lambda memory, _: memory.metadata.get_all(),
        "set": lambda memory, _: memory.data.set("key", 1),
        "delete": lambda memory, _: memory.data.delete("key"),
        "append": lambda memory, _: memory.agent_data("desk").append("list", 1),
        "length": lambda memory, _: memory.stream_data("orders").length("list"),
    },
    Budget: {
        "allocation": lambda budget, _: budget.allocation(),
        "set_allocation": lambda budget, _: budget.set_allocation(latency=2.0),
        "use": lambda budget, _: budget.use(),
        "usage": lambda budget, _: budget.usage(),
        "update_use": lambda budget, _: budget.update_use(accuracy=0.5),
    },
    Stream: {
        "write": lambda _, stream: stream.write(1),
        "control": lambda _, stream: stream.control("PROGRESS"),
        "close": lambda _, stream: stream.close(),
        "read": lambda _, stream: anext(stream.read()),
    },
    SessionMemory: {
        "to_dict": lambda memory, _: memory.to_dict(),
        "add_agent": lambda memory, _: memory.add_agent("cook"),
        "remove_agent": lambda memory, _: memory.remove_agent("cook"),
        "list_agents": lambda memory, _: memory.list_agents(),
        "open_stream": lambda memory, _: memory.open_stream("orders"),
        "notify": lambda memory, _: memory.notify("desk", "orders", ["new"]),
        "subscribe": lambda memory, _: anext(memory.subscribe(["orders"])),
        "get_stream_debug_info": lambda memory, _: memory.get_stream_debug_info(),
        "get_chat_history": lambda memory, _: memory.get_chat_history(),
        "save_reasoning_event": lambda memory, _: memory.save_reasoning_event("reasoning_step", "thinks"),
        "get_reasoning_events": lambda memory, _: memory.get_reasoning_events(),
        "link_pending_reasoning_events": lambda memory, _: memory.link_pending_reasoning_events(),
        "post": lambda memory, _: memory.post(Markdown("hi")),
        "stop": lambda memory, _: memory.stop(),
        "wait": lambda memory, _: memory.wait(timeout=60.0),
    },
}


@pytest.mark.parametrize("owner", CALLS, ids=lambda owner: owner.__name__)
def test_all_calls_that_reach_the_store_are_tried(owner: type) -> None:
    waits = {name for name, member in vars(owner).items() if inspect.iscoroutinefunction(member)}
    waits |= {name for name, member in vars(owner).items() if "AsyncGenerator" in str(_returned(member))}
    assert {name for name in waits if not name.startswith("_")} == set(CALLS[owner])


def _returned(member: Any) -> object:
    return getattr(member, "__annotations__", {}).get("return", "")


@pytest.mark.parametrize("fault", ["is_down", "hangs"])
@pytest.mark.parametrize(
    ("owner", "call"),
    [pytest.param(kind, call, id=f"{kind.__name__}.{name}") for kind in CALLS for name, call in CALLS[kind].items()],
)
def test_without_its_store_a_call_of_another_process_raises_within_the_limit(
    owner: type, call: Call, fault: str
) -> None:
    async def main() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store), budget=BudgetOptions())
        await started(session)
        await anyio.sleep(1.0)
        async with (
            SessionMemory.attach(store, "call", timeout=TIMEOUT) as memory,
            Budget.attach(store, "call", timeout=TIMEOUT) as budget,
        ):
            stream = await memory.open_stream("orders", tags=["orders"])
            await stream.write("tea")
            await memory.data.set("key", 1)
            setattr(store, fault, True)
            before = anyio.current_time()
            with pytest.raises(StoreUnavailable):
                await call(budget if owner is Budget else memory, stream)
            wait = WAIT_SHARE * TIMEOUT if call is CALLS[Stream]["read"] else 0.0  # for items, before the limit
            assert anyio.current_time() - before <= wait + TIMEOUT + 0.01
        with pytest.raises(StoreUnavailable):
            async with SessionMemory.attach(store, "call", timeout=TIMEOUT):
                raise AssertionError("unreachable: the store is down")
        setattr(store, fault, False)
        await session.close()

    run_virtual(main())


@pytest.mark.parametrize("fault", ["is_down", "hangs"])
def test_a_store_that_is_away_during_speech_makes_no_gap_in_it(fault: str) -> None:
    async def call() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store, timeout=TIMEOUT))
        room = await started(session)
        speech = session.say("one two three four five six seven eight nine ten")
        await anyio.sleep(0.3)
        setattr(store, fault, True)
        await anyio.sleep(0.5)
        setattr(store, fault, False)
        await speech
        assert isinstance(room.sink, VirtualSink)
        frames = room.sink.frames()
        ends = [played.at + played.frame.duration for played in frames]
        assert [played.at for played in frames[1:]] == pytest.approx(ends[:-1])
        assert ends[-1] - frames[0].at > 1.5
        report = await session.close()
        assert (report.is_clean, report.lost_writes) == (True, 0)

    run_virtual(call())


def test_a_close_waits_for_a_store_that_hangs_once() -> None:
    async def call() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store, timeout=TIMEOUT))
        await started(session)
        await session.say("one")
        await anyio.sleep(1.0)
        store.hangs = True
        report = await session.close()
        (seconds,) = [step.seconds for step in report.steps if step.name == "memory"]
        assert seconds <= TIMEOUT + 0.01  # the other parts have their share of the close's seconds too

    run_virtual(call())

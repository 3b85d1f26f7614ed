"""The history of calls under one id, and of a call that went on twice: one order by time, and ids of one run."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import Agent, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.memory import SessionMemory, StoreUnavailable
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall


class Desk(Agent):
    """Notes a step of its reasoning in its tool."""

    def __init__(self) -> None:
        super().__init__("Help.", id="desk")

    @function_tool
    async def look(self, day: str) -> str:
        "Look into the book."
        assert self.session is not None
        await self.session.memory.save_reasoning_event("reasoning_step", {"thought": day})
        return "free"


def asks_for(day: str) -> ScriptedLLM:
    """Return a model that looks for that day at the first turn."""
    call = ToolCall(call_id="c1", name="look", arguments=f'{{"day": "{day}"}}')
    return ScriptedLLM([call], f"{day} is free.", default=f"Yes, {day}.")


def call_of(
    store: ScriptedStore, day: str, *, id: str | None = "room 12", resume_from: Mapping[str, Any] | None = None
) -> SessionHarness:
    options = SessionOptions(memory=MemoryOptions(store=store))
    harness = SessionHarness(Desk(), asks_for(day), options=options, id=id)
    harness.resume_from = resume_from
    return harness


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


def words(messages: list[ChatMessage]) -> list[str]:
    return [message.content for message in messages]


FIRST = ["friday?", "friday is free.", "sure?", "Yes, friday."]
SECOND = ["monday?", "monday is free."]


async def two_calls(store: ScriptedStore) -> SessionHarness:
    """Have one call of two turns, and the first turn of another one with the same id, which runs on."""
    async with call_of(store, "friday") as first:
        await first.user("friday?")
        await first.session.memory.save_reasoning_event("task_list_update", {"thought": "never linked"})
        await first.user("sure?")
    await anyio.sleep(1.0)
    second = call_of(store, "monday")
    await second.__aenter__()
    return second


@virtual
async def test_two_calls_under_one_id_are_one_history_in_the_order_of_time_inside_and_outside() -> None:
    store = ScriptedStore()
    second = await two_calls(store)
    assert words(await second.session.memory.get_chat_history()) == FIRST
    await second.user("monday?")
    await anyio.sleep(1.0)
    inside = second.session.memory
    async with SessionMemory.attach(store, "room 12") as outside:
        for memory in (inside, outside):
            assert words(await memory.get_chat_history()) == [*FIRST, *SECOND]
            assert words(await memory.get_chat_history(n=1)) == SECOND[-1:]
        assert await inside.get_chat_history() == await outside.get_chat_history()
        assert await inside.get_reasoning_events() == await outside.get_reasoning_events()
    assert words((await store.history("room 12")).messages()) == [*FIRST, *SECOND]
    assert words(second.session.history.messages()) == SECOND, "the call itself begins anew"
    await second.__aexit__(None, None, None)


@virtual
async def test_the_steps_of_a_call_are_linked_to_its_own_answers() -> None:
    store = ScriptedStore()
    second = await two_calls(store)
    inside = second.session.memory
    await inside.save_reasoning_event("task_list_update", {"thought": "plan"})
    async with SessionMemory.attach(store, "room 12") as outside:
        for memory in (inside, outside):
            assert await memory.link_pending_reasoning_events() == 0, "this call has no answer yet"
        await second.user("monday?")
        await anyio.sleep(1.0)
        assert await outside.link_pending_reasoning_events() == 1
        assert await inside.link_pending_reasoning_events() == 0
        events, chat = await inside.get_reasoning_events(), await outside.get_chat_history()
    answers = {message.id: message.content for message in chat}
    assert [(e.payload.get("thought") or e.kind, answers.get(e.reply_id, "")) for e in events] == [
        ("friday", "friday is free."),
        ("tool_call", "friday is free."),
        ("tool_result", "friday is free."),
        ("never linked", ""),
        ("plan", "monday is free."),
        ("monday", "monday is free."),
        ("tool_call", "monday is free."),
        ("tool_result", "monday is free."),
    ]
    turns = {message.turn_id for message in chat}
    assert len(turns) == 3, "the turns of the two calls have different ids"
    await second.__aexit__(None, None, None)


@virtual
async def test_a_call_that_goes_on_from_an_older_snapshot_comes_behind_what_was_said_since() -> None:
    store, snapshots = ScriptedStore(), list[dict[str, Any]]()
    async with call_of(store, "friday") as first:
        await first.user("friday?")
        snapshots.append(first.session.snapshot())
        await first.user("sure?")
    await anyio.sleep(1.0)
    async with call_of(store, "monday", id=None, resume_from=snapshots[0]) as second:
        memory = second.session.memory
        await second.user("monday?")
        await anyio.sleep(1.0)
        assert words(second.session.history.messages()) == [*FIRST[:2], *SECOND]
        chat, events = await memory.get_chat_history(), await memory.get_reasoning_events()
        async with SessionMemory.attach(store, memory.id) as outside:
            assert await outside.get_chat_history() == chat
            assert await outside.get_reasoning_events() == events
        assert words(chat) == [*FIRST, *SECOND]
        answers = {message.id: message.content for message in chat}
        steps = [(event.payload["thought"], answers[event.reply_id]) for event in events if "thought" in event.payload]
        assert steps == [("friday", "friday is free."), ("monday", "monday is free.")]
        second.session.history.remove(second.session.history.messages()[0])
        await anyio.sleep(1.0)
        async with SessionMemory.attach(store, memory.id) as outside:
            assert await outside.get_chat_history() == await memory.get_chat_history()
        assert words(await memory.get_chat_history())[0] == "friday is free."


@virtual
async def test_a_later_call_that_cannot_reach_the_words_of_the_earlier_one_does_not_leave_them_out() -> None:
    store = ScriptedStore()
    second = await two_calls(store)
    store.is_down = True
    with pytest.raises(StoreUnavailable):
        await second.session.memory.get_chat_history()
    store.is_down = False
    assert words(await second.session.memory.get_chat_history()) == FIRST
    store.is_down = True
    assert words(await second.session.memory.get_chat_history()) == FIRST, "they do not change any more"
    store.is_down = False
    await second.__aexit__(None, None, None)


@virtual
async def test_a_call_that_begins_in_an_outage_has_turns_of_its_own_too() -> None:
    store = ScriptedStore()
    async with call_of(store, "friday") as first:
        await first.user("friday?")
    await anyio.sleep(1.0)
    store.is_down = True
    async with call_of(store, "monday") as second:
        second.expects_error("memory").expects_error("tool")
        await second.user("monday?")
        store.is_down = False
        await anyio.sleep(10.0)
        chat = await second.session.memory.get_chat_history()
    assert words(chat) == [*FIRST[:2], *SECOND]
    assert len({message.turn_id for message in chat}) == 2


class SetBack(VirtualClock):
    """A clock that is set back in the midst of a call."""

    back = 0.0

    def wall(self) -> float:
        return super().wall() - self.back


@virtual
async def test_a_clock_that_is_set_back_does_not_change_the_order() -> None:
    store, clock = ScriptedStore(), SetBack()
    session = session_with(MemoryOptions(store=store), clock=clock)
    await started(session, clock=clock)
    session.history.add_message("user", "one")
    clock.back = 3600.0
    for text in ("two", "three"):
        await anyio.sleep(1.0)
        session.history.add_message("user", text)
    await session.close()
    assert words((await store.history("call")).messages()) == ["one", "two", "three"]

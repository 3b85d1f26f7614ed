"""The history of a session in its memory: heard text, reasoning events and their replies, also from other processes."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings

from kit.chat import conversations
from kit.memory import ScriptedStore
from kit.servers.redis_server import RedisServer
from vivavoce.agents import Agent, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.core.values import MAX_BYTES
from vivavoce.agents.memory import (
    InProcessStore,
    RedisStore,
    SessionMemory,
    SessionStore,
    SqliteStore,
    StoreUnavailable,
)
from vivavoce.agents.memory.history.reasoning import ReasoningEvent
from vivavoce.agents.memory.history.stored_items import HISTORY, item_text
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock
from vivavoce.pipelines.core.errors import ConfigurationError, StoreValueError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem, ChatMessage, FunctionCall
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame


class Desk(Agent):
    """Notes a step of its reasoning in its tool."""

    def __init__(self) -> None:
        super().__init__("Help.", id="desk")

    @function_tool
    async def look(self, day: str) -> str:
        "Look into the book."
        assert self.session is not None
        await self.session.memory.save_reasoning_event("reasoning_step", {"thought": f"is {day} free?"})
        return "free"


PATIENT = 60.0
"""Seconds for a call to a real store, where none may fail."""


def harness(llm: ScriptedLLM, store: SessionStore | None = None, *, timeout: float = 2.0) -> SessionHarness:
    memory = MemoryOptions(store=store, timeout=timeout)
    return SessionHarness(Desk(), llm, options=SessionOptions(memory=memory))


def in_process() -> InProcessStore:
    return InProcessStore(clock=VirtualClock())


def calls_look() -> ScriptedLLM:
    call = ToolCall(call_id="c1", name="look", arguments='{"day": "friday"}')
    return ScriptedLLM([call], "Friday is free.", "Bye.")


def told(events: list[ReasoningEvent]) -> list[tuple[str, Any]]:
    return [(event.kind, event.payload.get("thought") or event.payload.get("name")) for event in events]


# --- heard text


def test_the_chat_history_is_the_heard_text_of_both_sides_oldest_first() -> None:
    async def scenario(harness: SessionHarness) -> None:
        memory, session = harness.session.memory, harness.session
        session.history.add_message("system", "a note for the model")
        await harness.user("hello")
        long = session.say("One two three four five six seven eight nine ten.")
        await anyio.sleep(1.0)
        await session.interrupt()
        await long
        found = await memory.get_chat_history()
        assert [(message.role, message.content) for message in found[:2]] == [("user", "hello"), ("assistant", "Fine.")]
        assert found[2].interrupted
        assert found[2].content == long.heard_text
        assert len(found) == 3
        assert await memory.get_chat_history(2) == found[1:]
        assert await memory.get_chat_history(0) == []
        assert await memory.get_chat_history(99) == found
        until = found[1].created_at
        assert await memory.get_chat_history(until_timestamp=until) == found[:2]
        assert await memory.get_chat_history(1, until_timestamp=datetime.fromtimestamp(until, UTC)) == found[1:2]
        assert await memory.get_chat_history(until_timestamp=until - 0.001) == [
            message for message in found if message.created_at < until
        ]

    SessionHarness(Agent("Help."), ScriptedLLM(default="Fine.")).run(scenario)


def test_wrong_arguments_are_refused_before_the_store_is_reached() -> None:
    store = ScriptedStore()

    async def scenario(harness: SessionHarness) -> None:
        memory = harness.session.memory
        await anyio.sleep(0.5)
        before = store.calls
        wrong: list[tuple[Any, type[Exception]]] = [
            (memory.get_chat_history(-1), ConfigurationError),
            (memory.get_chat_history(True), ConfigurationError),
            (memory.get_chat_history(until_timestamp=float("nan")), ConfigurationError),
            (memory.get_chat_history(until_timestamp=datetime(2026, 1, 1)), ConfigurationError),
            (memory.get_reasoning_events("now"), ConfigurationError),  # type: ignore[arg-type]
            (memory.save_reasoning_event("tool_call", {}), ConfigurationError),  # type: ignore[arg-type]
            (memory.save_reasoning_event("reasoning_step", {1, 2}), StoreValueError),
            (memory.save_reasoning_event("reasoning_step", "x" * 2_000_000), StoreValueError),
        ]
        for call, error in wrong:
            with pytest.raises(error):
                await call
        assert store.calls == before

    harness(ScriptedLLM(), store).run(scenario)


@pytest.fixture(params=["in_process", "sqlite", "redis"])
async def shared(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[SessionStore]:
    """A store for a session and another process."""
    store: SessionStore = InProcessStore()
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "store.sqlite")
    elif request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        store = RedisStore(server.url, new_id("test"))
    yield store
    await store.aclose()


async def test_another_process_reads_the_same_history_also_after_the_call(shared: SessionStore) -> None:
    async with harness(calls_look(), shared, timeout=PATIENT) as running:
        memory = running.session.memory
        await running.user("is friday free?")
        await memory.save_reasoning_event("task_list_update", {"thought": "done"})
        assert await memory.link_pending_reasoning_events() == 1
        chat, events = await memory.get_chat_history(), await memory.get_reasoning_events()
        session_id = running.session.id
    async with SessionMemory.attach(shared, session_id, timeout=PATIENT) as attached:
        assert await attached.get_chat_history() == chat
        assert await attached.get_reasoning_events() == events
        assert await attached.get_chat_history(1) == chat[-1:]
    assert (await shared.history(session_id)).items == running.session.history.items
    assert await shared.snapshot(session_id) == running.session.snapshot()
    assert told(events) == [
        ("reasoning_step", "is friday free?"),
        ("tool_call", "look"),
        ("tool_result", "look"),
        ("task_list_update", "done"),
    ]
    assert {event.reply_id for event in events} == {chat[-1].id}


async def test_a_session_that_goes_on_with_what_a_store_has_kept_gives_the_extra_of_a_call_back(
    shared: SessionStore,
) -> None:
    signed = ToolCall(call_id="c1", name="look", arguments='{"day": "friday"}', extra='{"maker": "héllo"}')
    async with harness(ScriptedLLM([signed], "Friday is free."), shared, timeout=PATIENT) as running:
        await running.user("is friday free?")
        session_id = running.session.id
    kept = [item for item in await shared.history(session_id) if isinstance(item, FunctionCall)]
    assert [item.extra for item in kept] == [signed.extra]
    second = harness(ScriptedLLM("Bye."), shared, timeout=PATIENT)
    second.resume_from = await shared.snapshot(session_id)
    async with second as running:
        await running.user("thanks")
    sent = [item for item in running.llm.requests[0].context if isinstance(item, FunctionCall)]
    assert [item.extra for item in sent] == [signed.extra]


# --- reasoning events


def test_events_of_a_turn_belong_to_its_reply_and_others_wait_for_the_link() -> None:
    async def scenario(harness: SessionHarness) -> None:
        memory = harness.session.memory
        assert await memory.link_pending_reasoning_events() == 0
        await memory.save_reasoning_event("task_list_update", {"thought": "plan"})
        assert await memory.link_pending_reasoning_events() == 0, "there is no reply yet"
        await harness.user("is friday free?")
        reply = (await memory.get_chat_history())[-1]
        events = await memory.get_reasoning_events()
        assert told(events)[:2] == [("task_list_update", "plan"), ("reasoning_step", "is friday free?")]
        assert [event.reply_id for event in events] == ["", reply.id, reply.id, reply.id]
        assert [event.payload for event in events[2:]] == [
            {"call_id": events[2].payload["call_id"], "name": "look", "arguments": '{"day": "friday"}'},
            {"call_id": events[2].payload["call_id"], "name": "look", "output": "free", "is_error": False},
        ]
        assert await memory.link_pending_reasoning_events() == 1
        assert await memory.link_pending_reasoning_events() == 0
        assert {event.reply_id for event in await memory.get_reasoning_events()} == {reply.id}
        assert await memory.get_reasoning_events(events[0].at) == [
            event for event in await memory.get_reasoning_events() if event.at <= events[0].at
        ]

        await memory.save_reasoning_event("reasoning_step", {"thought": "later"})
        await harness.user("thanks")
        assert await memory.link_pending_reasoning_events() == 1
        newest = (await memory.get_chat_history())[-1]
        assert [event.reply_id for event in await memory.get_reasoning_events()][-1] == newest.id

    SessionHarness(Desk(), calls_look()).run(scenario)


def test_while_the_store_is_down_the_calls_raise_and_own_heard_text_is_still_there() -> None:
    store = ScriptedStore()

    async def scenario(harness: SessionHarness) -> None:
        memory = harness.session.memory
        await harness.user("hello")
        store.is_down = True
        with pytest.raises(StoreUnavailable):
            await memory.save_reasoning_event("reasoning_step", {})
        assert len(await memory.get_chat_history()) == 2
        store.is_down = False

    harness(ScriptedLLM(default="Fine."), store).run(scenario)


# --- the store


async def written(store: SessionStore, session_id: str, *items: ChatMessage) -> None:
    """Write items to the history of a session, as a session does."""
    await store.write_many(Place(session_id, HISTORY), {item.id: item_text(item, images=True) for item in items})


async def test_a_store_returns_the_items_of_a_session_in_order_and_twice_is_once(shared: SessionStore) -> None:
    first = ChatMessage(role="user", content="héllo", id="m1", sequence=1)
    second = ChatMessage(role="assistant", content="Fine.", id="m2", sequence=2)
    edited = ChatMessage(role="user", content="hello", id="m1", sequence=1)
    for _ in range(2):
        await written(shared, "call", second, first)
        await written(shared, "call", edited)
    assert (await shared.history("call")).items == (edited, second)
    assert (await shared.history("other")).items == ()


@pytest.mark.parametrize("read", ["history", "snapshot"])
@pytest.mark.parametrize("session_id", ["", None, 7])
async def test_something_else_than_the_id_of_a_session_is_refused(read: str, session_id: Any) -> None:
    with pytest.raises(ConfigurationError, match="need session_id as the id of a session"):
        await getattr(in_process(), read)(session_id)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(conversations)
def test_law_any_conversation_comes_back_as_it_was(tmp_path: Path, items: list[ChatItem]) -> None:
    items = [replace(item, sequence=number, created_at=1e9) for number, item in enumerate(items, start=1)]
    session_id = new_id("session")

    async def round_trip() -> ChatContext:
        store = SqliteStore(tmp_path / "calls.db")
        texts = {item.id: item_text(item, images=True) for item in items}
        await store.write_many(Place(session_id, HISTORY), texts)
        try:
            return await store.history(session_id)
        finally:
            await store.aclose()

    assert anyio.run(round_trip) == ChatContext(items)


async def test_an_item_that_is_too_long_is_kept_without_its_pictures_or_refused() -> None:
    seen = ChatMessage(role="user", content="look", id="m1", images=(VideoFrame(bytes(MAX_BYTES), "image/png"),))
    store = InProcessStore()
    await written(store, "call", seen)
    assert (await store.history("call")).items == (replace(seen, images=()),)
    with pytest.raises(StoreValueError, match="must fit in"):
        item_text(replace(seen, content="x" * MAX_BYTES), images=True)


@pytest.mark.parametrize("images", [True, False])
def test_pictures_are_kept_only_on_request(images: bool) -> None:
    store, picture = in_process(), VideoFrame(b"\x00\xff", "image/png")

    async def scenario(harness: SessionHarness) -> None:
        harness.session.history.add_message("user", "look", images=(picture,))

    options = SessionOptions(memory=MemoryOptions(store=store, images=images))
    made = SessionHarness(Agent("Help."), options=options).run(scenario)
    (kept,) = anyio.run(store.history, made.session.id).messages()
    assert kept.images == ((picture,) if images else ())


def test_text_that_is_too_long_for_the_store_costs_the_session_that_item_only_and_is_counted() -> None:
    store = in_process()

    async def scenario(harness: SessionHarness) -> None:
        harness.session.history.add_message("system", "x" * MAX_BYTES)
        await harness.user("hello")

    made = harness(ScriptedLLM(default="Fine."), store).expects_error("memory").run(scenario)
    assert made.close_report is not None
    assert made.close_report.lost_writes == 1
    kept = anyio.run(store.history, made.session.id)
    assert [message.content for message in kept.messages()] == ["hello", "Fine."]


@pytest.mark.parametrize("table", ["history_items", "checkpoints"])
async def test_a_file_of_version_0_1_is_refused_and_left_as_it_is(table: str, tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"CREATE TABLE {table} (session_id TEXT)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match=f"the table '{table}'; .* of vivavoce 0.1, are not read any more"):
        await SqliteStore(path).history("call")
    assert path.read_bytes() == before


def test_a_resumed_session_continues_the_history_of_its_memory() -> None:
    store, snapshots = in_process(), list[Any]()

    async def first(harness: SessionHarness) -> None:
        await harness.user("is friday free?")
        snapshots.append(harness.session.snapshot())

    async def second(harness: SessionHarness) -> None:
        await harness.user("thanks")
        memory = harness.session.memory
        assert memory.id == snapshots[0]["extensions"]["memory"]["id"] != harness.session.id
        chat = await memory.get_chat_history()
        assert [message.content for message in chat] == ["is friday free?", "Friday is free.", "thanks", "Bye."]
        assert len(await memory.get_reasoning_events()) == 3
        await anyio.sleep(1.0)
        async with SessionMemory.attach(store, memory.id) as attached:
            assert await attached.get_chat_history() == chat

    harness(calls_look(), store).run(first)
    resumed = harness(ScriptedLLM("Bye."), store)
    resumed.resume_from = snapshots[0]
    resumed.run(second)

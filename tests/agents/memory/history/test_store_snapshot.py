"""`store.snapshot(id)`: another session goes on with a conversation that a store has kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest

from kit.memory import ScriptedStore
from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.budget import BudgetOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import SessionStore, StoreError, StoreUnavailable
from vivavoce.agents.memory.history.stored_items import HEAD, SNAPSHOT, whole_snapshot
from vivavoce.agents.memory.stores.store import Place
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import VideoFrame


class Desk(Agent):
    """Greets who begins a call."""

    def __init__(self) -> None:
        super().__init__("Help.", id="desk")

    async def on_enter(self) -> None:
        await self.session.say("Hello.")


def virtual(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


def call_of(
    store: SessionStore, *, id: str | None = "call", resume_from: Any = None, userdata: object = None, **memory: Any
) -> SessionHarness:
    options = SessionOptions(memory=MemoryOptions(store=store, **memory), budget=BudgetOptions())
    harness = SessionHarness(Desk(), ScriptedLLM(default="Fine."), options=options, id=id, userdata=userdata)
    harness.resume_from = resume_from
    return harness


def words(harness: SessionHarness) -> list[str]:
    return [message.content for message in harness.session.history.messages()]


@virtual
async def test_the_snapshot_of_a_call_that_is_over_is_what_its_session_gives() -> None:
    store = ScriptedStore()
    async with call_of(store, userdata={"table": 7}, images=True) as call:
        await call.session.memory.data.set("day", "friday")
        call.session.memory.private.set("step", 3)
        call.session.history.add_message("user", "look", images=(VideoFrame(b"\x00\xff", "image/png"),))
        await call.user("hello")
        call.session.history.remove(call.session.history.messages()[0])
    kept = await store.snapshot("call")
    assert kept == json.loads(json.dumps(call.session.snapshot()))
    assert kept["userdata"] == {"table": 7}
    assert set(kept["extensions"]) == {"memory", "budget"}


@virtual
async def test_a_session_goes_on_with_it_and_keeps_the_same_history() -> None:
    store = ScriptedStore()
    async with call_of(store, userdata={"table": 7}) as first:
        await first.user("hello")
        first.session.memory.private.set("step", 3)
    await anyio.sleep(1.0)
    async with call_of(store, id=None, resume_from=await store.snapshot("call")) as second:
        assert second.session.userdata == {"table": 7}
        assert second.session.memory.private.get("step") == 3
        await second.user("and now?")
        assert words(second) == ["Hello.", "hello", "Fine.", "and now?", "Fine."]
    assert [item.id for item in await store.history("call")] == [item.id for item in second.session.history.items]
    assert (await store.snapshot("call"))["counters"]["turns"] == 2
    await anyio.sleep(1.0)
    async with call_of(store) as third:
        await third.user("hi")
        assert words(third) == ["Hello.", "hi", "Fine."], "a session with the same id begins a new call"
    assert len(await store.history("call")) == 8
    assert len((await store.snapshot("call"))["history"]["items"]) == 3, "of the newest call"


@virtual
async def test_after_a_crash_it_is_the_conversation_after_the_last_turn() -> None:
    own = ScriptedStore()
    store = copy.copy(own)  # the same data; only the first one goes down, with its process
    async with call_of(own) as call:
        call.expects_error("memory")
        await anyio.sleep(1.0)
        assert len((await store.snapshot("call"))["history"]["items"]) == 1, "after on_enter"
        await call.user("hello")
        await anyio.sleep(1.0)
        own.is_down = True
        await call.user("lost?")
        kept = await store.snapshot("call")
    assert [item["content"] for item in kept["history"]["items"]] == ["Hello.", "hello", "Fine."]
    async with call_of(store, id=None, resume_from=kept) as second:
        assert second.session.memory.id == "call"
        await second.user("again?")
        assert words(second) == ["Hello.", "hello", "Fine.", "again?", "Fine."]


@virtual
async def test_a_later_call_whose_start_fails_leaves_the_snapshot_alone() -> None:
    class Broken(Desk):
        async def on_enter(self) -> None:
            raise RuntimeError("no greeting today")

    store = ScriptedStore()
    async with call_of(store) as call:
        await call.user("hello")
    kept = await store.snapshot("call")
    options = SessionOptions(memory=MemoryOptions(store=store), clock=VirtualClock())
    session = AgentSession(Broken(), call_of(store).pipeline, options=options, id="call")
    with pytest.raises(RuntimeError, match="no greeting today"):
        await session.start(LocalTransport(VirtualClock()))
    assert await store.snapshot("call") == kept


@virtual
async def test_in_an_outage_it_waits_for_the_store_and_reports_nothing_of_its_own() -> None:
    store = ScriptedStore()
    errors: list[ErrorOccurred] = []
    async with call_of(store) as call:
        call.expects_error("memory")
        call.session.on("error", errors.append)
        await anyio.sleep(1.0)
        store.is_full = True
        await call.user("hello")
        await anyio.sleep(20.0)
        store.is_full = False
        await anyio.sleep(40.0)
        assert len((await store.snapshot("call"))["history"]["items"]) == 3
    assert [(error.source, error.is_recovered) for error in errors] == [("memory", True)]
    assert call.close_report is not None
    assert call.close_report.lost_writes == 0


@virtual
async def test_the_store_keeps_each_word_once() -> None:
    store = ScriptedStore()
    async with call_of(store) as call:
        await call.user("hunter2")
    text = await store.read(Place("call", SNAPSHOT), HEAD)
    assert text is not None
    assert "hunter2" not in text
    entries = store.namespaces("call")
    assert SNAPSHOT not in call.session.snapshot()["extensions"]["memory"]["namespaces"]
    assert set(entries[SNAPSHOT]) == {HEAD}


@virtual
async def test_a_session_without_one_is_refused_with_the_reason() -> None:
    store = ScriptedStore()
    with pytest.raises(StoreError, match=r"the store has no session 'call'; store\.sessions\(\) lists them"):
        await store.snapshot("call")
    with pytest.raises(ConfigurationError, match="need session_id as the id of a session, got ''"):
        await store.snapshot("")
    await store.write(Place("call", "metadata"), "created_date", '"2026-01-01"')
    with pytest.raises(StoreError, match="has no snapshot yet; the first one comes after its `on_enter`"):
        await store.snapshot("call")
    async with call_of(store, userdata={"socket": object()}) as call:
        await call.user("hello")
    assert call.close_report is not None
    assert call.close_report.is_clean
    with pytest.raises(StoreError, match=r"has no snapshot: userdata\['socket'\] must be JSON data"):
        await store.snapshot("call")
    store.is_down = True
    with pytest.raises(StoreUnavailable):
        await store.snapshot("call")
    store.is_down, store.hangs = False, True
    for read in (store.snapshot, store.history):
        with pytest.raises(StoreUnavailable, match="within 10 s"):
            await read("call")


def test_a_turn_whose_words_the_store_did_not_get_is_not_answered() -> None:
    said = {"id": "m1", "role": "user", "turn_id": "turn_1"}
    head = {"history": ["m1", "m2"], "open": {"turn_id": "turn_2", "calls": []}}
    found = whole_snapshot(json.dumps(head), {"m1": json.dumps(said)})
    assert found["history"]["items"] == [said]
    assert found["open"] == {"turn_id": "", "calls": []}
    head["open"] = {"turn_id": "turn_1", "calls": []}
    assert whole_snapshot(json.dumps(head), {"m1": json.dumps(said)})["open"] == head["open"]

"""A session whose conversation is kept for a crash, at each commit and after each turn, although a store fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from kit.keeping import Keeping
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport


def call(
    test: Callable[[Keeping, AgentSession[Any], LocalTransport], Awaitable[None]], *, userdata: Any = None
) -> None:
    """Run `test` in a call that is kept; the agent answers every turn with "Fine."."""

    async def main() -> None:
        clock, keeping = VirtualClock(), Keeping()
        agent = Agent("Be brief.")
        pipeline = SessionHarness(agent, ScriptedLLM(default="Fine.")).pipeline
        session = AgentSession(agent, pipeline, userdata=userdata, options=SessionOptions(clock=clock))
        room = LocalTransport(clock)
        with watch_scope(keeping):
            await session.start(room)
        await anyio.sleep(0.1)
        await test(keeping, session, room)
        await session.close()

    run_virtual(main())


def test_the_values_of_the_sessions_memory_are_kept_with_the_conversation() -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        assert [one["extensions"] for one in keeping.kept] == [{}]
        session.memory.private.set("visits", 3)
        await session.memory.data.set("order", {"size": 2})
        room.send_text("a table")
        await anyio.sleep(5.0)
        memory = keeping.kept[-1]["extensions"]["memory"]
        assert (memory["id"], memory["private"]) == (session.id, {"visits": 3})
        assert memory["namespaces"]["data"] == {"order": {"size": 2}}

    call(test)


def test_the_conversation_is_kept_from_the_start_at_each_commit_and_after_each_turn() -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        assert keeping.said == [[]]
        room.send_text("a table")
        await anyio.sleep(5.0)
        room.send_text("at seven")
        await anyio.sleep(5.0)
        first, second = ["a table", "Fine."], ["at seven", "Fine."]
        assert keeping.said[1:] == [first[:1], first, first + second[:1], first + second]
        assert keeping.kept[-1] == json.loads(json.dumps(session.snapshot()))

    call(test)


def test_a_store_that_fails_is_one_error_event_and_one_line_and_the_next_turn_tries_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        errors: list[ErrorOccurred] = []
        session.on(ErrorOccurred, errors.append)
        keeping.error = OSError("database or disk is full")
        for _ in range(3):
            room.send_text("a table")
            await anyio.sleep(5.0)
        assert keeping.tries == 7
        assert [(error.source, error.is_recovered) for error in errors] == [("checkpoint", True)]
        assert "disk is full" in str(errors[0].error)
        keeping.error = None
        room.send_text("at seven")
        await anyio.sleep(5.0)
        assert keeping.said[-1][-2:] == ["at seven", "Fine."]
        keeping.error = OSError("full again")
        room.send_text("goodbye")
        await anyio.sleep(5.0)
        assert len(errors) == 2

    caplog.set_level(logging.ERROR)
    call(test)
    assert len(caplog.records) == 2
    assert "is not kept for a crash, the next turn tries again" in caplog.text


def test_a_slow_store_gets_the_newest_state_only_and_holds_up_no_turn() -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        keeping.delay = 9.0
        for text in ("one", "two", "three", "four"):
            room.send_text(text)
            await anyio.sleep(2.0)
        assert len(session.turns) == 4
        await anyio.sleep(30.0)
        assert [len(said) for said in keeping.said] == [0, 1, 8]

    call(test)


def test_a_store_that_hangs_is_left_after_its_limit() -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        errors: list[ErrorOccurred] = []
        session.on(ErrorOccurred, errors.append)
        keeping.delay = 1000.0
        room.send_text("one")
        await anyio.sleep(20.0)
        assert ["has not written within 0.1 s" in str(error.error) for error in errors] == [True]
        keeping.delay = 0.0
        room.send_text("two")
        await anyio.sleep(5.0)
        assert keeping.said[-1] == ["one", "Fine.", "two", "Fine."]

    call(test)


def test_userdata_that_cannot_be_json_is_an_error_event_and_the_call_goes_on() -> None:
    async def test(keeping: Keeping, session: AgentSession[Any], room: LocalTransport) -> None:
        errors: list[ErrorOccurred] = []
        session.on(ErrorOccurred, errors.append)
        session.userdata = {"socket": object()}
        room.send_text("one")
        await anyio.sleep(5.0)
        assert "userdata['socket'] must be JSON data" in str(errors[0].error)
        assert session.turns[-1].outcome == "completed"

    call(test, userdata={})


def test_a_session_without_a_job_keeps_nothing() -> None:
    async def main() -> None:
        agent = Agent("Be brief.")
        session: AgentSession[Any] = AgentSession(agent, SessionHarness(agent, ScriptedLLM(default="Fine.")).pipeline)
        await session.start(LocalTransport(VirtualClock()))
        await session.close()

    run_virtual(main())

"""examples/realtime_agent.py against the scripted realtime server: a greeting, a tool, an answer, a lost connection."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents import AgentSession
from vivavoce.agents.events import ConnectionReplaced, TurnCompleted
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.testing.realtime_server import ScriptedAnswer, ScriptedCall, ScriptedRealtimeServer

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "realtime_agent.py"))
LIMIT = 60.0


async def test_the_host_greets_books_a_table_and_goes_on_after_a_lost_connection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with ScriptedRealtimeServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("REALTIME_MODEL", "scripted")
        call = ScriptedCall(name="book", arguments='{"day": "friday"}')
        server.answers("Hello", ScriptedAnswer(calls=(call,)), "Booked", "Bye")
        session: AgentSession[None] = EXAMPLE["make_session"]()
        turns: asyncio.Queue[TurnCompleted] = asyncio.Queue()
        replaced = asyncio.Event()
        session.on(TurnCompleted, turns.put_nowait)
        session.on(ConnectionReplaced, lambda _: replaced.set())
        async with asyncio.timeout(LIMIT):
            await session.start(LocalTransport(LoopClock()))
            await turns.get()
            session.input.text("on friday")
            await turns.get()
            server.connection.abort()
            await replaced.wait()
            session.input.text("thanks")
            last = await turns.get()
        await session.close()

    assert last.record.outcome == "completed"
    assert [(message.role, message.content) for message in session.history.messages()] == [
        ("assistant", "Hello"),
        ("user", "on friday"),
        ("assistant", "Booked"),
        ("user", "thanks"),
        ("assistant", "Bye"),
    ]
    assert len(server.connections) == 2
    assert "a new connection (lost)" in capsys.readouterr().out

"""The websocket of a connection ends with it, also if its close is cut or takes too long."""

from __future__ import annotations

import asyncio

import anyio
import anyio.lowlevel
import pytest

from vivavoce.pipelines.net import sockets
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer
from vivavoce.plugins import openai

STEPS = 100
"""Steps of the loop in which both ends of a connection learn that it is cut."""


async def test_a_close_that_is_cut_leaves_no_connection_open() -> None:
    async with ScriptedRealtimeServer() as server, openai.RealtimeModel(model="m", base_url=server.url) as model:
        before = asyncio.all_tasks()
        connection = await model.open(RealtimeSetup())
        with anyio.CancelScope() as cut:
            cut.cancel()
            await connection.aclose()
        for _ in range(STEPS):
            await anyio.lowlevel.checkpoint()
        assert asyncio.all_tasks() == before  # the server's tasks for the connection are gone too


async def test_a_close_that_takes_too_long_ends_the_websocket_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedRealtimeServer() as server, openai.RealtimeModel(model="m", base_url=server.url) as model:
        before = asyncio.all_tasks()
        connection = await model.open(RealtimeSetup())
        monkeypatch.setattr(sockets, "CLOSE_LIMIT", 0.0)  # it is over before the server can answer
        await connection.aclose()
        for _ in range(STEPS):
            await anyio.lowlevel.checkpoint()
        assert asyncio.all_tasks() == before

"""examples/realtime_websocket.py: it keeps the promises of the port against a server that speaks its protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import runpy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderProtocolError
from vivavoce.pipelines.llm.base import Done, GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeConnection, RealtimeSetup
from vivavoce.pipelines.testing import check_failure, check_realtime_model
from vivavoce.pipelines.testing.realtime_server.script import tone

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "realtime_websocket.py"))
SpeechModel = EXAMPLE["SpeechModel"]
HELLO = GenerateRequest(context=ChatContext(), instructions="Be brief.")
LOCAL = RealtimeSetup(turn_detection="local", history=ChatContext((ChatMessage(role="user", content="Hello"),)))


class SpeechServer:
    """The service: answers "One two three four", word by word, to every request."""

    def __init__(self) -> None:
        self.url = ""
        self.received: list[dict[str, Any]] = []
        self.socket: web.WebSocketResponse | None = None
        self.changed = asyncio.Event()

    async def serve(self, request: web.Request) -> web.WebSocketResponse:
        """Serve one client."""
        self.socket = socket = web.WebSocketResponse()
        await socket.prepare(request)
        answers: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            async for frame in socket:
                message = json.loads(frame.data)
                self.received.append(message)
                self.changed.set()
                if message["type"] == "commit":
                    await socket.send_json({"type": "committed", "item": f"item_{len(self.received)}"})
                elif message["type"] in ("answer", "say"):
                    answers[message["id"]] = tasks.create_task(self.answer(message["id"]))
                elif message["type"] == "cancel":
                    answers[message["id"]].cancel()
            for task in answers.values():
                task.cancel()
        return socket

    async def answer(self, answer_id: str) -> None:
        """Say it."""
        assert self.socket is not None
        for word in ("One", " two", " three", " four"):
            await anyio.sleep(0.01)
            piece = {"id": answer_id, "item": f"item_of_{answer_id}"}
            await self.socket.send_json({"type": "text", "text": word, **piece})
            pcm = base64.b64encode(tone(0.1)).decode()
            await self.socket.send_json({"type": "audio", "pcm": pcm, **piece})
        await self.socket.send_json({"type": "done", "id": answer_id})


@pytest.fixture
async def server() -> AsyncIterator[SpeechServer]:
    running = SpeechServer()
    app = web.Application()
    app.router.add_get("/", running.serve)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        running.url = f"ws://127.0.0.1:{runner.addresses[0][1]}/"
        yield running
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(server: SpeechServer) -> AsyncIterator[RealtimeConnection]:
    connection = await SpeechModel(server.url).open(LOCAL)
    try:
        yield connection
    finally:
        await connection.aclose()


async def test_it_keeps_the_promises_of_a_realtime_model(server: SpeechServer) -> None:
    await check_realtime_model(lambda: SpeechModel(server.url), HELLO, AudioFrame(tone(0.3), 24000), limit=LIMIT)

    assert server.received[0]["past"] == [["user", "My name is Ada."], ["assistant", "Hello Ada, how can I"]]
    assert "cancel" in {message["type"] for message in server.received}


async def test_an_answer_has_its_words_its_sound_and_its_end(server: SpeechServer) -> None:
    async with connected(server) as connection:
        answer = [item async for item in connection.generate(HELLO)]

    assert "".join(item.text for item in answer if isinstance(item, TextDelta)) == "One two three four"
    assert answer[-1] == Done()


@pytest.mark.parametrize(("frame", "error"), [("", ProviderConnectionError), ("{", ProviderProtocolError)])
async def test_a_lost_or_broken_connection_ends_the_answer_and_the_events(
    server: SpeechServer, frame: str, error: type[Exception]
) -> None:
    async with connected(server) as connection:
        answer = connection.generate(HELLO)
        await anext(answer)
        assert server.socket is not None
        if frame:
            await server.socket.send_str(frame)
        else:
            await server.socket.close()
        with pytest.raises(error):
            [item async for item in answer]
        with pytest.raises(error):
            [event async for event in connection.events()]


async def test_nobody_listening_is_a_connection_error() -> None:
    await check_failure(lambda: SpeechModel("ws://127.0.0.1:1/").open(LOCAL))

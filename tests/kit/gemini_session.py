"""A connection of google.RealtimeModel to the scripted server, and what it reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from kit.limits import LIMIT
from kit.servers.scripted_gemini import ScriptedGemini
from vivavoce.pipelines.core.errors import (
    ProviderError,
)
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import function_tool
from vivavoce.pipelines.realtime_model.base import (
    RealtimeConnection,
    RealtimeEvent,
    RealtimeSetup,
)
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins import google

E = TypeVar("E")


@function_tool
def weather(city: str) -> str:
    """Tell the weather."""
    return f"cold in {city}"


ASKING = GenerateRequest(context=ChatContext(), instructions="Be brief.", tools=(weather,))
CALL = {"id": "c1", "name": "weather", "args": {"city": "Oslo"}}


class Session:
    """An open connection with its reports."""

    def __init__(self, connection: RealtimeConnection) -> None:
        self.connection = connection
        self.events: list[RealtimeEvent] = []
        self.error: ProviderError | None = None
        self._changed = anyio.Event()

    async def listen(self) -> None:
        try:
            async for event in self.connection.events():
                self.events.append(event)
                self._changed.set()
                self._changed = anyio.Event()
        except ProviderError as error:
            self.error = error
            self._changed.set()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    async def until(self, holds: Callable[[], object]) -> None:
        with anyio.fail_after(LIMIT):
            while not holds():
                await self._changed.wait()

    async def answer(self, request: GenerateRequest = ASKING) -> list[LLMEvent | AudioChunk]:
        with anyio.fail_after(LIMIT):
            return [item async for item in self.connection.generate(request)]


def model(server: ScriptedGemini, name: str = "m", **options: Any) -> google.RealtimeModel:
    chosen = google.RealtimeOptions(ssl_context=server.trust, connect_timeout=LIMIT, **options)
    return google.RealtimeModel(model=name, api_key="secret", base_url=server.url, options=chosen)


WAITS = "gemini-3.1-flash-live-preview"
"""A model that waits for the outputs of its calls."""
LOCAL = RealtimeSetup(instructions="Be brief.", tools=(weather,), turn_detection="local")
REMOTE = RealtimeSetup()


@asynccontextmanager
async def session(server: ScriptedGemini, setup: RealtimeSetup = LOCAL, **options: Any) -> AsyncIterator[Session]:
    async with model(server, **options) as one:
        opened = Session(await one.open(setup))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(opened.listen)
                yield opened
                await opened.connection.aclose()
        finally:
            await opened.connection.aclose()


def words(answer: list[LLMEvent | AudioChunk]) -> str:
    return "".join(item.text for item in answer if isinstance(item, TextDelta))

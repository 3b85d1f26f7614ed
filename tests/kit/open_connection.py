"""An open connection of a realtime model, and what it reports: for the tests of the plugins' wires."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model.base import RealtimeConnection, RealtimeEvent, RealtimeModel, RealtimeSetup
from vivavoce.pipelines.testing.realtime_server.script import tone
from vivavoce.pipelines.tts.base import AudioChunk

E = TypeVar("E")


class Session:
    """An open connection with its reports.

    Args:
        asking: The request of `answer()`, unless it is given another one.
    """

    def __init__(self, connection: RealtimeConnection, asking: GenerateRequest) -> None:
        self.connection = connection
        self.events: list[RealtimeEvent] = []
        self.error: ProviderError | None = None
        self._asking = asking
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

    def speak(self, seconds: float, *, is_silent: bool = False) -> None:
        pcm = bytes(round(seconds * 24000) * 2) if is_silent else tone(seconds)
        for at in range(0, len(pcm), 960):
            self.connection.push(AudioFrame(pcm[at : at + 960], 24000))

    async def answer(self, request: GenerateRequest | None = None) -> list[LLMEvent | AudioChunk]:
        with anyio.fail_after(LIMIT):
            return [item async for item in self.connection.generate(request or self._asking)]


@asynccontextmanager
async def opened_by(model: RealtimeModel, setup: RealtimeSetup, asking: GenerateRequest) -> AsyncIterator[Session]:
    """Open a connection of the model, and close both behind the block."""
    async with model:
        opened = Session(await model.open(setup), asking)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(opened.listen)
                yield opened
                await opened.connection.aclose()
        finally:
            await opened.connection.aclose()


def words(answer: list[LLMEvent | AudioChunk]) -> str:
    """Return the text of an answer."""
    return "".join(item.text for item in answer if isinstance(item, TextDelta))

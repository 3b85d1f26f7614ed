"""The parts of Azure Speech, for the fault suite."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio

from kit.net_users import LOW, Line, SocketUser, limits
from kit.servers.faulty_server import LIMIT, Message
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.plugins import azure
from vivavoce.plugins.azure.wire import binary_frame, read_frame, text_frame

PHRASE = {"RecognitionStatus": "Success", "DisplayText": "so", "Offset": 0, "Duration": 10_000_000, "NBest": []}


class AzureSTT(SocketUser):
    """The recogniser, which makes no further try, so that a loss shows."""

    name = "azure.STT"
    drops = False
    good = text_frame("speech.phrase", json.dumps(PHRASE))

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = azure.STTOptions(connection=limits(limit), reopening=ReopeningOptions(waits=()))
        async with azure.STT(base_url=url, api_key=key, options=options) as stt:
            stream = await stt.open()
            try:
                yield Line(lambda: stream.push(LOW), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class AzureTTS(SocketUser):
    """A voice that takes text as it comes, in the middle of a text."""

    name = "azure.TTS"
    good = b""
    sends_audio = False

    def __init__(self) -> None:
        self._asked = anyio.Event()

    def answer(self, message: Message) -> Iterable[Message]:
        frame = read_frame(message, Failures(provider="test"))
        if frame.path == "text.piece":
            self.good = binary_frame("audio", b"\x01\x00\x02\x00", request=frame.request)
            self._asked.set()
        return ()

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        texts: Feed[str] = Feed()
        events: Feed[object] = Feed()
        errors: list[ProviderError] = []
        self._asked = anyio.Event()

        async def speak() -> None:
            try:
                async for chunk in voice.stream(texts.items()):
                    events.put(chunk)
            except ProviderError as error:
                errors.append(error)
                self._asked.set()
            events.end(*errors)

        async def close() -> None:
            tasks.cancel_scope.cancel()

        options = azure.TTSOptions(connection=limits(limit))
        address = f"{url}/tts/cognitiveservices/websocket/v2"
        async with azure.TTS(base_url=address, api_key=key, options=options) as voice:
            async with anyio.create_task_group() as tasks:
                texts.put("Hello there. ")
                tasks.start_soon(speak)
                with anyio.fail_after(LIMIT):
                    await self._asked.wait()
                failed = list(errors)
                if not failed:
                    yield Line(lambda: texts.put("How are you? "), events.items(), close)
                tasks.cancel_scope.cancel()
        if failed:
            raise failed[0]

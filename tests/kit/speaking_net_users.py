"""The voices that speak over a websocket, for the fault suite: each in the middle of a text."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import anyio

from kit.net_users import Line, SocketUser, limits
from kit.servers.faulty_server import LIMIT, Message
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import TTS
from vivavoce.plugins import cartesia, deepgram, elevenlabs


class SpeakingUser(SocketUser):
    """A voice that streams text."""

    sends_audio = False

    def __init__(self) -> None:
        self._asked = anyio.Event()

    @abstractmethod
    def make(self, url: str, key: str, connection: ConnectionOptions) -> TTS:
        """Return the voice."""

    def answer(self, message: Message) -> Iterable[Message]:
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

        async with self.make(url, key, limits(limit)) as voice:
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


class ContextsUser(SpeakingUser):
    """A voice whose answers are contexts of one websocket."""

    good = ""

    @abstractmethod
    def audio(self, context: str) -> dict[str, object]:
        """Return a message with audio."""

    def answer(self, message: Message) -> Iterable[Message]:
        self.good = json.dumps(self.audio(json.loads(message)["context_id"]))
        return super().answer(message)


class CartesiaTTS(ContextsUser):
    """A voice of Cartesia."""

    name = "cartesia.TTS"

    def make(self, url: str, key: str, connection: ConnectionOptions) -> TTS:
        return cartesia.TTS(base_url=url, api_key=key, options=cartesia.TTSOptions(connection=connection))

    def audio(self, context: str) -> dict[str, object]:
        return {"type": "chunk", "context_id": context, "data": "AQACAA==", "done": False}


class ElevenLabsTTS(ContextsUser):
    """A voice of ElevenLabs."""

    name = "elevenlabs.TTS"

    def make(self, url: str, key: str, connection: ConnectionOptions) -> TTS:
        return elevenlabs.TTS(base_url=url, api_key=key, options=elevenlabs.TTSOptions(connection=connection))

    def audio(self, context: str) -> dict[str, object]:
        return {"contextId": context, "audio": "AQACAA=="}


class DeepgramFluxTTS(SpeakingUser):
    """A Flux voice of Deepgram."""

    name = "deepgram.FluxTTS"
    good = b"\x01\x00\x02\x00"

    def make(self, url: str, key: str, connection: ConnectionOptions) -> TTS:
        return deepgram.FluxTTS(base_url=url, api_key=key, options=deepgram.FluxTTSOptions(connection=connection))

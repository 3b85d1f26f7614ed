"""The recognisers whose stream is a reopening websocket, for the fault suite."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kit.net_users import LOW, Line, SocketUser, limits
from kit.servers.faulty_server import LIMIT
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.stt.base import STT
from vivavoce.plugins import cartesia, elevenlabs


class ListeningUser(SocketUser):
    """A recogniser that makes no further try, so that a loss shows."""

    drops = False

    @abstractmethod
    def make(self, url: str, key: str, connection: ConnectionOptions, reopening: ReopeningOptions) -> STT:
        """Return the recogniser."""

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        async with self.make(url, key, limits(limit), ReopeningOptions(waits=())) as stt:
            stream = await stt.open()
            try:
                yield Line(lambda: stream.push(LOW), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class CartesiaTurns(ListeningUser):
    """ink-2 of Cartesia, which decides turns."""

    name = "cartesia.STT turns"
    good = json.dumps({"type": "turn.update", "transcript": "so"})

    def make(self, url: str, key: str, connection: ConnectionOptions, reopening: ReopeningOptions) -> STT:
        options = cartesia.STTOptions(connection=connection, reopening=reopening)
        return cartesia.STT(base_url=url, api_key=key, options=options)


class CartesiaInk(ListeningUser):
    """ink-whisper of Cartesia."""

    name = "cartesia.STT ink-whisper"
    good = json.dumps({"type": "transcript", "text": "so", "is_final": True, "words": []})

    def make(self, url: str, key: str, connection: ConnectionOptions, reopening: ReopeningOptions) -> STT:
        options = cartesia.STTOptions(connection=connection, reopening=reopening)
        return cartesia.STT("ink-whisper", base_url=url, api_key=key, options=options)


class ElevenLabsScribe(ListeningUser):
    """The realtime recogniser of ElevenLabs."""

    name = "elevenlabs.STT"
    greeting = (json.dumps({"message_type": "session_started", "session_id": "s", "config": {}}),)
    good = json.dumps({"message_type": "partial_transcript", "text": "so"})

    def make(self, url: str, key: str, connection: ConnectionOptions, reopening: ReopeningOptions) -> STT:
        options = elevenlabs.STTOptions(connection=connection, reopening=reopening)
        return elevenlabs.STT(base_url=url, api_key=key, options=options)

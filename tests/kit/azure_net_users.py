"""The parts of Azure Speech, for the fault suite."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from kit.net_users import LOW, Line, SocketUser, limits
from kit.servers.faulty_server import LIMIT, Message
from kit.speaking_net_users import SpeakingUser
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.tts.base import TTS
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


class AzureTTS(SpeakingUser):
    """A voice at the cloud's address."""

    name = "azure.TTS"
    good = b""

    def make(self, url: str, key: str, connection: ConnectionOptions) -> TTS:
        address = f"{url}/tts/cognitiveservices/websocket/v2"
        return azure.TTS(base_url=address, api_key=key, options=azure.TTSOptions(connection=connection))

    def answer(self, message: Message) -> Iterable[Message]:
        frame = read_frame(message, Failures(provider="test"))
        if frame.path == "text.piece":
            self.good = binary_frame("audio", b"\x01\x00\x02\x00", request=frame.request)
            super().answer(message)
        return ()

"""The providers that use the network, for the fault suite; what the suite asks of one is in `net_users`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from kit.azure_net_users import AzureSTT, AzureTTS
from kit.listening_net_users import CartesiaInk, CartesiaTurns, ElevenLabsScribe
from kit.net_users import (
    FRAME,
    LOW,
    Line,
    NetEvents,
    NetLines,
    NetReopeningSocket,
    NetSocket,
    RequestUser,
    SocketUser,
    limits,
)
from kit.servers.faulty_server import LIMIT, Body, Message
from kit.speaking_net_users import CartesiaTTS, DeepgramFluxTTS, ElevenLabsTTS
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.plugins import anthropic, assemblyai, deepgram, google, openai
from vivavoce.plugins.openai.options import Api

DELTA = {"type": "conversation.item.input_audio_transcription.delta", "item_id": "i", "delta": "so"}


class OpenAISocketUser(SocketUser):
    """Both users of OpenAI's realtime API."""

    good = json.dumps(DELTA)

    def answer(self, message: Message) -> Iterable[Message]:
        kind = json.loads(message)["type"]
        return [json.dumps({"type": "session.updated", "session": {}})] if kind == "session.update" else ()


class OpenAISTT(OpenAISocketUser):
    """The transcription model of OpenAI."""

    name = "openai.STT"

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = openai.STTOptions(connection=limits(limit), emits_interims=True)
        async with openai.STT(model="m", base_url=url, api_key=key, options=options) as stt:
            stream = await stt.open()
            stream.speech_started(0.0)
            try:
                yield Line(lambda: stream.push(FRAME), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class OpenAIRealtime(OpenAISocketUser):
    """The realtime model of OpenAI."""

    name = "openai.RealtimeModel"

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = openai.RealtimeOptions(connection=limits(limit))
        async with openai.RealtimeModel(model="m", base_url=url, api_key=key, options=options) as model:
            connection = await model.open(RealtimeSetup())
            try:
                yield Line(lambda: connection.push(FRAME), connection.events(), connection.aclose)
            finally:
                await connection.aclose()


class DeepgramSTT(SocketUser):
    """A Nova recogniser of Deepgram, which makes no further try, so that a loss shows."""

    name = "deepgram.STT"
    drops = False
    good = json.dumps(
        {
            "type": "Results",
            "start": 0.0,
            "duration": 1.0,
            "is_final": True,
            "speech_final": True,
            "channel": {"alternatives": [{"transcript": "so", "confidence": 0.9, "words": []}]},
        }
    )

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = deepgram.STTOptions(connection=limits(limit), reopening=ReopeningOptions(waits=()))
        async with deepgram.STT(base_url=url, api_key=key, options=options) as stt:
            stream = await stt.open()
            try:
                yield Line(lambda: stream.push(LOW), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class DeepgramFlux(SocketUser):
    """A Flux recogniser of Deepgram, likewise."""

    name = "deepgram.FluxSTT"
    drops = False
    good = json.dumps(
        {
            "type": "TurnInfo",
            "event": "Update",
            "turn_index": 0,
            "audio_window_start": 0.0,
            "audio_window_end": 1.0,
            "transcript": "so",
            "words": [],
            "end_of_turn_confidence": 0.1,
        }
    )

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = deepgram.FluxOptions(connection=limits(limit), reopening=ReopeningOptions(waits=()))
        async with deepgram.FluxSTT(base_url=url, api_key=key, options=options) as stt:
            stream = await stt.open()
            frame = AudioFrame.silence(0.08, LOW.sample_rate)  # one message
            try:
                yield Line(lambda: stream.push(frame), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class AssemblyAISTT(SocketUser):
    """A recogniser of AssemblyAI, likewise."""

    name = "assemblyai.STT"
    drops = False
    greeting = (json.dumps({"type": "Begin", "id": "s", "expires_at": 0}),)
    good = json.dumps(
        {
            "type": "Turn",
            "turn_order": 0,
            "turn_is_formatted": False,
            "end_of_turn": False,
            "transcript": "so",
            "end_of_turn_confidence": 0.1,
            "words": [],
        }
    )

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = assemblyai.STTOptions(connection=limits(limit), reopening=ReopeningOptions(waits=()))
        async with assemblyai.STT(base_url=url, api_key=key, options=options) as stt:
            stream = await stt.open()
            frame = AudioFrame.silence(0.05, LOW.sample_rate)  # one message
            try:
                yield Line(lambda: stream.push(frame), stream.events(), stream.aclose)
            finally:
                await stream.aclose()


class GoogleRealtime(SocketUser):
    """Gemini Live, by Google's SDK and its websocket."""

    name = "google.RealtimeModel"
    good = json.dumps({"serverContent": {"inputTranscription": {"text": "so"}}})
    speaks_tls_only = True
    withholds = True
    has_sdk = True

    def answer(self, message: Message) -> Iterable[Message]:
        return [json.dumps({"setupComplete": {}})] if "setup" in json.loads(message) else ()

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        options = google.RealtimeOptions(connect_timeout=limit)
        async with google.RealtimeModel(model="m", base_url=url, api_key=key, options=options) as model:
            connection = await model.open(RealtimeSetup())
            try:
                yield Line(lambda: connection.push(LOW), connection.events(), connection.aclose)
            finally:
                await connection.aclose()


class OpenAILLM(RequestUser):
    """A language model of OpenAI."""

    broken = b"data: {\n\n"
    has_sdk = True

    def __init__(self, api: Api, good: Body) -> None:
        self.name = f"openai.LLM {api}"
        self.good = good
        self._api = api

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = openai.LLMOptions(connect_timeout=limit, read_timeout=limit)
        request = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))
        async with openai.LLM(model="m", base_url=url, api_key=key, api=self._api, options=options) as llm:
            return [item async for item in llm.generate(request)]


class AnthropicLLM(RequestUser):
    """A language model of Anthropic."""

    name = "anthropic.LLM"
    broken = b"data: {\n\n"

    def __init__(self, good: Body) -> None:
        self.good = good

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = anthropic.LLMOptions(connect_timeout=limit, read_timeout=limit)
        request = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))
        async with anthropic.LLM(model="m", base_url=url, api_key=key, options=options) as llm:
            return [item async for item in llm.generate(request)]


class GoogleLLM(RequestUser):
    """A Gemini model of Google."""

    name = "google.LLM"
    broken = b"data: {\n\n"

    def __init__(self, good: Body) -> None:
        self.good = good

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = google.LLMOptions(connect_timeout=limit, read_timeout=limit)
        request = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))
        async with google.LLM(base_url=url, api_key=key, options=options) as llm:
            return [item async for item in llm.generate(request)]


class OpenAITTS(RequestUser):
    """A voice of OpenAI."""

    name = "openai.TTS"
    good = Body((b"\x01\x02" * 100 + b"\x03", b"\x04" + b"\x05\x06" * 100), "audio/pcm")

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = openai.TTSOptions(connection=limits(limit))
        async with openai.TTS(model="m", base_url=url, api_key=key, options=options) as tts:
            return [chunk async for chunk in tts.synthesize("Hello there.")]


class OpenAIUpload(RequestUser):
    """A recogniser of OpenAI that uploads each utterance."""

    name = "openai.STT upload"
    good = Body((b'{"text": ', b'"Hello there."}'), "application/json")
    broken = b"{"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = openai.STTOptions(connection=limits(limit))
        async with openai.STT(model="m", base_url=url, api_key=key, api="upload", options=options) as stt:
            stream = await stt.open()
            try:
                stream.speech_started(0.0)
                stream.push(AudioFrame(b"\x00\x10" * 8000, 16000))
                stream.flush()
                async for event in stream.events():
                    return [event]
            finally:
                await stream.aclose()
        return []


class DeepgramTTS(RequestUser):
    """A voice of Deepgram."""

    name = "deepgram.TTS"
    good = OpenAITTS.good

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = deepgram.TTSOptions(connection=limits(limit))
        async with deepgram.TTS(base_url=url, api_key=key, options=options) as tts:
            return [chunk async for chunk in tts.synthesize("Hello there.")]


class OpenAIEmbedder(RequestUser):
    """An embedding model of OpenAI."""

    name = "openai.Embedder"
    good = Body((b'{"data": [{"index": 0, ', b'"embedding": [0.5, 1.0]}]}'), "application/json")
    broken = b"{"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        async with openai.Embedder("m", dimensions=2, base_url=url, api_key=key, options=limits(limit)) as embedder:
            return [*await embedder.embed(["Hello there."])]


def _events(*events: dict[str, object] | str) -> bytes:
    return b"".join(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n".encode() for event in events)


def _chunk(**choice: object) -> dict[str, object]:
    choices = [{"index": 0, "delta": {}, "finish_reason": None, **choice}]
    return {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": choices}


CHAT = Body(
    (_events(_chunk(delta={"content": "Hi"})), _events(_chunk(finish_reason="stop"), "[DONE]")), "text/event-stream"
)
RESPONSES = Body(
    (
        _events({"type": "response.output_text.delta", "output_index": 0, "delta": "Hi", "sequence_number": 0}),
        _events(
            {"type": "response.completed", "sequence_number": 1, "response": {"status": "completed", "output": []}}
        ),
    ),
    "text/event-stream",
)

MESSAGES = Body(
    (
        _events({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}),
        _events({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, {"type": "message_stop"}),
    ),
    "text/event-stream",
)

CANDIDATES = Body(
    (
        _events({"candidates": [{"content": {"parts": [{"text": "Hi"}]}}], "usageMetadata": {"promptTokenCount": 1}}),
        _events({"candidates": [{"finishReason": "STOP"}]}),
    ),
    "text/event-stream",
)

SOCKET_USERS: tuple[SocketUser, ...] = (
    NetSocket(),
    NetReopeningSocket(),
    OpenAISTT(),
    OpenAIRealtime(),
    DeepgramSTT(),
    DeepgramFlux(),
    AssemblyAISTT(),
    GoogleRealtime(),
    CartesiaTurns(),
    CartesiaInk(),
    CartesiaTTS(),
    AzureSTT(),
    AzureTTS(),
    DeepgramFluxTTS(),
    ElevenLabsScribe(),
    ElevenLabsTTS(),
)
REQUEST_USERS: tuple[RequestUser, ...] = (
    NetEvents(),
    NetLines(),
    OpenAILLM("chat", CHAT),
    OpenAILLM("responses", RESPONSES),
    AnthropicLLM(MESSAGES),
    GoogleLLM(CANDIDATES),
    OpenAITTS(),
    OpenAIUpload(),
    DeepgramTTS(),
    OpenAIEmbedder(),
)

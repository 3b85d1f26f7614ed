"""The users of the network layer, for the fault suite: each opens a websocket, or sends a request, in its own way.

A plugin that uses `pipelines/net` adds a class here, and `tests/conformance/test_net_faults.py` runs on it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from kit.servers.faulty_server import LIMIT, Body, Message, no_answer
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions, ReopeningSocket
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket, open_socket
from vivavoce.pipelines.net.streams import json_lines, json_object, sse
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.plugins import anthropic, cartesia, deepgram, google, openai
from vivavoce.plugins.openai.options import Api

SHORT = 0.3
"""Seconds in which a user connects to a server that stalls, and reads from it, so that a test need not wait long."""

FRAME, LOW = AudioFrame.silence(0.02, 24000), AudioFrame.silence(0.02, 16000)


class Line:
    """An open websocket of a user.

    Args:
        push: Sends a piece of audio.
        events: Yields what the user reports.
        aclose: Closes it.
    """

    def __init__(
        self, push: Callable[[], object], events: AsyncIterator[object], aclose: Callable[[], Awaitable[None]]
    ) -> None:
        self.push = push
        self.aclose = aclose
        self._events = events

    async def next(self) -> object:
        """Return the next event.

        Raises:
            ProviderError: The connection was lost.
        """
        with anyio.fail_after(LIMIT):
            return await anext(self._events)


class SocketUser(ABC):
    """Code that keeps a websocket open."""

    name: str
    good: Message
    """A message of the server that the user reports as an event."""
    speaks_tls_only = False
    """Whether its server needs a certificate."""
    has_sdk = False
    """Whether an SDK opens the websocket: it follows redirects, and tells a refusal without its body."""
    withholds = False
    """Whether it shows no text of the server, which may quote the conversation."""
    sends_audio = True
    """Whether audio is what it sends, and not little text."""
    drops = True
    """Whether it drops audio that the server does not take; else the connection counts as lost."""

    def answer(self, message: Message) -> Iterable[Message]:
        """Return the messages with which a good server answers one of the user."""
        return no_answer(message)

    @abstractmethod
    def line(self, url: str, key: str, limit: float = LIMIT) -> AbstractAsyncContextManager[Line]:
        """Open a websocket, ready for audio; the block's end closes it, and the component.

        Args:
            limit: Seconds to connect.
        Raises:
            ProviderError: It cannot be opened.
        """

    def __str__(self) -> str:
        return self.name


class RequestUser(ABC):
    """Code that sends a request and reads a streamed answer."""

    name: str
    good: Body
    """The answer of a good server, in two pieces at least."""
    has_sdk = False
    """Whether an SDK sends the request, which reads a refusal to its end before it tells the status."""
    broken: bytes = b""
    """A piece of a body that breaks its format; b"": any body has it."""

    @abstractmethod
    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        """Return the items of the answer.

        Args:
            limit: Seconds to connect, and seconds between two pieces.
        Raises:
            ProviderError: There is none, or it broke off.
        """

    def __str__(self) -> str:
        return self.name


def limits(limit: float) -> ConnectionOptions:
    """Return limits of connecting and reading."""
    return ConnectionOptions(connect_timeout=limit, read_timeout=limit)


def net_client(url: str, key: str, limit: float = LIMIT) -> tuple[Client, Failures]:
    """Return a client as a plugin makes one, and its errors."""
    client = Client("test.STT", url, headers={"Authorization": f"Bearer {key}"}, options=limits(limit))
    return client, Failures(provider="test", redact=Redaction(client.secrets))


class NetSocket(SocketUser):
    """`Socket` by itself; its messages are JSON objects."""

    name = "net.Socket"
    good = '{"type": "fine"}'

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        client, failures = net_client(url, key, limit)
        events: Feed[object] = Feed()

        def take(message: Message) -> None:
            events.put(json_object(message, failures))

        socket = await open_socket(
            client, "listen", {"model": "m"}, failures, on_message=take, on_lost=events.end, component="stt"
        )
        socket.start()
        try:
            yield Line(lambda: socket.post(FRAME.data, is_audio=True), events.items(), socket.aclose)
        finally:
            await socket.aclose()
            await client.aclose()


class NetReopeningSocket(SocketUser):
    """`ReopeningSocket` that makes no further try, so that a loss shows."""

    name = "net.ReopeningSocket"
    drops = False
    good = NetSocket.good

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        client, failures = net_client(url, key, limit)
        events: Feed[object] = Feed()

        async def connect(on_message: OnMessage, on_lost: OnLost) -> Socket:
            socket = await open_socket(
                client, "", (), failures, on_message=on_message, on_lost=on_lost, component="stt"
            )
            socket.start()
            return socket

        socket: ReopeningSocket[bytes] = ReopeningSocket(
            connect,
            bytes,
            on_message=lambda message: events.put(json_object(message, failures)),
            on_lost=events.end,
            provider="test",
            component="stt",
            options=ReopeningOptions(waits=()),
        )
        await socket.open()
        try:
            yield Line(lambda: socket.push(FRAME.data, FRAME.duration), events.items(), socket.aclose)
        finally:
            await socket.aclose()
            await client.aclose()


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
        options = openai.STTOptions(connection=limits(limit))
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


class CartesiaTTS(SocketUser):
    """A voice of Cartesia, in the middle of a text."""

    name = "cartesia.TTS"
    good = ""
    sends_audio = False

    def __init__(self) -> None:
        self._asked = anyio.Event()

    def answer(self, message: Message) -> Iterable[Message]:
        context, audio = json.loads(message)["context_id"], "AQACAA=="
        self.good = json.dumps({"type": "chunk", "context_id": context, "data": audio, "done": False})
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

        options = cartesia.TTSOptions(connection=limits(limit))
        async with cartesia.TTS(base_url=url, api_key=key, options=options) as voice:
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


class NetEvents(RequestUser):
    """`sse()` by itself."""

    name = "net.sse"
    good = Body((b"event: piece\ndata: on", b"e\n\n: a comment\n\ndata: two\n\n"), "text/event-stream")
    broken = b"data: \xff\n\n"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        client, failures = net_client(url, key, limit)
        try:
            async with client.request("messages", failures, json={"text": "Hello"}) as response:
                return [event async for event in sse(response)]
        finally:
            await client.aclose()


class NetLines(RequestUser):
    """`json_lines()` by itself."""

    name = "net.json_lines"
    good = Body((b'{"audio": "on', b'e"}\n\n{"audio": "two"}'), "application/x-ndjson")
    broken = b"{\n"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        client, failures = net_client(url, key, limit)
        try:
            async with client.request("tts", failures, json={"text": "Hello"}) as response:
                return [value async for value in json_lines(response)]
        finally:
            await client.aclose()


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


class OpenAITTS(RequestUser):
    """A voice of OpenAI."""

    name = "openai.TTS"
    good = Body((b"\x01\x02" * 100 + b"\x03", b"\x04" + b"\x05\x06" * 100), "audio/pcm")

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = openai.TTSOptions(connection=limits(limit))
        async with openai.TTS(model="m", base_url=url, api_key=key, options=options) as tts:
            return [chunk async for chunk in tts.synthesize("Hello there.")]


class DeepgramTTS(RequestUser):
    """A voice of Deepgram."""

    name = "deepgram.TTS"
    good = OpenAITTS.good

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        options = deepgram.TTSOptions(connection=limits(limit))
        async with deepgram.TTS(base_url=url, api_key=key, options=options) as tts:
            return [chunk async for chunk in tts.synthesize("Hello there.")]


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

SOCKET_USERS: tuple[SocketUser, ...] = (
    NetSocket(),
    NetReopeningSocket(),
    OpenAISTT(),
    OpenAIRealtime(),
    DeepgramSTT(),
    DeepgramFlux(),
    GoogleRealtime(),
    CartesiaTTS(),
)
REQUEST_USERS: tuple[RequestUser, ...] = (
    NetEvents(),
    NetLines(),
    OpenAILLM("chat", CHAT),
    OpenAILLM("responses", RESPONSES),
    AnthropicLLM(MESSAGES),
    OpenAITTS(),
    DeepgramTTS(),
)


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that are chained to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def check_clean(error: ProviderError, key: str, *words: str) -> None:
    """Check that an error shows neither the key nor these words, and leads to no foreign error, which holds the key."""
    for one in chain(error):
        assert isinstance(one, ProviderError), f"a foreign error is chained: {type(one).__name__}"
        for text in (key, *words):
            assert text not in f"{one!s} {one!r} {vars(one)!r}"

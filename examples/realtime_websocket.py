"""A speech-to-speech service of your own on a plain WebSocket: `RealtimePipeline(SpeechModel("ws://…"), vad=…)`.

The service takes JSON: setup, audio (base64 of 16 kHz PCM), commit, clear, item, answer or say, cancel; it sends
committed, text and audio of an answer by its id, done. Methods enqueue and return; two tasks move messages; a `Feed`
delivers messages and the end of an answer. Its test runs the port's checks: `await check_realtime_model(…)`.
"""

import asyncio
import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import aiohttp

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.base import Done, GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.realtime_model import base as rt
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk

RATE, PROVIDER = 16000, "speech"
LOCAL: frozenset[rt.TurnDetection] = frozenset({"local"})
CAN = rt.RealtimeCapabilities(
    input_rate=RATE, output_rate=RATE, turn_detection=LOCAL, truncates=False, supports_tools=False, updates=False
)


class SpeechModel(rt.RealtimeModel):
    provider = PROVIDER
    capabilities = CAN

    def __init__(self, url: str) -> None:
        self.url = url

    async def open(self, setup: rt.RealtimeSetup) -> rt.RealtimeConnection:
        http = aiohttp.ClientSession()
        try:
            ws = await asyncio.wait_for(http.ws_connect(self.url, timeout=aiohttp.ClientWSTimeout(ws_close=0.5)), 10)
            return SpeechConnection(http, ws, setup)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            await http.close()
            raise ProviderConnectionError(f"no connection: {type(error).__name__}", provider=PROVIDER) from error


class SpeechConnection(rt.RealtimeConnection):
    def __init__(
        self, http: aiohttp.ClientSession, ws: aiohttp.ClientWebSocketResponse, setup: rt.RealtimeSetup
    ) -> None:
        self.http, self.ws, self.reported, self.out = http, ws, Feed[rt.RealtimeEvent](), Feed[str]()
        self.answers: dict[str, Feed[Any]] = {}
        self.tasks = [asyncio.create_task(self.read()), asyncio.create_task(self.write())]
        self.tell("setup", text=setup.instructions, past=[[m.role, m.content] for m in setup.history.messages()])

    def tell(self, kind: str, **fields: Any) -> None:
        self.out.put(json.dumps({"type": kind, **fields}))

    def push(self, frame: AudioFrame) -> None:
        self.tell("audio", pcm=base64.b64encode(frame.data).decode())

    def commit(self) -> None:
        self.tell("commit")

    def clear(self) -> None:
        self.tell("clear")

    def append(self, item: ChatItem) -> None:
        if isinstance(item, ChatMessage):
            self.tell("item", role=item.role, text=item.content)

    def events(self) -> AsyncIterator[rt.RealtimeEvent]:
        return self.reported.items()

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Any, None]:
        return self.ask("answer", request.extra_instructions, object)

    def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        return self.ask("say", text, AudioChunk)

    async def ask(self, kind: str, text: str, wanted: type) -> AsyncGenerator[Any, None]:
        answer_id, answer = new_id("answer"), Feed[Any]()
        self.answers[answer_id] = answer
        self.tell(kind, id=answer_id, text=text)
        try:
            async with aclosing(answer.items()) as items:
                async for item in items:
                    if isinstance(item, wanted):
                        yield item
        finally:
            del self.answers[answer_id]
            if not answer.has_ended:
                self.tell("cancel", id=answer_id)

    async def write(self) -> None:
        async for message in self.out.items():
            await self.ws.send_str(message)

    async def read(self) -> None:
        error: ProviderError = ProviderConnectionError("the connection was lost", provider=PROVIDER)
        try:
            async for frame in self.ws:
                self.take(json.loads(frame.data))
        except (ValueError, KeyError, TypeError):
            error = ProviderProtocolError("needed a message of the service", provider=PROVIDER, retryable=True)
        self.end(error)

    def take(self, message: dict[str, Any]) -> None:
        kind, item = message["type"], message.get("item", "")
        answer = self.answers.get(message.get("id", ""), Feed[Any]())  # the answer was given up: it has no reader
        if kind == "committed":
            self.reported.put(rt.RealtimeInputCommitted(item))
        elif kind == "text":
            answer.put(TextDelta(message["text"], item))
        elif kind == "audio":
            answer.put(AudioChunk(AudioFrame(base64.b64decode(message["pcm"]), RATE), item_id=item))
        elif kind == "done":
            answer.put(Done())
            answer.end()

    def end(self, error: ProviderError | None) -> None:
        for feed in (*self.answers.values(), self.reported):
            feed.end(error)

    async def aclose(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.end(None)
        await self.ws.close()
        await self.http.close()

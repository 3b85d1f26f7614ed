"""RealtimeModel: OpenAI's Realtime API (GA) behind the realtime model's port, over a websocket."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Literal, get_args

import anyio

from vivavoce.pipelines.core.checks import check_choice
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderError
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatItem
from vivavoce.pipelines.llm.tools import Tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.sockets import Message as Sent
from vivavoce.pipelines.net.sockets import Socket, open_socket
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeSetup,
)
from vivavoce.pipelines.realtime_model.base import RealtimeModel as RealtimeModelPort
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import Azure, checked_model, find_endpoint
from vivavoce.plugins.openai.realtime_answer import RealtimeAnswer
from vivavoce.plugins.openai.realtime_messages import AUDIO, RATE, delete_item
from vivavoce.plugins.openai.realtime_options import RealtimeOptions
from vivavoce.plugins.openai.realtime_wire import RealtimeWire
from vivavoce.plugins.openai.servers import OPENAI
from vivavoce.plugins.openai.wire import PROVIDER

DEFAULT_REALTIME_MODEL = "gpt-realtime-2"

RealtimeServer = Literal["openai", "azure"]

READY_LIMIT = 10.0
"""Seconds from the connection to a conversation that has its settings and its history."""

CANCEL_LIMIT = 2.0
"""Seconds that a new answer waits until the server has ended the cancelled one."""


class RealtimeModel(OpenAIComponent[Client], RealtimeModelPort):
    """A speech-to-speech model of OpenAI, or of a server with its Realtime protocol.

    Azure: `RealtimeModel(server="azure", model="<deployment>")`.

    Args:
        model: `DEFAULT_REALTIME_MODEL` unless given; another server needs one.
        server, api_key: As for `openai.LLM`; of the servers known by name, these two have the protocol.
        base_url: Of another server; http(s) and ws(s) have the same meaning.
    Raises:
        ConfigurationError: The key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        server: RealtimeServer | Azure | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        options: RealtimeOptions | None = None,
    ) -> None:
        self._options = options or RealtimeOptions()
        limits = self._options.connection
        if not isinstance(server, Azure):
            check_choice("server", server, (None, *get_args(RealtimeServer)))
        elif server.api_version:
            raise ConfigurationError(f"the realtime model needs v1 of Azure's API; leave out {server.api_version!r}")
        endpoint = find_endpoint(server, model=model, api_key=api_key, base_url=base_url)
        default = DEFAULT_REALTIME_MODEL if endpoint.server is OPENAI else ""
        client = net_client("openai.RealtimeModel", endpoint, limits)
        super().__init__(checked_model(endpoint, model, default), endpoint, client)

    def __repr__(self) -> str:
        return f"openai.RealtimeModel(model={self._model!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> RealtimeCapabilities:
        return RealtimeCapabilities(
            input_rate=RATE,
            output_rate=RATE,
            generates_text=True,
            supports_images=True,
            deletes=True,
            max_seconds=self._options.max_seconds,
        )

    async def open(self, setup: RealtimeSetup) -> OpenAIRealtimeConnection:
        """Connect, send the history and the settings, and return once the server has accepted them.

        Raises:
            ProviderError: It cannot connect, or the server refuses the settings.
        """
        signature = await self._endpoint.sign()
        connection = OpenAIRealtimeConnection(setup, self._options, lambda said: self._failures(said, signature))
        await connection.connect(self._client, self._model, signature)
        return connection


class OpenAIRealtimeConnection(RealtimeConnection):
    """One conversation.

    Args:
        failures: Returns its errors, which must not quote the texts of the function that it is given.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        options: RealtimeOptions,
        failures: Callable[[Callable[[], Iterator[str]]], Failures],
    ) -> None:
        self._said = setup.history
        self._setup = setup
        self._failures = failures(self._texts)
        self._events: Feed[RealtimeEvent] = Feed()
        self._socket: Socket | None = None
        self._lost: ProviderError | None = None
        self._wire = RealtimeWire(setup, options, post=self._post, report=self._events.put, failures=self._failures)

    async def connect(self, client: Client, model: str, headers: Mapping[str, str]) -> None:
        """Open the websocket and wait until the conversation has its setup."""
        self._socket = await open_socket(
            client,
            "realtime",
            {"model": model},
            self._failures,
            on_message=self._on_message,
            on_lost=self._on_lost,
            component="realtime_model",
            headers=headers,
        )
        try:
            self._socket.start()
            self._wire.begin(model)
            await self._socket.until(lambda: self._wire.is_ready, READY_LIMIT)
        except BaseException:
            await self.aclose()
            raise

    def push(self, frame: AudioFrame) -> None:
        self._wire.push(frame)

    def commit(self) -> None:
        self._wire.commit()

    def clear(self) -> None:
        self._wire.clear()

    def events(self) -> AsyncIterator[RealtimeEvent]:
        return self._events.items()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        with anyio.move_on_after(CANCEL_LIMIT):  # the server makes one answer at a time
            for cancelled in self._wire.cancelling():
                await cancelled.over.wait()
        self._check_open()
        answer = self._wire.ask(request)
        async with aclosing(self._stream(answer)) as items:
            async for item in items:
                yield item

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        return self._stream(self._wire.accept(reply_id))

    def refuse(self, reply_id: str) -> None:
        self._wire.refuse(reply_id)

    async def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Ask the model to speak a text, beside the conversation: it may change the words."""
        if self._setup.answers == "text":
            super().say(text)
        self._check_open()
        answer = self._wire.say(text)
        async with aclosing(self._stream(answer)) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    yield item

    def truncate(self, item_id: str, played_seconds: float, heard_text: str) -> None:
        self._wire.truncate(item_id, played_seconds, heard_text)

    def append(self, item: ChatItem) -> None:
        self._said = ChatContext((*self._said.items[-9:], item))
        self._wire.append(item)

    def delete(self, item_id: str) -> None:
        if item_id in self._wire.items:
            self._wire.items.discard(item_id)
            self._post(delete_item(item_id))

    def update(self, instructions: str, tools: Sequence[Tool[..., object]]) -> None:
        self._wire.update(instructions, tools)

    async def aclose(self) -> None:
        """End the connection."""
        self._end(ProviderConnectionError("the connection was closed", provider=PROVIDER), is_lost=False)
        if self._socket is not None:
            await self._socket.aclose()

    async def _stream(self, answer: RealtimeAnswer) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        try:
            async with aclosing(answer.feed.items()) as items:
                async for item in items:
                    yield item
        finally:
            self._wire.give_up(answer)

    def _post(self, message: dict[str, object]) -> None:
        if self._socket is not None:
            self._socket.post(json.dumps(message), is_audio=message["type"] == AUDIO)

    def _on_message(self, message: Sent) -> None:
        self._wire.feed(message)

    def _on_lost(self, error: ProviderError) -> None:
        self._end(error, is_lost=True)

    def _end(self, error: ProviderError, *, is_lost: bool) -> None:
        if self._lost is None:
            self._lost = error
            self._wire.lose(error)
            self._events.end(error if is_lost else None)

    def _check_open(self) -> None:
        if self._lost is not None:
            raise self._lost

    def _texts(self) -> Iterator[str]:
        """Return the texts that an error must not quote: the last words, and the instructions."""
        return GenerateRequest(context=self._said, instructions=self._setup.instructions).texts()

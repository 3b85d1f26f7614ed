"""RealtimeModel: Gemini Live behind the realtime model's port, over the official SDK's session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, aclosing
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatItem
from vivavoce.pipelines.media.frame import AudioFrame, VideoFrame
from vivavoce.pipelines.net.keys import find_key
from vivavoce.pipelines.net.outbox import Outbox
from vivavoce.pipelines.realtime_model.base import (
    RealtimeCapabilities,
    RealtimeConnection,
    RealtimeEvent,
    RealtimeProblem,
    RealtimeSetup,
)
from vivavoce.pipelines.realtime_model.base import RealtimeModel as RealtimeModelPort
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.plugins.google.access import KEY_VARIABLES
from vivavoce.plugins.google.options import RealtimeOptions

if TYPE_CHECKING:
    from google.genai.live import AsyncSession

    from vivavoce.plugins.google.answer import Answer
    from vivavoce.plugins.google.wire import Send

logger = logging.getLogger(__name__)

PROVIDER = "google"
DEFAULT_MODEL = "gemini-3.8-live"

CANCEL_LIMIT = 2.0
"""Seconds that a new answer waits until the server has ended the cancelled one."""

WAITING_PAUSE = 0.2
"""Seconds without a piece behind a tool call that end an answer of a model that waits for the outputs of its calls."""

OTHER_PAUSE = 2.0
"""The same for a model that goes on: it reports the end of its turn, and may think before it speaks."""

PAUSE_PARTS = 4
"""Parts of such a pause: a loop that is held up, and takes late what has come, loses one of them and not the pause."""

CLOSE_LIMIT = 0.8
"""Seconds for closing the connection."""

MAX_UNREADABLE = 20
"""Messages in a row that cannot be read, after which the connection counts as lost."""


class RealtimeModel(RealtimeModelPort):
    """A model of Gemini Live.

    Args:
        model: Without `models/`.
        api_key: Else the environment's `GOOGLE_API_KEY` or `GEMINI_API_KEY`, if there is no `base_url`.
        base_url: Of another server. The SDK uses TLS for any scheme.
    Raises:
        ConfigurationError: The SDK is not installed, the key is missing, or an argument makes no sense.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        api_key: str | None = None,
        base_url: str | None = None,
        options: RealtimeOptions | None = None,
    ) -> None:
        try:
            from google import genai
        except ImportError as error:
            raise ConfigurationError(
                f"google.RealtimeModel needs the google-genai SDK, which does not import ({error}); run: "
                "pip install 'vivavoce[google]'"
            ) from error
        key = find_key(api_key, KEY_VARIABLES if base_url is None else ())
        if not key:
            raise ConfigurationError("a server of your own needs api_key too, got none: the SDK sends one")
        self._model = model
        self._options = options or RealtimeOptions()
        http = genai.types.HttpOptions(
            base_url=base_url,
            headers=dict(self._options.extra_headers) or None,
            async_client_args={"ssl": self._options.ssl_context} if self._options.ssl_context else None,
        )
        self._client = genai.Client(api_key=key, http_options=http, vertexai=False)
        self._is_closed = False

    def __repr__(self) -> str:
        return f"google.RealtimeModel(model={self._model!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> RealtimeCapabilities:
        from vivavoce.plugins.google.messages import INPUT_RATE, OUTPUT_RATE

        return RealtimeCapabilities(
            input_rate=INPUT_RATE,
            output_rate=OUTPUT_RATE,
            generates_text=self._options.generates_text,
            truncates=False,
            answers_results=True,
            supports_images=True,
            takes_video=True,
            updates=False,
        )

    async def open(self, setup: RealtimeSetup) -> LiveConnection:
        """Connect with the settings, send or resume the history, and return.

        Raises:
            ProviderError: It cannot connect, or the server refuses the settings.
        """
        from vivavoce.plugins.google.failures import provider_error
        from vivavoce.plugins.google.messages import config, waits_for_outputs

        if self._is_closed:
            raise ConfigurationError("this google.RealtimeModel is closed; make another one")
        limit = self._options.connect_timeout
        settings = config(setup, self._options)
        door = self._client.aio.live.connect(model=self._model, config=settings)
        failure: ProviderError | None = None
        try:
            async with asyncio.timeout(limit):
                session = await door.__aenter__()
        except TimeoutError:
            failure = ProviderTimeoutError(f"no session within {limit} s", provider=PROVIDER, retryable=True)
        except Exception as error:  # noqa: BLE001 - the SDK lets errors of its websocket library through
            failure = provider_error(error)
        if failure is not None:
            raise failure
        if session.setup_complete is None:
            await door.__aexit__(None, None, None)
            raise ProviderProtocolError("needed setupComplete, got another message", provider=PROVIDER, retryable=True)
        return LiveConnection(setup, door, session, waits=waits_for_outputs(self._model, settings))

    async def aclose(self) -> None:
        """Free the resources that the connections share; open ones go on."""
        if not self._is_closed:
            self._is_closed = True
            await self._client.aio.aclose()


class LiveConnection(RealtimeConnection):
    """One conversation, with a task that sends and one that reads.

    Args:
        waits: Whether the model says nothing more until it has the outputs of its calls.
    """

    def __init__(
        self,
        setup: RealtimeSetup,
        door: AbstractAsyncContextManager[AsyncSession],
        session: AsyncSession,
        *,
        waits: bool,
    ) -> None:
        from vivavoce.plugins.google.wire import LiveWire

        self._setup = setup
        self._door = door
        self._session = session
        self._events: Feed[RealtimeEvent] = Feed()
        self._lost: ProviderError | None = None
        self._outbox: Outbox[Send] = Outbox(PROVIDER, "realtime_model")
        self._tasks = OwnedTasks("google live")
        self._is_closed = False
        self._waits = waits
        self._pause = WAITING_PAUSE if waits else OTHER_PAUSE
        self._pause_parts = 0
        self._pause_timer: asyncio.TimerHandle | None = None
        self._wire = LiveWire(setup, post=self._post, report=self._events.put, await_more=self._await_more, waits=waits)
        self._tasks.start(self._send(), "sender")
        self._tasks.start(self._read(), "reader")
        self._wire.begin()

    def push(self, frame: AudioFrame) -> None:
        self._wire.push(frame)

    def push_video(self, frame: VideoFrame) -> None:
        self._wire.push_video(frame)

    def commit(self) -> None:
        self._wire.commit()

    def clear(self) -> None:
        self._wire.clear()

    def events(self) -> AsyncIterator[RealtimeEvent]:
        return self._events.items()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Ask for an answer; see the port. The tools and the choice among them are those of the connection."""
        await self._quiet()
        answer = self._wire.ask(request.extra_instructions)
        async with aclosing(self._stream(answer)) as items:
            async for item in items:
                yield item

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        return self._stream(self._wire.accept(reply_id))

    def refuse(self, reply_id: str) -> None:
        self._wire.refuse(reply_id)

    async def say(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Ask the model to speak a text, in the conversation: it may change the words."""
        if self._setup.answers == "text":
            super().say(text)
        await self._quiet()
        answer = self._wire.say(text)
        async with aclosing(self._stream(answer)) as items:
            async for item in items:
                if isinstance(item, AudioChunk):
                    yield item

    @property
    def waits_for_outputs(self) -> bool:
        return self._waits

    def append(self, item: ChatItem) -> None:
        self._wire.append(item)

    def calls_not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        self._wire.calls_not_run(call_ids, is_asked=is_asked)

    async def aclose(self) -> None:
        """End the connection."""
        self._end(ProviderConnectionError("the connection was closed", provider=PROVIDER), is_lost=False)
        if self._is_closed:
            return
        self._is_closed = True
        self._tasks.cancel()
        with anyio.move_on_after(2 * CLOSE_LIMIT, shield=True):  # a close that is cut would leave the websocket open
            await self._tasks.finish(CLOSE_LIMIT)
            try:
                async with asyncio.timeout(CLOSE_LIMIT):
                    await self._door.__aexit__(None, None, None)
            except Exception as error:  # noqa: BLE001 - it is over in any case
                logger.debug("google: closing the connection failed: %s", type(error).__name__)

    async def _quiet(self) -> None:
        """Wait until the server has ended the cancelled answer: its answers have no ids."""
        if (unfinished := self._wire.unfinished()) is not None:
            with anyio.move_on_after(CANCEL_LIMIT):
                await unfinished.over.wait()
        if self._lost is not None:
            raise self._lost

    async def _stream(self, answer: Answer) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        try:
            async with aclosing(answer.feed.items()) as items:
                async for item in items:
                    yield item
        finally:
            self._wire.give_up(answer)

    def _await_more(self) -> None:
        self._stop_awaiting()
        self._pause_parts = PAUSE_PARTS
        self._wait_for_more()

    def _wait_for_more(self) -> None:
        if self._pause_parts:
            self._pause_parts -= 1
            loop = asyncio.get_running_loop()
            self._pause_timer = loop.call_later(self._pause / PAUSE_PARTS, self._wait_for_more)
        else:
            self._wire.rest()

    def _stop_awaiting(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()

    def _post(self, send: Send) -> None:
        if self._lost is None:
            self._outbox.post(send, is_audio="audio" in send.arguments)

    async def _send(self) -> None:
        from vivavoce.plugins.google.failures import provider_error

        try:
            await self._outbox.run(lambda one: getattr(self._session, one.method)(**one.arguments))
        except Exception as error:  # noqa: BLE001 - the SDK lets errors of its websocket library through
            self._end(provider_error(error), is_lost=True)

    async def _read(self) -> None:
        from vivavoce.plugins.google.failures import message_error

        unreadable = 0
        while self._lost is None:
            try:
                async for message in self._session.receive():  # ends with each turn
                    unreadable = 0
                    self._take(message)
            except Exception as error:  # noqa: BLE001 - the SDK lets errors of its websocket library through
                failure, unreadable = message_error(error), unreadable + 1
                is_of_message = isinstance(failure, ProviderProtocolError) and unreadable < MAX_UNREADABLE
                if is_of_message:  # this message is lost, and the next may be valid
                    self._events.put(RealtimeProblem(failure))
                else:
                    self._end(failure, is_lost=True)

    def _take(self, message: Any) -> None:
        try:
            self._wire.feed(message)
        except ProviderProtocolError as error:
            self._events.put(RealtimeProblem(error))

    def _end(self, error: ProviderError, *, is_lost: bool) -> None:
        if self._lost is None:
            self._lost = error
            self._stop_awaiting()
            self._wire.lose(error)
            self._events.end(error if is_lost else None)

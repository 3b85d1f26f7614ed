"""STT: OpenAI's transcription models over a realtime transcription session, with utterances cut by the VAD.

Why not by uploads to `audio/transcriptions`: the audio is at the server when speech ends, so that the transcript comes
sooner by the upload and a handshake. Why the VAD here ends utterances, and not the server's: one place decides turns,
silence is neither sent nor paid for, and models that hear words in silence receive none.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.sockets import Message as Sent
from vivavoce.pipelines.net.sockets import Socket, open_socket
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities, STTEvent
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import checked_model, find_endpoint
from vivavoce.plugins.openai.realtime_messages import AUDIO, RATE, Message, transcription_settings
from vivavoce.plugins.openai.stt_wire import TranscriptionWire

DEFAULT_STT_MODEL = "gpt-live-transcribe"
"""It transcribes while the user speaks; the newest model that the API recommends for it."""

READY_LIMIT = 10.0
"""Seconds from the connection to a session that has its settings."""

MAX_AGO = 1.0
"""Seconds by which the VAD may report an onset late."""

PRE_ROLL = 0.2
"""Seconds before the VAD's onset that are sent too."""

OVERLAP = 0.1
"""Seconds before the last `flush()` that the next utterance may repeat as its pre-roll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `openai.STT`.

    Each option: docs/options.md.
    """

    prompt: str = field(default="", repr=False)
    """A text that helps the model to recognise words, such as names; not every model accepts one."""
    keywords: tuple[str, ...] = ()
    """Words to expect; newer models accept them."""
    order_limit: float = 3.0
    """Seconds that a transcript waits for the transcript of the utterance before it."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("order_limit", self.order_limit, above=0, unit="s")


class STT(OpenAIComponent[Client], base.STT):
    """A transcription model of OpenAI, or of a server with its realtime transcription; it needs a VAD.

    Args:
        model: `DEFAULT_STT_MODEL` unless given; a server at `base_url` needs one.
        language: ISO 639-1, such as `"en"`; empty: the model detects it.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
    Raises:
        ConfigurationError: The key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        language: str = "",
        api_key: str | None = None,
        base_url: str | None = None,
        options: STTOptions | None = None,
    ) -> None:
        self._language = language
        self._options = options or STTOptions()
        endpoint = find_endpoint(None, model=model, api_key=api_key, base_url=base_url)
        client = net_client("openai.STT", endpoint, self._options.connection)
        super().__init__(checked_model(endpoint, model, DEFAULT_STT_MODEL), endpoint, client)

    def __repr__(self) -> str:
        return f"STT(model={self._model!r}, language={self._language!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(sample_rate=RATE, emits_interims=True, needs_flush=True)

    async def open(self) -> STTStream:
        """Connect and return a stream whose settings the server has accepted.

        Raises:
            ProviderError: It cannot connect.
        """
        options = self._options
        settings = transcription_settings(self._model, self._language, prompt=options.prompt, keywords=options.keywords)
        failures = self._failures(lambda: (options.prompt,), {})
        stream = STTStream(settings, self._language, options, failures)
        await stream.connect(self._client)
        return stream


class STTStream(base.STTStream):
    """One session's recognition.

    An utterance begins `PRE_ROLL` before the onset of `speech_started()` and ends with `flush()`; audio between
    utterances is only kept.
    """

    def __init__(self, settings: Message, language: str, options: STTOptions, failures: Failures) -> None:
        self._options = options
        self._recent: deque[AudioFrame] = deque()
        self._kept = 0
        self._pushed = 0
        self._flushed = 0
        self._is_speech = False
        self._is_closed = False
        self._events: Feed[STTEvent] = Feed()
        self._loop = asyncio.get_running_loop()
        self._order_timer: asyncio.TimerHandle | None = None
        self._socket: Socket | None = None
        self._failures = failures
        self._wire = TranscriptionWire(settings, language, post=self._post, report=self._events.put, failures=failures)

    async def connect(self, client: Client) -> None:
        """Open the websocket and wait until the server has accepted the settings."""
        self._socket = await open_socket(
            client,
            "realtime",
            {"intent": "transcription"},
            self._failures,
            on_message=self._on_message,
            on_lost=self._end,
            component="stt",
        )
        try:
            self._socket.start()
            self._wire.begin()
            await self._socket.until(lambda: self._wire.is_ready, READY_LIMIT)
        except BaseException:
            await self.aclose()
            raise

    def push(self, frame: AudioFrame) -> None:
        self._pushed += frame.samples
        self._recent.append(frame)
        self._kept += frame.samples
        while self._kept - self._recent[0].samples >= (PRE_ROLL + MAX_AGO) * RATE:
            self._kept -= self._recent.popleft().samples
        if self._is_speech:
            self._wire.push(frame)

    def speech_started(self, ago: float) -> None:
        if self._is_speech or self._is_closed:
            return
        self._is_speech = True
        self._wire.start()
        onset = self._pushed - round(ago * RATE)
        if onset == self._flushed:  # the speech before that flush goes on: none of its words may be heard twice
            return
        begin = onset - round(PRE_ROLL * RATE)
        begin = max(begin, min(onset, self._flushed - round(OVERLAP * RATE)))
        end = self._pushed - self._kept
        for frame in self._recent:
            end += frame.samples
            if end > begin:
                self._wire.push(frame)

    def flush(self) -> None:
        self._flushed = self._pushed
        self._is_speech = False
        if not self._is_closed:
            self._wire.flush()

    def discard(self) -> None:
        self._flushed = self._pushed
        self._is_speech = False
        if not self._is_closed:
            self._wire.discard()

    def events(self) -> AsyncIterator[STTEvent]:
        return self._events.items()

    async def aclose(self) -> None:
        self._end(None)
        if self._socket is not None:
            await self._socket.aclose()

    def _post(self, message: Message) -> None:
        if self._socket is not None:
            self._socket.post(json.dumps(message), is_audio=message["type"] == AUDIO)

    def _on_message(self, message: Sent) -> None:
        self._wire.feed(message)
        if self._wire.is_blocked and self._order_timer is None:
            self._order_timer = self._loop.call_later(self._options.order_limit, self._release)

    def _release(self) -> None:
        self._order_timer = None
        self._wire.release()

    def _end(self, error: ProviderError | None) -> None:
        self._is_closed = True
        self._is_speech = False
        self._events.end(error)
        if self._order_timer is not None:
            self._order_timer.cancel()
            self._order_timer = None

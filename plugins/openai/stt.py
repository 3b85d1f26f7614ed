"""STT: transcription models of OpenAI and of servers with its API, with utterances cut by the VAD.

There are two ways. Over a realtime transcription session the audio is at the server when speech ends, so that the
transcript comes sooner by the upload and a handshake. By an upload to `audio/transcriptions` for each utterance any
Whisper server hears, and reports the times of words. `STT(api=…)` chooses; a server of the table has its usual one.

Why the VAD here ends utterances, and not the server's: one place decides turns, silence is neither sent nor paid for,
and models that hear words in silence receive none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from vivavoce.pipelines.core.checks import check_choice, check_number
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.sockets import Message as Sent
from vivavoce.pipelines.net.sockets import Socket, open_socket
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import Azure, checked_model, find_endpoint
from vivavoce.plugins.openai.realtime_messages import AUDIO, RATE, Message, transcription_settings
from vivavoce.plugins.openai.servers import SERVERS, ServerName
from vivavoce.plugins.openai.stt_wire import TranscriptionWire
from vivavoce.plugins.openai.transcripts import Transcription, prompt_of
from vivavoce.plugins.openai.uploads import RATE as UPLOAD_RATE
from vivavoce.plugins.openai.uploads import UploadStream
from vivavoce.plugins.openai.utterances import UtteranceStream

Api = Literal["realtime", "upload"]

DEFAULT_STT_MODEL = "gpt-live-transcribe"
"""It transcribes while the user speaks; the newest model that the API recommends for it."""

DEFAULT_UPLOAD_MODEL = "gpt-4o-mini-transcribe"

LIVE = ("gpt-live-transcribe", "gpt-realtime-whisper")
"""Models that transcribe while the user speaks; the others begin at the commit
(https://developers.openai.com/api/docs/guides/realtime-transcription)."""

READY_LIMIT = 10.0
"""Seconds from the connection to a session that has its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class STTOptions:
    """Rarely changed settings of `openai.STT`.

    Each option: docs/options.md.
    """

    prompt: str = field(default="", repr=False)
    """A text that helps the model to recognise words, such as names; not every model accepts one."""
    keywords: tuple[str, ...] = ()
    """Words to expect. In a realtime session newer models accept them; in uploads they stand in the prompt."""
    order_limit: float = 3.0
    """Seconds that a transcript waits for the transcript of the utterance before it."""
    emits_interims: bool | None = None
    """Whether the model of a realtime session transcribes while the user speaks, so that its words may decide an
    interruption. None: by the names of OpenAI's models; a deployment of another name needs it."""
    word_times: bool | None = None
    """Whether uploads ask for the times of words, which takes a Whisper model some time. None: if the server is known
    to report them."""
    verbose_json: bool | None = None
    """Whether uploads ask for the language, and how sure the model is, so that words that nobody said are left out.
    None: of Whisper models; a server may not have this format."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        if self.word_times and self.verbose_json is False:
            raise ConfigurationError("word_times need verbose_json, got word_times=True and verbose_json=False")
        check_number("order_limit", self.order_limit, above=0, unit="s")


class STT(OpenAIComponent[Client], base.STT):
    """A transcription model of OpenAI, or of a server with its API; it needs a VAD.

    Args:
        model: `DEFAULT_STT_MODEL` unless given, or the usual one of the named server; another server needs one.
        language: ISO 639-1, such as `"en"`; empty: the model detects it.
        server, api_key, base_url: As for `openai.LLM`.
        api: `realtime`, a transcription session, or `upload`, one request to `audio/transcriptions` for each utterance.
            None: the usual one of the server; `realtime` for one at a `base_url`.
    Raises:
        ConfigurationError: The server does not transcribe, the key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        language: str = "",
        server: ServerName | Azure | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        api: Api | None = None,
        options: STTOptions | None = None,
    ) -> None:
        check_choice("api", api, (None, *get_args(Api)))
        self._language = language
        self._options = options or STTOptions()
        endpoint = find_endpoint(server, model=model, api_key=api_key, base_url=base_url)
        ears = endpoint.server.ears
        if ears is None:
            there = ", ".join(one.name for one in SERVERS if one.ears is not None)
            raise ConfigurationError(f"{endpoint.server.name} does not transcribe; those that do: {there}")
        self._ears = ears
        self._is_upload = ears.is_upload if api is None else api == "upload"
        if not self._is_upload and isinstance(server, Azure) and server.api_version:
            raise ConfigurationError(f"api 'realtime' needs v1 of Azure's API; leave out {server.api_version!r}")
        client = net_client("openai.STT", endpoint, self._options.connection)
        default = DEFAULT_UPLOAD_MODEL if self._is_upload and ears.model == DEFAULT_STT_MODEL else ears.model
        super().__init__(checked_model(endpoint, model, default), endpoint, client)

    def __repr__(self) -> str:
        return f"openai.STT(model={self._model!r}, language={self._language!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> STTCapabilities:
        if self._is_upload:
            asked = self._asked(())
            return STTCapabilities(
                sample_rate=UPLOAD_RATE,
                emits_interims=False,
                needs_flush=True,
                emits_words=asked.has_words,
                takes_key_terms=True,
            )
        return STTCapabilities(sample_rate=RATE, emits_interims=self._has_interims, needs_flush=True)

    @property
    def _has_interims(self) -> bool:
        given = self._options.emits_interims
        return self._model.startswith(LIVE) if given is None else given

    async def open(self) -> base.STTStream:
        """Connect and return a stream whose settings the server has accepted; for uploads there is nothing to connect.

        Raises:
            ProviderError: It cannot connect.
        """
        return self._uploads(()) if self._is_upload else await self._session()

    async def open_with_key_terms(self, terms: Sequence[str]) -> base.STTStream:
        return self._uploads(terms) if self._is_upload else await super().open_with_key_terms(terms)

    def _asked(self, terms: Sequence[str]) -> Transcription:
        options = self._options
        is_verbose = options.verbose_json
        if is_verbose is None:
            is_verbose = "whisper" in self._model.casefold() or bool(options.word_times)
        times = self._ears.has_word_times if options.word_times is None else options.word_times
        return Transcription(
            model=self._model,
            language=self._language,
            prompt=prompt_of(options.prompt, (*options.keywords, *terms)),
            has_segments=is_verbose,
            has_words=times and is_verbose,
        )

    def _uploads(self, terms: Sequence[str]) -> UploadStream:
        asked = self._asked(terms)
        format_hint = "; without verbose_json: STTOptions(verbose_json=False)" if asked.has_segments else ""
        hint = f"asked for model {self._model!r}, language {self._language or 'detected'}{format_hint}"
        return UploadStream(
            self._client,
            self._endpoint,
            asked,
            lambda signature: self._failures(lambda: (asked.prompt,), signature, asked=hint),
            max_bytes=self._ears.max_bytes,
            order_limit=self._options.order_limit,
        )

    async def _session(self) -> STTStream:
        options = self._options
        settings = transcription_settings(self._model, self._language, prompt=options.prompt, keywords=options.keywords)
        signature = await self._endpoint.sign()
        failures = self._failures(lambda: (options.prompt,), signature)
        options = replace(options, emits_interims=self._has_interims)
        stream = STTStream(settings, self._language, options, failures)
        await stream.connect(self._client, signature)
        return stream


class STTStream(UtteranceStream):
    """One session's recognition over a realtime transcription session; see `UtteranceStream`."""

    def __init__(self, settings: Message, language: str, options: STTOptions, failures: Failures) -> None:
        super().__init__(RATE)
        self._options = options
        self._loop = asyncio.get_running_loop()
        self._order_timer: asyncio.TimerHandle | None = None
        self._socket: Socket | None = None
        self._failures = failures
        self._wire = TranscriptionWire(
            settings,
            language,
            post=self._post,
            report=self._events.put,
            failures=failures,
            has_interims=bool(options.emits_interims),
        )

    async def connect(self, client: Client, headers: Mapping[str, str]) -> None:
        """Open the websocket and wait until the server has accepted the settings."""
        self._socket = await open_socket(
            client,
            "realtime",
            {"intent": "transcription"},
            self._failures,
            on_message=self._on_message,
            on_lost=self._end,
            component="stt",
            headers=headers,
        )
        try:
            self._socket.start()
            self._wire.begin()
            await self._socket.until(lambda: self._wire.is_ready, READY_LIMIT)
        except BaseException:
            await self.aclose()
            raise

    def _start(self, begin: float) -> None:
        self._wire.start()

    def _take(self, frame: AudioFrame) -> None:
        self._wire.push(frame)

    def _finish(self) -> None:
        self._wire.flush()

    def _forget(self) -> None:
        self._wire.discard()

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
        super()._end(error)
        if self._order_timer is not None:
            self._order_timer.cancel()
            self._order_timer = None

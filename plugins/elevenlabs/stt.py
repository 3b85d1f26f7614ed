"""STT: Scribe, the realtime recogniser of ElevenLabs, over its websocket."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive
from vivavoce.pipelines.net.sockets import Message, OnLost, OnMessage, Socket
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.reopening_stream import RATE, Query, ReopeningStream
from vivavoce.plugins.elevenlabs.client import PROVIDER, Region, client_of, failures_of
from vivavoce.plugins.elevenlabs.models import DEFAULT_STT_MODEL
from vivavoce.plugins.elevenlabs.options import STTOptions, check_code, check_terms
from vivavoce.plugins.elevenlabs.scribe_wire import ScribeWire, chunk

DEFAULT_SILENCE = 1.5
"""Seconds of a pause after which the service commits, if nothing else is asked for."""

KEEP_ALIVE_AFTER = 8.0
"""Seconds without audio after which to say that the stream goes on; the service closes after about 15."""


class STT(base.STT):
    """Scribe v2 realtime, or a server of your own that has its API; share one between sessions.

    It settles words when the pipeline's VAD says that speech has ended; with `STTOptions(commit="vad")` by itself too.

    Args:
        language: A code such as `"en"` or `"deu"`; its region is left out; "": the service detects it.
        api_key: Else the environment's `ELEVENLABS_API_KEY` or `ELEVEN_API_KEY`, for hosts of elevenlabs.io only.
        base_url: A server of your own.
        region: Where the audio is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        model: str = DEFAULT_STT_MODEL,
        *,
        language: str = "en",
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: STTOptions | None = None,
    ) -> None:
        self._options = options or STTOptions()
        if not check_text("model", model):
            raise ConfigurationError("need model as a name, got ''")
        if check_text("language", language):
            check_code(language)
        self._model = model
        self._language = language.partition("-")[0]
        self._client = client_of(
            "elevenlabs.STT", api_key=api_key, base_url=base_url, region=region, options=self._options.connection
        )

    def __repr__(self) -> str:
        return f"elevenlabs.STT(model={self._model!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE,
            emits_interims=True,
            needs_flush=self._options.commit == "manual",
            emits_words=True,
            takes_key_terms=True,
        )

    async def open(self) -> ScribeStream:
        """Connect and return a stream.

        Raises:
            ProviderError: It cannot connect, or the service refuses the key or the settings.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> ScribeStream:
        """Open a stream that also expects these words.

        Raises:
            ConfigurationError: The service would refuse them.
            ProviderError: As `open()`.
        """
        whole = tuple(dict.fromkeys((*self._options.key_terms, *terms)))
        check_terms(whole)
        return await self._opened(whole)

    async def aclose(self) -> None:
        """Close the idle connections; open websockets go on.

        Raises:
            ConfigurationError: They belong to another event loop, which still runs.
        """
        await self._client.aclose()

    async def _opened(self, terms: tuple[str, ...]) -> ScribeStream:
        asked = (
            f"check model and options: asked for the model {self._model!r} with the language {self._language!r}; the "
            f"realtime model is {DEFAULT_STT_MODEL!r}"
        )
        failures = failures_of(self._client, asked=asked, said=lambda: terms)
        query = scribe_query(self._model, self._language, terms, self._options)
        stream = ScribeStream(self._client, query, self._language, self._options, failures)
        await stream.open()
        return stream


class ScribeStream(ReopeningStream[ScribeWire]):
    """One session's recognition."""

    def __init__(self, client: Client, query: Query, language: str, options: STTOptions, failures: Failures) -> None:
        silence = None if options.commit == "manual" else options.silence or DEFAULT_SILENCE
        super().__init__(
            client,
            "v1/speech-to-text/realtime",
            query,
            failures,
            options.reopening,
            lambda at, settle, report: ScribeWire(
                language, RATE, silence=silence, at=at, settle=settle, report=report, failures=failures
            ),
            flush="commit",
            close="",
        )

    def discard(self) -> None:
        super().discard()
        if (commit := self._wire.unwanted()) is not None:
            self._socket.post(commit)

    def _encode(self, item: Message) -> Message:
        return self._wire.encode(item)

    def _keep_alive(self) -> KeepAlive[Message]:
        return KeepAlive(KEEP_ALIVE_AFTER, chunk(b"", RATE))

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        socket = await super()._connect(on_message, on_lost)
        try:
            await socket.until(lambda: self._wire.is_started, self._client.options.connect_timeout)
        except BaseException:
            await socket.aclose()
            raise
        return socket


def scribe_query(model: str, language: str, terms: Sequence[str], options: STTOptions) -> Query:
    """Return the parameters of the handshake.

    Source: https://elevenlabs.io/docs/api-reference/speech-to-text/v-1-speech-to-text-realtime.
    """
    numbers = {"vad_silence_threshold_secs": options.silence, "vad_threshold": options.speech_threshold}
    query: Query = [
        ("model_id", model),
        ("audio_format", f"pcm_{RATE}"),
        ("commit_strategy", options.commit),
        ("include_timestamps", "true"),
        ("language_code", language) if language else ("include_language_detection", "true"),
        *(("secondary_languages", other.partition("-")[0]) for other in options.other_languages),
        *((name, f"{value:g}") for name, value in numbers.items() if value is not None),
        *(("keyterms", term) for term in terms),
        *([] if options.verbatim else [("no_verbatim", "true")]),
        *([] if options.log else [("enable_logging", "false")]),
    ]
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]

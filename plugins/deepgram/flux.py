"""FluxSTT: the Flux models of Deepgram, which judge turns themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_items, check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.reopening_stream import RATE, Query, ReopeningStream
from vivavoce.plugins.deepgram.client import DeepgramComponent, Region, failures_of
from vivavoce.plugins.deepgram.flux_wire import FORCE_END_TURN, FluxWire
from vivavoce.plugins.deepgram.models import FLUX_MODELS
from vivavoce.plugins.deepgram.options import check_terms
from vivavoce.plugins.deepgram.wire import CLOSE_STREAM

DEFAULT_FLUX_MODEL = "flux-general-en"
MULTI_MODEL = "flux-general-multi"

CHUNK_SECONDS = 0.08
"""Seconds of audio in one message, as the vendor advises."""

SILENT_AFTER = 3.0
"""Seconds between two looks at whether audio comes. Without it the service closes after 10; it has no KeepAlive."""

SILENCE = bytes(round(CHUNK_SECONDS * RATE) * BYTES_PER_SAMPLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxOptions:
    """Rarely changed settings of `deepgram.FluxSTT`.

    Each option: docs/options.md.
    """

    end_threshold: float = 0.7
    """Certainty that ends a turn, 0.5 … 1; 1: it ends after `end_timeout` only."""
    eager_threshold: float | None = None
    """Certainty at which an answer is begun out of sight, 0.3 … 0.9, at most `end_threshold`; it saves some 0.2 s, and
    costs answers that are thrown away. None: it is begun at the end of the turn."""
    end_timeout: float = 5.0
    """Seconds of silence that end any turn, 0.5 … 60."""
    key_terms: tuple[str, ...] = ()
    """Words, names and phrases to expect."""
    language_hints: tuple[str, ...] = ()
    """Languages to expect, such as `("en", "es")`; for `"flux-general-multi"`."""
    numerals: bool = False
    """Whether numbers are written in digits."""
    profanity_filter: bool = False
    """Whether curses are masked."""
    tags: tuple[str, ...] = ()
    """Labels of the requests in the service's reports of usage."""
    opt_out: bool = False
    """Whether the audio is kept out of the vendor's model improvement program; it changes the price."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the request without an option here, such as `redact`; they override the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""
    reopening: ReopeningOptions = field(default_factory=ReopeningOptions)
    """How a lost connection is opened again."""

    def __post_init__(self) -> None:
        for name, value, least, most in (
            ("end_threshold", self.end_threshold, 0.5, 1.0),
            ("eager_threshold", self.eager_threshold, 0.3, 0.9),
            ("end_timeout", self.end_timeout, 0.5, 60.0),
        ):
            check_number(name, value, at_least=least, or_none=name == "eager_threshold")
            if (value or 0) > most:
                raise ConfigurationError(f"need {name} <= {most:g}, got {value!r}")
        if self.eager_threshold is not None and self.eager_threshold > self.end_threshold:
            raise ConfigurationError(
                f"need eager_threshold <= end_threshold, got {self.eager_threshold!r} and {self.end_threshold!r}"
            )
        check_terms(self.key_terms)
        check_items("language_hints", self.language_hints, str)


class FluxSTT(DeepgramComponent, base.STT):
    """A Flux recogniser of Deepgram, or of a server of your own; it judges the ends of turns, so that no turn detector
    is needed. Share one between sessions.

    Args:
        model: `"flux-general-en"`, or `"flux-general-multi"`, which detects languages.
        api_key: Else the environment's `DEEPGRAM_API_KEY`, for hosts of deepgram.com.
        base_url: A server of your own, such as `"https://deepgram.example.com"`.
        region: Where the audio is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    def __init__(
        self,
        model: str = DEFAULT_FLUX_MODEL,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: FluxOptions | None = None,
    ) -> None:
        self._options = options or FluxOptions()
        if not model.startswith("flux-"):
            raise ConfigurationError(f"need a Flux model, one of {FLUX_MODELS}, got {model!r}; use deepgram.STT for it")
        if self._options.language_hints and model != MULTI_MODEL:
            raise ConfigurationError(f"language_hints need model={MULTI_MODEL!r}, got {model!r}; leave them out")
        connection = self._options.connection
        super().__init__(
            "deepgram.FluxSTT", model, api_key=api_key, base_url=base_url, region=region, options=connection
        )

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE, emits_interims=True, emits_end_of_turn=True, emits_words=True, takes_key_terms=True
        )

    async def open(self) -> FluxStream:
        """Connect and return a stream.

        Raises:
            ProviderError: It cannot connect, or the service refuses the settings.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> FluxStream:
        """Open a stream that also expects these words.

        Raises:
            ProviderError: As `open()`.
        """
        check_terms(tuple(terms))
        return await self._opened(tuple(dict.fromkeys((*self._options.key_terms, *terms))))

    async def _opened(self, terms: tuple[str, ...]) -> FluxStream:
        asked = f"asked for model {self._model!r}; known models are {', '.join(FLUX_MODELS)}; check model and options"
        failures = failures_of(self._client, asked=asked, said=terms)
        language = self._model.rpartition("-")[2]
        query = flux_query(self._model, terms, self._options)
        language = "" if language == "multi" else language
        stream = FluxStream(self._client, query, language, self._options.reopening, failures)
        await stream.open()
        return stream


class FluxStream(ReopeningStream[FluxWire]):
    """One session's recognition."""

    def __init__(
        self, client: Client, query: Query, language: str, options: ReopeningOptions, failures: Failures
    ) -> None:
        self._held: list[bytes] = []
        self._held_seconds = 0.0
        self._has_audio = True
        self._silence_sent = 0.0
        """Seconds of silence that the present connection has heard and the stream has not."""
        self._look: asyncio.TimerHandle | None = None
        super().__init__(
            client,
            "v2/listen",
            query,
            failures,
            options,
            lambda at, settle, report: FluxWire(language, at=at, settle=settle, report=report, failures=failures),
            flush=FORCE_END_TURN,
            close=CLOSE_STREAM,
        )

    async def open(self) -> None:
        await super().open()
        self._watch()

    def push(self, frame: AudioFrame) -> None:
        self._held.append(frame.data)
        self._held_seconds += frame.duration
        self._has_audio = True
        if self._held_seconds >= CHUNK_SECONDS - 1e-6:
            self._send_held()

    def flush(self) -> None:
        self._send_held()
        super().flush()

    def discard(self) -> None:
        self._send_held()
        super().discard()
        self._socket.post(FORCE_END_TURN)

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        self._send_held()  # it is kept, since the connection is lost
        super().replay(push, speech_started, flush)

    async def aclose(self) -> None:
        if self._look is not None:
            self._look.cancel()
        await super().aclose()

    def _at(self, seconds: float) -> float:
        return super()._at(max(0.0, seconds - self._silence_sent))

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        self._silence_sent = 0.0
        return await super()._connect(on_message, on_lost)

    def _send_held(self) -> None:
        if self._held:
            self._socket.push(b"".join(self._held), self._held_seconds)
            self._held, self._held_seconds = [], 0.0

    def _watch(self) -> None:
        """Send silence where no audio comes."""
        if not self._has_audio:
            self._send_held()
            if self._socket.post(SILENCE):
                self._silence_sent += CHUNK_SECONDS
        self._has_audio = False
        self._look = asyncio.get_running_loop().call_later(SILENT_AFTER, self._watch)


def flux_query(model: str, terms: Sequence[str], options: FluxOptions) -> Query:
    """Return the parameters of the handshake. Source: https://developers.deepgram.com/reference/speech-to-text/listen-flux."""
    flags = {
        "numerals": options.numerals,
        "profanity_filter": options.profanity_filter,
        "mip_opt_out": options.opt_out,
    }
    query: Query = [
        ("model", model),
        ("encoding", "linear16"),
        ("sample_rate", str(RATE)),
        ("eot_threshold", f"{options.end_threshold:g}"),
        ("eot_timeout_ms", str(round(options.end_timeout * 1000))),
        *((name, "true") for name, is_on in flags.items() if is_on),
        *(("keyterm", term) for term in terms),
        *(("language_hint", language) for language in options.language_hints),
        *(("tag", tag) for tag in options.tags),
    ]
    if options.eager_threshold is not None:
        query.append(("eager_eot_threshold", f"{options.eager_threshold:g}"))
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]

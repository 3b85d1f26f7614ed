"""STT: Cartesia's recognisers (Ink), over their two websockets: one whose model decides turns, and one that is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.net.sockets import Message
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.reopening_stream import RATE, Query, ReopeningStream
from vivavoce.plugins.cartesia import ink_wire, turns_wire
from vivavoce.plugins.cartesia.client import DEFAULT_BASE_URL, asked_of, client_of, failures_of
from vivavoce.plugins.cartesia.ink_wire import InkWire
from vivavoce.plugins.cartesia.models import DEFAULT_STT_MODEL, INK_LANGUAGES, LANGUAGES
from vivavoce.plugins.cartesia.options import check_kind, check_language
from vivavoce.plugins.cartesia.stt_options import RANGES, WHISPER, STTOptions, check_terms
from vivavoce.plugins.cartesia.turns_wire import TurnsWire
from vivavoce.plugins.cartesia.wire import PROVIDER

SILENCE: KeepAlive[Message] = KeepAlive(10.0, bytes(round(0.01 * RATE) * BYTES_PER_SAMPLE))
"""What is sent where no audio comes, so short that the times of later words stay right. Without it the service closes
after 20 s; it has no message for it.
"""


class STT(base.STT):
    """A recogniser of Cartesia, or of a server of your own with its websockets; share one between sessions.

    ink-2 decides the ends of turns, so that no turn detector is needed. ink-whisper, and ink-2 with the option
    `decides_turns=False`, need a VAD in the pipeline, at whose word they settle theirs.

    Args:
        model: `"ink-2"`, which knows English, or `"ink-whisper"`, which knows a hundred languages and has the times of
            words.
        language: A code such as `"en"`.
        api_key: Else the environment's `CARTESIA_API_KEY`, which goes to hosts of cartesia.ai only.
        base_url: A regional endpoint, or a server of your own.
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
        base_url: str = DEFAULT_BASE_URL,
        options: STTOptions | None = None,
    ) -> None:
        self._options = options or STTOptions()
        for name, value in (("model", model), ("language", language)):
            if not check_text(name, value):
                raise ConfigurationError(f"need {name} as a name, got ''")
        check_kind(model, LANGUAGES, "cartesia.TTS")
        check_language(model, language, INK_LANGUAGES)
        self._options.check_model(model)
        self._model, self._language = model, language
        decides = self._options.decides_turns
        self._decides_turns = not model.startswith(WHISPER) if decides is None else decides
        self._client = client_of("cartesia.STT", api_key, base_url, self._options.connection)

    def __repr__(self) -> str:
        return f"cartesia.STT(model={self._model!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE,
            emits_interims=True,
            emits_end_of_turn=self._decides_turns,
            needs_flush=not self._decides_turns,
            emits_words=self._model.startswith(WHISPER),
            takes_key_terms=not self._model.startswith(WHISPER),
        )

    async def open(self) -> InkStream | TurnsStream:
        """Connect and return a stream.

        Raises:
            ProviderError: It cannot connect. The service refuses settings after that: then the stream fails.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> InkStream | TurnsStream:
        """Open a stream that also expects these words.

        Raises:
            CapabilityError: The model takes none.
            ConfigurationError: They are more than the service takes.
            ProviderError: As `open()`.
        """
        if not self.capabilities.takes_key_terms:
            await super().open_with_key_terms(terms)
        both = tuple(dict.fromkeys((*self._options.key_terms, *terms)))
        check_terms(both)
        return await self._opened(both)

    async def aclose(self) -> None:
        """Close the idle connections; open websockets go on.

        Raises:
            ConfigurationError: They belong to another event loop, which still runs.
        """
        await self._client.aclose()

    async def _opened(self, terms: tuple[str, ...]) -> InkStream | TurnsStream:
        asked = asked_of(f"the model {self._model!r} and the language {self._language!r}", self._model, INK_LANGUAGES)
        failures = failures_of(self._client, f"{asked}; check model, language and base_url", terms)
        query = ink_query(self._model, self._language, terms, self._options, decides_turns=self._decides_turns)
        kind = TurnsStream if self._decides_turns else InkStream
        has_times = self._model.startswith(WHISPER)
        reopening = self._options.reopening if has_times else replace(self._options.reopening, overlap=0.0)
        stream = kind(self._client, query, self._language, reopening, failures)
        await stream.open()
        return stream


class InkStream(ReopeningStream[InkWire]):
    """One session's recognition, whose utterances the pipeline ends."""

    def __init__(
        self, client: Client, query: Query, language: str, options: ReopeningOptions, failures: Failures
    ) -> None:
        super().__init__(
            client,
            "stt/websocket",
            query,
            failures,
            options,
            lambda at, settle, report: InkWire(
                language,
                position=lambda: self._socket.position,
                at=at,
                settle=settle,
                report=report,
                failures=failures,
            ),
            flush=ink_wire.FINALIZE,
            close=ink_wire.CLOSE,
        )

    def discard(self) -> None:
        super().discard()
        self._socket.post(ink_wire.FINALIZE)  # its answer is behind the last word that is to be forgotten

    def _keep_alive(self) -> KeepAlive[Message]:
        return SILENCE


class TurnsStream(ReopeningStream[TurnsWire]):
    """One session's recognition, whose model decides turns."""

    def __init__(
        self, client: Client, query: Query, language: str, options: ReopeningOptions, failures: Failures
    ) -> None:
        super().__init__(
            client,
            "stt/turns/websocket",
            query,
            failures,
            options,
            lambda at, settle, report: TurnsWire(
                language, position=lambda: self._socket.position, settle=settle, report=report, failures=failures
            ),
            flush=None,
            close=turns_wire.CLOSE,
        )

    def push(self, frame: AudioFrame) -> None:
        super().push(frame)
        self._wire.pushed()

    def _keep_alive(self) -> KeepAlive[Message]:
        return SILENCE


def ink_query(model: str, language: str, terms: Sequence[str], options: STTOptions, *, decides_turns: bool) -> Query:
    """Return the parameters of the handshake. Source: cartesia 4.2.0, `types/stt/*_finalize_websocket_params.py`."""
    query: Query = [("model", model), ("encoding", "pcm_s16le"), ("sample_rate", str(RATE))]
    query += [("keyterm", term) for term in terms]
    if not decides_turns:
        query.append(("language", language))
    for name in RANGES:
        if (value := getattr(options, name)) is not None:
            is_time = name == "end_timeout"
            query.append((f"turn_{name}_ms", str(round(value * 1000))) if is_time else (f"turn_{name}", f"{value:g}"))
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]

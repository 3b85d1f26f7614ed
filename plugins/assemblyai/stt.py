"""STT: the streaming recognisers of AssemblyAI, over their websocket.

Why the wire is ours and not the vendor's SDK: one pool, one policy of limits and one table of errors for all
providers, and no second network stack. The SDK proves the twin instead (`tests/plugins/assemblyai`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.reopening_stream import RATE, Query, ReopeningStream
from vivavoce.plugins.assemblyai.client import PROVIDER, Region, client_of, failures_of
from vivavoce.plugins.assemblyai.models import MODELS, UNIVERSAL_MODELS, is_pro, languages_of
from vivavoce.plugins.assemblyai.options import STTOptions, check_terms
from vivavoce.plugins.assemblyai.wire import FORCE_ENDPOINT, TERMINATE, TurnRules, TurnWire

DEFAULT_STT_MODEL = "universal-3-6-pro"

CHUNK_SECONDS = 0.05
"""Seconds of audio in one message; the service refuses shorter ones."""

CHUNK = round(CHUNK_SECONDS * RATE) * BYTES_PER_SAMPLE

AT_ONCE = 0.1
"""Seconds of silence that settle words where the service does not decide turns."""

MOST_LANGUAGES = 10


class STT(base.STT):
    """A streaming recogniser of AssemblyAI, or of a server of your own that has its API; share one between sessions.

    It judges the ends of turns, so that no turn detector is needed; with the option `decides_turns=False` it settles
    words, and the pipeline's VAD and turn detector decide.

    Args:
        model: The Universal-3 models hear many languages and format what they hear; `"universal-streaming-english"` and
            `"universal-streaming-multilingual"` report word by word.
        languages: Languages to expect, such as `("en", "es")`, for the Universal-3 models; empty: the model detects
            them.
        api_key: Else the environment's `ASSEMBLYAI_API_KEY`, for hosts of assemblyai.com.
        base_url: A server of your own, such as `"https://assemblyai.example.com"`.
        region: Where the audio is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        model: str = DEFAULT_STT_MODEL,
        *,
        languages: Sequence[str] = (),
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: STTOptions | None = None,
    ) -> None:
        self._model = model
        self._options = options or STTOptions()
        self._languages = _checked_languages(model, languages)
        if self._options.mode and not is_pro(model):
            raise ConfigurationError(f"mode needs a Universal-3 model, got model {model!r}; leave it out, or change it")
        if self._options.end_threshold is not None and is_pro(model):
            raise ConfigurationError(
                f"end_threshold needs one of {', '.join(UNIVERSAL_MODELS)}, got model {model!r}; use min_silence"
            )
        self._client = client_of(
            "assemblyai.STT", api_key=api_key, base_url=base_url, region=region, options=self._options.connection
        )

    @property
    def model(self) -> str:
        return self._model

    def __repr__(self) -> str:
        return f"assemblyai.STT(model={self._model!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE,
            emits_interims=True,
            emits_end_of_turn=self._options.decides_turns,
            emits_words=True,
            diarizes=self._options.diarize,
            takes_key_terms=True,
        )

    async def open(self) -> TurnStream:
        """Connect and return a stream whose settings the service has accepted.

        Raises:
            ProviderError: It cannot connect, or the service refuses key or settings.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> TurnStream:
        """Open a stream that also expects these words.

        Raises:
            ConfigurationError: The service does not take one of them, or not so many.
            ProviderError: As `open()`.
        """
        together = tuple(dict.fromkeys((*self._options.key_terms, *terms)))
        check_terms(together)
        return await self._opened(together)

    async def aclose(self) -> None:
        """Close the idle connections; open websockets go on.

        Raises:
            ConfigurationError: They belong to another event loop, which still runs.
        """
        await self._client.aclose()

    async def _opened(self, terms: tuple[str, ...]) -> TurnStream:
        options = self._options
        failures = failures_of(self._client, asked=_asked(self._model, self._languages), said=terms)
        own = languages_of(self._model)
        rules = TurnRules(
            decides_turns=options.decides_turns,
            eager_threshold=options.eager_threshold,
            formats_later=options.format and self._model in UNIVERSAL_MODELS,
            languages=self._languages if len(self._languages) == 1 else own if len(own) == 1 else (),
        )
        query = turn_query(self._model, self._languages, terms, options)
        stream = TurnStream(self._client, query, rules, options.reopening, failures)
        await stream.open()
        return stream


class TurnStream(ReopeningStream[TurnWire]):
    """One session's recognition."""

    def __init__(
        self, client: Client, query: Query, rules: TurnRules, options: ReopeningOptions, failures: Failures
    ) -> None:
        self._held = b""
        """Audio that is too short for a message."""
        super().__init__(
            client,
            "v3/ws",
            query,
            failures,
            options,
            lambda at, settle, report: TurnWire(rules, at=at, settle=settle, report=report, failures=failures),
            flush=FORCE_ENDPOINT,
            close=TERMINATE,
        )

    def push(self, frame: AudioFrame) -> None:
        data = self._held + frame.data
        for at in range(0, len(data) - CHUNK + 1, CHUNK):
            self._socket.push(data[at : at + CHUNK], CHUNK_SECONDS)
        self._held = data[len(data) - len(data) % CHUNK :]
        self._wire.pushed(self._socket.position)

    def discard(self) -> None:
        super().discard()
        self._socket.post(FORCE_ENDPOINT)

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        super().replay(push, speech_started, flush)
        if self._held:
            push(AudioFrame(self._held, RATE))

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        """Connect, and wait for `Begin`: key and settings are checked behind the handshake."""
        socket = await super()._connect(on_message, on_lost)
        try:
            await socket.until(lambda: self._wire.is_ready, self._client.options.connect_timeout)
        except BaseException:
            await socket.aclose(TERMINATE)
            raise
        return socket


def turn_query(model: str, languages: Sequence[str], terms: Sequence[str], options: STTOptions) -> Query:
    """Return the parameters of the handshake.

    Source: https://www.assemblyai.com/docs/streaming/api-spec/streaming-websocket, and assemblyai 1.8.2,
    `streaming/v3/models.py`.
    """
    least = options.min_silence
    if least is None and not options.decides_turns:
        least = AT_ONCE
    most = options.max_silence
    if most is None and not options.decides_turns:
        most = least
    milliseconds = (("min_turn_silence", least), ("max_turn_silence", most))
    flags = {
        "format_turns": options.format and model in UNIVERSAL_MODELS,
        "language_detection": languages_of(model) != ("en",),
        "speaker_labels": options.diarize,
    }
    query: Query = [
        ("speech_model", model),
        ("encoding", "pcm_s16le"),
        ("sample_rate", str(RATE)),
        *((name, "true") for name, is_on in flags.items() if is_on),
        *((name, str(round(seconds * 1000))) for name, seconds in milliseconds if seconds is not None),
    ]
    if options.end_threshold is not None:
        query.append(("end_of_turn_confidence_threshold", f"{options.end_threshold:g}"))
    if options.mode:
        query.append(("mode", options.mode))
    if options.max_speakers is not None:
        query.append(("max_speakers", str(options.max_speakers)))
    if languages:
        query.append(("language_codes", json.dumps(languages)))
    if terms:
        query.append(("keyterms_prompt", json.dumps(terms, ensure_ascii=False)))
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]


def _checked_languages(model: str, languages: Sequence[str]) -> tuple[str, ...]:
    """Return the languages as the service writes them: a regional tag such as `en-US` is one of its language.

    Raises:
        ConfigurationError: They are no tags, too many, or the model takes none.
    """
    codes = () if isinstance(languages, str) else tuple(languages)
    if isinstance(languages, str) or not all(isinstance(code, str) and code for code in codes):
        raise ConfigurationError(f'need languages as a tuple such as ("en", "es"), got {languages!r}')
    found = tuple(dict.fromkeys(code.partition("-")[0].casefold() for code in codes))
    if found and not is_pro(model):
        has = ", ".join(languages_of(model)) or "its own"
        raise ConfigurationError(
            f"languages need a Universal-3 model, got model {model!r}, which has {has}; leave them out, or change it"
        )
    if len(found) > MOST_LANGUAGES:
        raise ConfigurationError(f"need at most {MOST_LANGUAGES} languages, got {len(found)}; empty: it detects them")
    return found


def _asked(model: str, languages: Sequence[str]) -> str:
    asked = f"asked for model {model!r}" + (f" with languages {', '.join(languages)}" if languages else "")
    known = languages_of(model)
    if model not in MODELS:
        return f"{asked}; known models are {', '.join(MODELS)}; check model"
    if known and any(code not in known for code in languages):
        return f"{asked}; {model} has {', '.join(known)}; check languages"
    return f"{asked}; check both and the options"

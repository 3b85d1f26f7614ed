"""STT: the Nova models of Deepgram, over their websocket.

Why the wire is ours and not the vendor's SDK: one pool, one policy of limits and one table of errors for all
providers, and no second network stack. The SDK proves the twin instead (`tests/plugins/deepgram`).
"""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.outbox import KeepAlive
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions
from vivavoce.pipelines.net.sockets import Message
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.reopening_stream import RATE, Query, ReopeningStream
from vivavoce.plugins.deepgram.client import DeepgramComponent, Region, failures_of
from vivavoce.plugins.deepgram.models import FLUX_MODELS, NOVA_MODELS, has_language, languages_of
from vivavoce.plugins.deepgram.options import STTOptions, check_terms
from vivavoce.plugins.deepgram.wire import CLOSE_STREAM, FINALIZE, KEEP_ALIVE, KEEP_ALIVE_AFTER, NovaWire

DEFAULT_STT_MODEL = "nova-3"


class STT(DeepgramComponent, base.STT):
    """A Nova recogniser of Deepgram, or of a server of your own that has its API; share one between sessions.

    It settles words by itself; with a VAD in the pipeline they are settled as soon as speech ends.

    Args:
        language: BCP 47 tag such as `"en"`, `"de"`; `"multi"`: the model detects the languages, and follows a change.
        api_key: Else the environment's `DEEPGRAM_API_KEY`, for hosts of deepgram.com.
        base_url: A server of your own, such as `"https://deepgram.example.com"`.
        region: Where the audio is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

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
        self._language = language
        self._options = options or STTOptions()
        if model in FLUX_MODELS:
            raise ConfigurationError(f"model {model!r} is a Flux model, which has another API; use deepgram.FluxSTT")
        if self._options.key_terms and not _takes_key_terms(model):
            raise ConfigurationError(
                f"key_terms need a Nova-3 model, got model {model!r}; leave them out, or change it"
            )
        connection = self._options.connection
        super().__init__("deepgram.STT", model, api_key=api_key, base_url=base_url, region=region, options=connection)

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(
            sample_rate=RATE,
            emits_interims=True,
            emits_words=True,
            diarizes=self._options.diarize,
            takes_key_terms=_takes_key_terms(self._model),
        )

    async def open(self) -> NovaStream:
        """Connect and return a stream.

        Raises:
            ProviderError: It cannot connect, or the service refuses the settings.
        """
        return await self._opened(self._options.key_terms)

    async def open_with_key_terms(self, terms: Sequence[str]) -> NovaStream:
        """Open a stream that also expects these words.

        Raises:
            CapabilityError: The model takes none.
            ProviderError: As `open()`.
        """
        if not _takes_key_terms(self._model):
            await super().open_with_key_terms(terms)
        check_terms(tuple(terms))
        return await self._opened(tuple(dict.fromkeys((*self._options.key_terms, *terms))))

    async def _opened(self, terms: tuple[str, ...]) -> NovaStream:
        failures = failures_of(self._client, asked=_asked(self._model, self._language), said=terms)
        query = nova_query(self._model, self._language, terms, self._options)
        stream = NovaStream(self._client, query, self._language, self._options.reopening, failures)
        await stream.open()
        return stream


class NovaStream(ReopeningStream[NovaWire]):
    """One session's recognition."""

    def __init__(
        self, client: Client, query: Query, language: str, options: ReopeningOptions, failures: Failures
    ) -> None:
        super().__init__(
            client,
            "v1/listen",
            query,
            failures,
            options,
            lambda at, settle, report: NovaWire(language, at=at, settle=settle, report=report, failures=failures),
            flush=FINALIZE,
            close=CLOSE_STREAM,
        )

    def _keep_alive(self) -> KeepAlive[Message]:
        return KeepAlive(KEEP_ALIVE_AFTER, KEEP_ALIVE)


def nova_query(model: str, language: str, terms: Sequence[str], options: STTOptions) -> Query:
    """Return the parameters of the handshake. Source: https://developers.deepgram.com/reference/listen-live."""
    flags = {
        "punctuate": options.punctuate,
        "smart_format": options.smart_format,
        "filler_words": options.filler_words,
        "numerals": options.numerals,
        "profanity_filter": options.profanity_filter,
        "diarize": options.diarize,
        "mip_opt_out": options.opt_out,
    }
    query: Query = [
        ("model", model),
        ("language", language),
        ("encoding", "linear16"),
        ("sample_rate", str(RATE)),
        ("channels", "1"),
        ("interim_results", "true"),
        ("endpointing", "false" if options.endpointing is None else _milliseconds(options.endpointing)),
        *((name, "true") for name, is_on in flags.items() if is_on),
        *(("keyterm", term) for term in terms),
        *(("redact", kind) for kind in options.redact),
        *(("tag", tag) for tag in options.tags),
    ]
    if options.utterance_end is not None:
        query.append(("utterance_end_ms", _milliseconds(options.utterance_end)))
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]


def _milliseconds(seconds: float) -> str:
    return str(round(seconds * 1000))


def _takes_key_terms(model: str) -> bool:
    return model.startswith("nova-3")


def _asked(model: str, language: str) -> str:
    asked = f"asked for model {model!r} with language {language!r}"
    if model not in NOVA_MODELS:
        return f"{asked}; known models are {', '.join(NOVA_MODELS)}; check model"
    if not has_language(model, language):
        return f"{asked}; {model} has {', '.join(languages_of(model))}; check language"
    return f"{asked}; check both and the options"

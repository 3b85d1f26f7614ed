"""TTS: the Aura voices of Deepgram, streamed as PCM, one request for each sentence.

Why requests and not the websocket of `/v1/speak`:

* It takes 20 `Flush` in 60 s (https://developers.deepgram.com/docs/tts-ws-flush), so one for each answer and none for
  each sentence. Without one nothing tells where the audio of a sentence ends, and the voice has no word times: heard
  text would be estimated over a whole answer. With a request for each sentence it is certain to the sentence.
* It has no contexts: audio that was on its way when an answer was cut comes until `Cleared`, and a socket on which that
  does not come is lost. A request that is cut ends with its connection; others of the pool are warm.
* It saves the handshake behind a cut, and no more: sentences of one answer share a connection in either form.

The Flux voices (`deepgram.FluxTTS`) have a websocket without these limits.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.pipelines.tts.pieces import WholeSamples, pieces
from vivavoce.plugins.deepgram.client import DeepgramComponent, Region, failures_of
from vivavoce.plugins.deepgram.models import AURA_2_VOICES, voices_of

DEFAULT_VOICE = "aura-2-thalia-en"

RATE = 24_000
"""Hz of the audio."""

MAX_CHARACTERS = 2000
"""Length of the text of one request. Source: https://developers.deepgram.com/reference/api-rate-limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `deepgram.TTS`.

    Each option: docs/options.md.
    """

    speed: float | None = None
    """How fast the voice speaks, 0.7 … 1.5; 1 is normal. Aura-2's English and Spanish voices take it."""
    tags: tuple[str, ...] = ()
    """Labels of the requests in the service's reports of usage."""
    opt_out: bool = False
    """Whether the texts are kept out of the vendor's model improvement program; it changes the price."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the request without an option here; they override the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("speed", self.speed, at_least=0.7, or_none=True)
        if (self.speed or 0) > 1.5:
            raise ConfigurationError(f"need speed <= 1.5, got {self.speed!r}")


class TTS(DeepgramComponent, base.TTS):
    """An Aura voice of Deepgram, or of a server of your own; share one between sessions of one event loop.

    The API has no word times: heard text is estimated.

    Args:
        voice: With its language, such as `"aura-2-thalia-en"`.
        api_key: Else the environment's `DEEPGRAM_API_KEY`, for hosts of deepgram.com.
        base_url: A server of your own, such as `"https://deepgram.example.com"`.
        region: Where the text is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    def __init__(
        self,
        voice: str = DEFAULT_VOICE,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: TTSOptions | None = None,
    ) -> None:
        self._options = options or TTSOptions()
        if voice.startswith("flux-"):
            raise ConfigurationError(f"voice {voice!r} is a Flux voice, which has another API; use deepgram.FluxTTS")
        connection = self._options.connection
        super().__init__("deepgram.TTS", voice, api_key=api_key, base_url=base_url, region=region, options=connection)

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it closes the HTTP response.

        Raises:
            ProviderError: There is no audio, or it broke off; the request is sent once.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        has_audio = False
        for piece in pieces(text, MAX_CHARACTERS):
            heading, samples = piece, WholeSamples()
            async with aclosing(self._audio(piece)) as audio:
                async for data in audio:
                    if whole := samples.push(data):
                        yield AudioChunk(AudioFrame(whole, RATE), text=heading)
                        heading, has_audio = "", True
        if has_audio:
            yield AudioChunk(AudioFrame(b"", RATE), is_end=True)

    async def _audio(self, text: str) -> AsyncGenerator[bytes, None]:
        failures = failures_of(self._client, asked=_asked(self._model), said=(text,))
        query = speak_query(self._model, self._options)
        async with self._client.request("v1/speak", failures, json={"text": text}, query=query) as response:
            if response.kind.startswith("text/") or response.kind.endswith("json"):
                raise failures.malformed("audio", f"{response.kind}; check base_url")
            async with aclosing(response.chunks()) as chunks:
                async for data in chunks:
                    yield data


def speak_query(voice: str, options: TTSOptions) -> list[tuple[str, str]]:
    """Return the parameters of a request. Source: https://developers.deepgram.com/reference/text-to-speech/speak-request."""
    query = [("model", voice), ("encoding", "linear16"), ("container", "none"), ("sample_rate", str(RATE))]
    if options.speed is not None:
        query.append(("speed", f"{options.speed:g}"))
    if options.opt_out:
        query.append(("mip_opt_out", "true"))
    query += [("tag", tag) for tag in options.tags]
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]


def _asked(voice: str) -> str:
    language = voice.rpartition("-")[2]
    known = "known voices are" if language in AURA_2_VOICES else "voices are aura-2-NAME-LANGUAGE, such as"
    return f"asked for voice {voice!r}; {known} {', '.join(voices_of(language))}; check voice"

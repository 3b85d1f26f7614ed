"""TTS: OpenAI's voices, streamed as PCM over the official SDK."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.plugins.openai.client import SDKClient, checked_model
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.failures import openai_failures, provider_error, sdk_errors
from vivavoce.plugins.openai.wire import PROVIDER, drop_nones

if TYPE_CHECKING:
    import httpx2

DEFAULT_TTS_MODEL = "gpt-4o-mini-tts"
RATE = 24000
"""Hz of the API's PCM."""

MAX_CHARACTERS = 4096
"""Length of the text of one request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `openai.TTS`.

    Each option: docs/options.md.
    """

    instructions: str = ""
    """How to speak, such as "calm and slow"; older models accept none."""
    speed: float | None = None
    """How fast the voice speaks, 0.25 … 4; 1 is normal."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("speed", self.speed, at_least=0.25, or_none=True)
        if (self.speed or 0) > 4:
            raise ConfigurationError(f"need speed <= 4, got {self.speed!r}")


class TTS(OpenAIComponent[SDKClient], base.TTS):
    """A voice of OpenAI, or of a server that has its `audio/speech`; share one between sessions of one event loop.

    The API has no word times: heard text is estimated.

    Args:
        model: `DEFAULT_TTS_MODEL` unless given; a server at `base_url` needs one.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
    Raises:
        ConfigurationError: The SDK is not installed, the key or the model is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        voice: str = "marin",
        api_key: str | None = None,
        base_url: str | None = None,
        options: TTSOptions | None = None,
    ) -> None:
        self._voice = voice
        self._options = options or TTSOptions()
        client = SDKClient(
            "openai.TTS",
            api_key=api_key,
            base_url=base_url,
            options=self._options.connection,
            modules=("openai.resources.audio",),
        )
        super().__init__(checked_model(model, base_url, DEFAULT_TTS_MODEL), client)

    def __repr__(self) -> str:
        return f"TTS(model={self._model!r}, voice={self._voice!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it closes the HTTP response.

        Raises:
            ProviderError: As `failures` and `wire` map it; the SDK makes no retries.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        has_audio = False
        for piece in pieces(text):
            heading, rest = piece, b""
            async for data in self._audio(piece):
                data = rest + data
                whole = len(data) - len(data) % BYTES_PER_SAMPLE
                data, rest = data[:whole], data[whole:]
                if data:
                    yield AudioChunk(AudioFrame(data, RATE), text=heading)
                    heading, has_audio = "", True
        if has_audio:
            yield AudioChunk(AudioFrame(b"", RATE), is_end=True)

    async def _audio(self, text: str) -> AsyncGenerator[bytes, None]:
        sdk = self._client.here()
        body: dict[str, Any] = drop_nones(
            model=self._model,
            voice=self._voice,
            input=text,
            response_format="pcm",
            speed=self._options.speed,
            instructions=self._options.instructions or None,
        )
        try:
            request = sdk.audio.speech.with_streaming_response.create(**body, extra_headers=self._client.headers)
            async with request as response:
                _check_kind(response.headers)
                async for data in response.iter_bytes():
                    yield data
            return
        except sdk_errors() as error:
            failure = provider_error(error, openai_failures(self._client.secrets, lambda: (text,)))
        raise failure


def pieces(text: str) -> Iterator[str]:
    """Cut a text into pieces for one request each, at spaces if possible; none for a text without words."""
    if not any(character.isalnum() for character in text):
        return
    while len(text) > MAX_CHARACTERS:
        at = text.rfind(" ", 1, MAX_CHARACTERS)
        at = MAX_CHARACTERS if at < 0 else at
        yield text[:at]
        text = text[at:]
    yield text


def _check_kind(headers: httpx2.Headers) -> None:
    kind = headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind.startswith("text/") or kind.endswith("json"):
        raise ProviderProtocolError(
            f"needed audio, got {kind}; check base_url, and whether the server has audio/speech", provider=PROVIDER
        )

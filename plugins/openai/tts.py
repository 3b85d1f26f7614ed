"""TTS: OpenAI's voices, streamed as PCM."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.plugins.openai.client import checked_model, net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.failures import openai_failures
from vivavoce.plugins.openai.wire import PROVIDER, drop_nones

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


class TTS(OpenAIComponent[Client], base.TTS):
    """A voice of OpenAI, or of a server that has its `audio/speech`; share one between sessions of one event loop.

    The API has no word times: heard text is estimated.

    Args:
        model: `DEFAULT_TTS_MODEL` unless given; a server at `base_url` needs one.
        api_key: Else the environment's `OPENAI_API_KEY`, if there is no `base_url`.
    Raises:
        ConfigurationError: The key or the model is missing, or an argument is invalid.
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
        client = net_client("openai.TTS", api_key=api_key, base_url=base_url, options=self._options.connection)
        super().__init__(checked_model(model, base_url, DEFAULT_TTS_MODEL), client)

    def __repr__(self) -> str:
        return f"TTS(model={self._model!r}, voice={self._voice!r}, base_url={self._client.shown_url!r})"

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
        for piece in pieces(text):
            heading, rest = piece, b""
            async with aclosing(self._audio(piece)) as audio:
                async for data in audio:
                    data = rest + data
                    whole = len(data) - len(data) % BYTES_PER_SAMPLE
                    data, rest = data[:whole], data[whole:]
                    if data:
                        yield AudioChunk(AudioFrame(data, RATE), text=heading)
                        heading, has_audio = "", True
        if has_audio:
            yield AudioChunk(AudioFrame(b"", RATE), is_end=True)

    async def _audio(self, text: str) -> AsyncGenerator[bytes, None]:
        body: dict[str, Any] = drop_nones(
            model=self._model,
            voice=self._voice,
            input=text,
            response_format="pcm",
            speed=self._options.speed,
            instructions=self._options.instructions or None,
        )
        failures = openai_failures(self._client.secrets, lambda: (text,))
        async with self._client.request("audio/speech", failures, json=body) as response:
            if response.kind.startswith("text/") or response.kind.endswith("json"):
                problem = f"needed audio, got {response.kind}; check base_url, and whether the server has audio/speech"
                raise ProviderProtocolError(problem, provider=PROVIDER)
            async with aclosing(response.chunks()) as chunks:
                async for data in chunks:
                    yield data


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

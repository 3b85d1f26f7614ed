"""TTS: the voices of OpenAI and of servers with its `audio/speech`, streamed as PCM or as a WAV file."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, get_args

from vivavoce.pipelines.core.checks import check_choice, check_number, check_whole
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderProtocolError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.at_rate import at_rate
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.pipelines.tts.pieces import WholeSamples, pieces
from vivavoce.plugins.openai.client import net_client
from vivavoce.plugins.openai.component import OpenAIComponent
from vivavoce.plugins.openai.endpoint import Azure, checked_model, find_endpoint
from vivavoce.plugins.openai.servers import SERVERS, ServerName, SpeechFormat
from vivavoce.plugins.openai.wav_head import WavHead
from vivavoce.plugins.openai.wire import PROVIDER, drop_nones

DEFAULT_TTS_MODEL = "gpt-4o-mini-tts"
MAX_CHARACTERS = 4096
"""Length of the text of one request, if the server has no other limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TTSOptions:
    """Rarely changed settings of `openai.TTS`.

    Each option: docs/options.md.
    """

    instructions: str = ""
    """How to speak, such as "calm and slow"; older models accept none."""
    speed: float | None = None
    """How fast the voice speaks, 0.25 … 4; 1 is normal."""
    response_format: SpeechFormat | None = None
    """`pcm` begins at once; `wav` says its own rate, for a server without PCM. None: as the server needs it, else
    `pcm`."""
    sample_rate: int | None = None
    """Hz of the server's PCM; WAV of another rate is converted. None: that of the named server, else 24000."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("speed", self.speed, at_least=0.25, or_none=True)
        if (self.speed or 0) > 4:
            raise ConfigurationError(f"need speed <= 4, got {self.speed!r}")
        check_choice("response_format", self.response_format, (None, *get_args(SpeechFormat)))
        check_whole("sample_rate", self.sample_rate, at_least=8000, or_none=True)


class TTS(OpenAIComponent[Client], base.TTS):
    """A voice of OpenAI, or of a server that has its `audio/speech`; share one between sessions of one event loop.

    The API has no word times: heard text is estimated.

    Args:
        model: `DEFAULT_TTS_MODEL` unless given; a server at `base_url` needs one.
        voice: One of the server's, which alone knows them; else the usual one of OpenAI or of the named server.
        server, api_key, base_url: As for `openai.LLM`.
    Raises:
        ConfigurationError: The server has no voices, the key, model or voice is missing, or an argument is invalid.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        voice: str = "",
        server: ServerName | Azure | None = None,
        api_key: str | None = None,
        base_url: str | None = None,
        options: TTSOptions | None = None,
    ) -> None:
        self._options = options or TTSOptions()
        endpoint = find_endpoint(server, model=model, api_key=api_key, base_url=base_url)
        voices = endpoint.server.voices
        if voices is None:
            raise ConfigurationError(f"{endpoint.server.name} has no voices; those with voices: {with_voices()}")
        self._voices = voices
        self._voice = voice or voices.voice
        if not self._voice:
            raise ConfigurationError(f"{endpoint.server.name} needs voice, got {voice!r}; the server's page lists them")
        client = net_client("openai.TTS", endpoint, self._options.connection)
        super().__init__(checked_model(endpoint, model, voices.model), endpoint, client)

    def __repr__(self) -> str:
        return f"openai.TTS(model={self._model!r}, voice={self._voice!r}, base_url={self._client.shown_url!r})"

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=self._rate)

    @property
    def _rate(self) -> int:
        return self._options.sample_rate or self._voices.sample_rate

    @property
    def _format(self) -> SpeechFormat:
        return self._options.response_format or self._voices.response_format

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it closes the HTTP response.

        Raises:
            ProviderError: There is no audio, or it broke off; the request is sent once.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        has_audio = False
        for piece in pieces(text, self._voices.max_characters):
            async with aclosing(at_rate(self._speak(piece), self._rate)) as chunks:
                async for chunk in chunks:
                    has_audio |= chunk.frame.samples > 0
                    yield chunk
        if has_audio:
            yield AudioChunk(AudioFrame(b"", self._rate), is_end=True)

    async def _speak(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        heading, samples, rate = text, WholeSamples(), self._rate
        head = WavHead() if self._format == "wav" else None
        async with aclosing(self._audio(text)) as audio:
            async for data in audio:
                if head is not None:
                    data = head.push(data)
                    if head.sample_rate is None:
                        continue
                    rate = head.sample_rate
                if whole := samples.push(data):
                    yield AudioChunk(AudioFrame(whole, rate), text=heading)
                    heading = ""

    async def _audio(self, text: str) -> AsyncGenerator[bytes, None]:
        body: dict[str, Any] = drop_nones(
            model=self._model,
            voice=self._voice,
            input=text,
            response_format=self._format,
            speed=self._options.speed,
            instructions=self._options.instructions or None,
        )
        signature = await self._endpoint.sign()
        asked = f"asked for model {self._model!r} with voice {self._voice!r}"
        failures = self._failures(lambda: (text,), signature, asked=asked)
        async with self._client.request("audio/speech", failures, json=body, headers=signature) as response:
            if response.kind.startswith("text/") or response.kind.endswith("json"):
                problem = f"needed audio, got {response.kind}; check base_url, and whether the server has audio/speech"
                raise ProviderProtocolError(problem, provider=PROVIDER)
            async with aclosing(response.chunks()) as chunks:
                async for data in chunks:
                    yield data


def with_voices() -> str:
    """Return the names of the servers with voices."""
    return ", ".join(server.name for server in SERVERS if server.voices is not None)

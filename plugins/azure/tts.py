"""TTS: the voices of Azure Speech over a websocket that stays open, with the times of their words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.core.words import unless_blank
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.pool import Address, Pool
from vivavoce.pipelines.net.tokens import TokenProvider
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.pipelines.tts.contexts import CLOSE_LIMIT, ContextSpeech, speak_once
from vivavoce.plugins.azure.client import AzureComponent, Service
from vivavoce.plugins.azure.models import DEFAULT_VOICE, VOICES_PAGE
from vivavoce.plugins.azure.options import TTSOptions
from vivavoce.plugins.azure.speaking import Connection, Turn
from vivavoce.plugins.azure.synthesis import document, synthesis_context

STREAMED = Service(
    "tts",
    in_region="cognitiveservices/websocket/v2",
    in_resource="tts/cognitiveservices/websocket/v2",
    in_container="cognitiveservices/websocket/v1",
)

MAX_IDLE = 150.0
"""Seconds that a connection without speech is kept."""

MAX_AGE = 540.0
"""Seconds after which a connection begins no further speech: the service ends it after 600, which is also the life of a
token. Source: https://github.com/microsoft/cognitive-services-speech-sdk-js/issues/800."""

STOP_LIMIT = 0.5
"""Seconds in which the service ends a turn that was cut; else the connection is closed, which ends it too."""


class TTS(AzureComponent, base.TTS):
    """A voice of Azure Speech, or of a container of your own; share one between sessions of one event loop.

    Args:
        voice: The name of a voice, such as `DEFAULT_VOICE`: https://aka.ms/speech/voices.
        language: A locale such as `"de-DE"` that a multilingual voice speaks; empty: that of the text.
        api_key, token_provider, region, base_url: As for `azure.STT`.
    Raises:
        ConfigurationError: The key or the region is missing, or an argument is invalid.
    """

    def __init__(
        self,
        voice: str = DEFAULT_VOICE,
        *,
        language: str = "",
        api_key: str | None = None,
        token_provider: TokenProvider | None = None,
        region: str | None = None,
        base_url: str | None = None,
        options: TTSOptions | None = None,
    ) -> None:
        self._options = options or TTSOptions()
        if not check_text("voice", voice).strip():
            raise ConfigurationError(f"need voice as a name such as {DEFAULT_VOICE!r}, got {voice!r}")
        if check_text("language", language) and not ("-" in language and language.replace("-", "").isalnum()):
            raise ConfigurationError(f"language must be a locale such as 'de-DE', got {language!r}")
        self._voice, self._language = voice, language
        super().__init__(
            "azure.TTS",
            service_of(self._options),
            api_key=api_key,
            token_provider=token_provider,
            region=region,
            base_url=base_url,
            options=self._options.connection,
        )
        self._streams = self.is_newest and not self._options.needs_documents
        self._speaking = OneLoop("azure.TTS", self._make_speaking, lambda speaking: speaking.aclose())
        self._address = Address(self.address)

    def __repr__(self) -> str:
        return f"azure.TTS(voice={self._voice!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._voice

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=self._options.sample_rate, emits_words=True, streams_text=self._streams)

    def warm(self) -> None:
        """Connect in the background, so that the first speech need not wait for it.

        Raises:
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        self._speaking.here().pool.warm(self._address)

    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it stops the speech at the vendor.

        Raises:
            ProviderError: It cannot connect, or the service refuses or breaks off.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        return speak_once(self._speak, text, self._options.sample_rate)

    def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes, with the prosody of one text; see the port.

        Raises:
            CapabilityError: This voice takes documents only: `TTSOptions.streams_text`.
            ProviderError: As `synthesize()`.
        """
        return self._speak(_from_first_word(text)) if self._streams else super().stream(text)

    async def aclose(self) -> None:
        """Close the connections; speech that still runs fails.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._speaking.aclose()
        await super().aclose()

    async def _speak(self, pieces: AsyncGenerator[str, None]) -> AsyncGenerator[AudioChunk, None]:
        speaking = self._speaking.here()
        async with aclosing(pieces):
            lease = speaking.pool.lease(self._address)
            connection = await lease.__aenter__()
            speech = ContextSpeech(connection.begin, "azure")
            try:
                speech.start(pieces)
                async with aclosing(speech.chunks(self._options.sample_rate)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                try:
                    await speech.aclose()
                finally:
                    await speaking.give_back(lease, connection)

    def _make_speaking(self) -> _Speaking:
        return _Speaking(Pool(self._connect, name="azure.TTS", max_age=MAX_AGE, max_idle=MAX_IDLE), self._address)

    async def _connect(self, _: Address) -> Connection:
        style = f" and style {self._options.style!r}" if self._options.style else ""
        connection = Connection(
            self,
            [("deploymentId", self._options.deployment)] if self._options.deployment else [],
            f"asked for voice {self._voice!r}{style}; voices, styles and their regions: {VOICES_PAGE}; check voice",
            synthesis_context(self._voice, self._language, self._options, streams=self._streams),
            None if self._streams else self._document,
            self._client.options.read_timeout,
        )
        await connection.open()
        return connection

    def _document(self, text: str) -> str:
        return document(text, self._voice, self._language, self._options)


class _Speaking:
    """The connections of a voice in one event loop, and the ends of speeches that were cut."""

    def __init__(self, pool: Pool[Connection], address: Address) -> None:
        self.pool = pool
        self._address = address
        self._tasks = OwnedTasks("azure speech")

    async def give_back(self, lease: AbstractAsyncContextManager[Connection], connection: Connection) -> None:
        """Give the connection to the next speech, as soon as the service has ended a turn that is cut."""
        if connection.turn is None or connection.turn.has_ended:
            await lease.__aexit__(None, None, None)
        else:
            self._tasks.start(self._wait_for_end(lease, connection, connection.turn), "end of a turn")

    async def aclose(self) -> None:
        """Close all connections."""
        await self.pool.aclose()
        await self._tasks.finish(CLOSE_LIMIT)

    async def _wait_for_end(
        self, lease: AbstractAsyncContextManager[Connection], connection: Connection, turn: Turn
    ) -> None:
        try:
            if not await turn.ended(STOP_LIMIT):
                await connection.aclose()
        finally:
            await lease.__aexit__(None, None, None)
        self.pool.warm(self._address)  # unless this one is still there


def service_of(options: TTSOptions) -> Service:
    """Return the addresses of the form of the service that these options need."""
    if not options.needs_documents:
        return STREAMED
    path = "cognitiveservices/websocket/v1"
    return Service("voice" if options.deployment else "tts", path, f"tts/{path}", path)


async def _from_first_word(text: AsyncIterator[str]) -> AsyncGenerator[str, None]:
    """Yield the pieces, the first one with a word in it."""
    before, has_begun = "", False
    async for piece in text:
        before += piece
        has_begun = has_begun or bool(unless_blank(before))
        if has_begun and before:
            yield before
            before = ""

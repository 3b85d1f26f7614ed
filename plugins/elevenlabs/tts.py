"""TTS: ElevenLabs' voices, streamed over one websocket, with the times of their words."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, aclosing

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.pool import Address, Pool
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.pipelines.tts.contexts import ContextSpeech, speak_once, whole_sentences
from vivavoce.plugins.elevenlabs import wire
from vivavoce.plugins.elevenlabs.client import PROVIDER, Region, client_of
from vivavoce.plugins.elevenlabs.connection import Connection
from vivavoce.plugins.elevenlabs.models import DEFAULT_MODEL, DEFAULT_VOICE, LANGUAGES, SPACELESS
from vivavoce.plugins.elevenlabs.options import TTSOptions, check_language

MAX_IDLE = 170.0
"""Seconds that a connection without speech is kept; the server closes it after 180."""

MAX_AGE = 3600.0
"""Seconds after which a connection begins no further speech, so that a server that has moved is followed."""

MAX_CONTEXTS = 5
"""Contexts of one connection, by the vendor's limit; one that was cut counts until the server has ended it."""

VOICES_URL = "https://elevenlabs.io/app/voice-library"


class TTS(base.TTS):
    """A voice of ElevenLabs, or of a server of your own with its websocket; share one between sessions of one event
    loop.

    Args:
        model: `DEFAULT_MODEL` unless given; `eleven_v3` and `eleven_v4` have an API of their own, which is not here.
        voice: The id of a voice in your library.
        language: A code such as `"de"`, if the model takes one; "": it goes by the text.
        api_key: Else the environment's `ELEVENLABS_API_KEY` or `ELEVEN_API_KEY`, for hosts of elevenlabs.io only.
        base_url: A server of your own.
        region: Where the data is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        voice: str = DEFAULT_VOICE,
        language: str = "",
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: TTSOptions | None = None,
    ) -> None:
        self._options = options or TTSOptions()
        for name, value in (("model", model), ("voice", voice)):
            if not check_text(name, value):
                raise ConfigurationError(f"need {name} as a name, got ''")
        if not voice.isalnum() and not voice.replace("-", "").replace("_", "").isalnum():
            raise ConfigurationError(f"voice must be an id such as {DEFAULT_VOICE!r}, got {voice!r}; see {VOICES_URL}")
        self._options.check_model(model)
        if check_text("language", language):
            check_language(model, language)
        self._model, self._voice, self._language = model, voice, language
        self._fields = wire.first_message(self._options)
        connection = self._options.connection
        self._client = client_of(
            "elevenlabs.TTS", api_key=api_key, base_url=base_url, region=region, options=connection
        )
        self._pool = OneLoop("elevenlabs.TTS", self._make_pool, lambda pool: pool.aclose())
        self._address = Address(self._client.url())

    def __repr__(self) -> str:
        return f"elevenlabs.TTS(model={self._model!r}, voice={self._voice!r}, base_url={self._client.shown_url!r})"

    @property
    def model(self) -> str:
        return self._model

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=self._options.sample_rate, emits_words=True, streams_text=True)

    def warm(self) -> None:
        """Connect in the background, so that the first speech need not wait for it.

        Raises:
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        self._pool.here().warm(self._address)

    def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it ends the speech at the vendor; the connection stays.

        Raises:
            ProviderError: It cannot connect, or the server refuses or breaks off.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        return speak_once(self._speak, text, self._options.sample_rate)

    def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes, sentence by sentence, with the prosody of one text; see the port.

        Raises:
            ProviderError: As `synthesize()`.
        """
        return self._speak(whole_sentences(text))

    async def aclose(self) -> None:
        """Close the connections; speech that still runs fails.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._pool.aclose()
        await self._client.aclose()

    async def _speak(self, sentences: AsyncGenerator[str, None]) -> AsyncGenerator[AudioChunk, None]:
        rate = self._options.sample_rate
        async with aclosing(sentences), AsyncExitStack() as lease:
            connection = await lease.enter_async_context(self._pool.here().lease(self._address))
            speech = ContextSpeech(lambda: connection.begin(self._fields, rate), "elevenlabs")
            try:
                speech.start(sentences)
                async with aclosing(speech.chunks(rate)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                try:
                    await speech.aclose()
                finally:
                    if connection.is_speaking(speech.begun):
                        connection.keep_until_over(lease.pop_all(), speech.begun)

    def _make_pool(self) -> Pool[Connection]:
        return Pool(self._connect, name="elevenlabs.TTS", max_age=MAX_AGE, max_idle=MAX_IDLE, max_users=MAX_CONTEXTS)

    async def _connect(self, _: Address) -> Connection:
        known = LANGUAGES.get(self._model)
        languages = f"languages of {self._model}: {', '.join(known)}; " if known else ""
        asked = (
            f"check model and voice: asked for the model {self._model!r}, the voice {self._voice!r} and the language "
            f"{self._language!r}; models: {', '.join(LANGUAGES)}; {languages}voices: {VOICES_URL}, to be added to "
            "your library"
        )
        # the text as it was sent restarts in the middle of a sentence if a dictionary has changed it:
        # https://github.com/pipecat-ai/pipecat/issues/4316
        normalized = bool(self._options.pronunciations) and self._language not in SPACELESS
        connection = Connection(
            self._client,
            f"v1/text-to-speech/{self._voice}/multi-stream-input",
            wire.query(self._model, self._language, self._options),
            asked=asked,
            normalized=normalized,
        )
        await connection.open()
        return connection

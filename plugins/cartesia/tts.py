"""TTS: Cartesia's voices, streamed over one websocket, with the times of their words."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.pool import Address, Pool
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities, Word
from vivavoce.pipelines.tts.sentences import SentenceCutter
from vivavoce.plugins.cartesia import wire
from vivavoce.plugins.cartesia.client import DEFAULT_BASE_URL, WRONG_KEY, asked_of, client_of
from vivavoce.plugins.cartesia.connection import Connection, Context
from vivavoce.plugins.cartesia.models import DEFAULT_MODEL, DEFAULT_VOICE, INK_LANGUAGES, LANGUAGES
from vivavoce.plugins.cartesia.options import TTSOptions, check_kind, check_language
from vivavoce.plugins.cartesia.wire import PROVIDER, Audio

MAX_IDLE = 240.0
"""Seconds that a connection without speech is kept; the server closes it after 300."""

MAX_AGE = 3600.0
"""Seconds after which a connection begins no further speech, so that a server that has moved is followed."""

MAX_CONTEXTS = 10
"""Contexts of one connection; the vendor says that it carries dozens."""

CLOSE_LIMIT = 1.0
"""Seconds in which the source of a text ends that is not read any more."""


class TTS(base.TTS):
    """A voice of Cartesia, or of a server of your own with its websocket; share one between sessions of one event loop.

    Args:
        model: `DEFAULT_MODEL` unless given.
        voice: The id of a voice: https://play.cartesia.ai/voices.
        language: A code such as `"en"`; the voice then speaks that language.
        api_key: Else the environment's `CARTESIA_API_KEY`, which goes to hosts of cartesia.ai only.
        base_url: A regional endpoint, or a server of your own.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    provider = PROVIDER

    def __init__(
        self,
        *,
        model: str = DEFAULT_MODEL,
        voice: str = DEFAULT_VOICE,
        language: str = "en",
        api_key: str | None = None,
        base_url: str = DEFAULT_BASE_URL,
        options: TTSOptions | None = None,
    ) -> None:
        self._options = options or TTSOptions()
        for name, value in (("model", model), ("voice", voice), ("language", language)):
            if not check_text(name, value):
                raise ConfigurationError(f"need {name} as a name, got ''")
        check_kind(model, INK_LANGUAGES, "cartesia.STT")
        check_language(model, language)
        self._options.check_model(model)
        self._model, self._voice, self._language = model, voice, language
        self._fields = wire.settings(model, voice, language, self._options)
        self._client = client_of("cartesia.TTS", api_key, base_url, self._options.connection)
        self._pool = OneLoop("cartesia.TTS", self._make_pool, lambda pool: pool.aclose())
        self._address = Address(self._client.url())

    def __repr__(self) -> str:
        return f"TTS(model={self._model!r}, voice={self._voice!r}, base_url={self._client.shown_url!r})"

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

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it cancels the speech at the vendor; the connection stays.

        Raises:
            ProviderError: It cannot connect, or the server refuses or breaks off.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        if not _has_words(text):
            return
        has_audio = False
        async with aclosing(self._speak(_whole(text))) as chunks:
            async for chunk in chunks:
                has_audio = has_audio or bool(chunk.frame.data)
                yield chunk
        if has_audio:
            yield AudioChunk(AudioFrame(b"", self._options.sample_rate), is_end=True)

    def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes, sentence by sentence, with the prosody of one text; see the port.

        Raises:
            ProviderError: As `synthesize()`.
        """
        return self._speak(_sentences(text))

    async def aclose(self) -> None:
        """Close the connections; speech that still runs fails.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._pool.aclose()
        await self._client.aclose()

    async def _speak(self, sentences: AsyncGenerator[str, None]) -> AsyncGenerator[AudioChunk, None]:
        async with aclosing(sentences), self._pool.here().lease(self._address) as connection:
            speech = _Speech(lambda: connection.begin(self._fields))
            try:
                speech.start(sentences)
                async with aclosing(speech.chunks(self._options.sample_rate)) as chunks:
                    async for chunk in chunks:
                        yield chunk
            finally:
                await speech.aclose()

    def _make_pool(self) -> Pool[Connection]:
        return Pool(self._connect, name="cartesia.TTS", max_age=MAX_AGE, max_idle=MAX_IDLE, max_users=MAX_CONTEXTS)

    async def _connect(self, _: Address) -> Connection:
        asked = f"the model {self._model!r}, the voice {self._voice!r} and the language {self._language!r}"
        refused = f"{asked_of(asked, self._model, LANGUAGES)}; voices: https://play.cartesia.ai/voices"
        connection = Connection(self._client, dict.fromkeys((400, 404, 422), refused), WRONG_KEY)
        await connection.open()
        return connection


class _Speech:
    """The contexts of one text, one behind the other: a pause of the text may be longer than a context lives.

    Args:
        begin: Returns a new context.
    """

    def __init__(self, begin: Callable[[], Context]) -> None:
        self._begin = begin
        self._contexts: Feed[Context] = Feed()
        self._begun: list[Context] = []
        self._tasks = OwnedTasks("cartesia speech")
        self._reading: asyncio.Task[None] | None = None

    def start(self, sentences: AsyncIterator[str]) -> None:
        """Begin to read the text."""
        self._reading = self._tasks.task(self._read(sentences), "text")

    async def chunks(self, rate: int) -> AsyncGenerator[AudioChunk, None]:
        """Yield the speech.

        Raises:
            ProviderError: A context failed.
            Exception: That of the text's source.
        """
        samples, rest = 0, b""
        async for context in self._contexts.items():
            start = samples / rate
            while (event := await context.next()) is not None:
                if isinstance(event, Audio):
                    data = rest + event.data
                    whole = len(data) - len(data) % BYTES_PER_SAMPLE
                    data, rest = data[:whole], data[whole:]
                    samples += whole // BYTES_PER_SAMPLE
                    yield AudioChunk(AudioFrame(data, rate))
                else:
                    words = tuple(Word(word.text, start + word.start, start + word.end) for word in event.words)
                    yield AudioChunk(AudioFrame(b"", rate), words)
            rest = b""
        assert self._reading is not None
        await self._reading

    async def aclose(self) -> None:
        """Cancel the contexts that still speak, and leave the text."""
        for context in self._begun:
            context.cancel()
        self._tasks.cancel()
        await self._tasks.finish(CLOSE_LIMIT)
        if self._reading is not None and self._reading.done() and not self._reading.cancelled():
            self._reading.exception()  # of a text that is not read any more

    async def _read(self, sentences: AsyncIterator[str]) -> None:
        context: Context | None = None
        try:
            async for sentence in sentences:
                if context is None or not context.takes_text:
                    if context is not None:
                        context.finish()
                    context = self._begin()
                    self._begun.append(context)
                    self._contexts.put(context)
                context.say(sentence)
        finally:
            if context is not None:
                context.finish()
            self._contexts.end()


async def _whole(text: str) -> AsyncGenerator[str, None]:
    yield text


async def _sentences(text: AsyncIterator[str]) -> AsyncGenerator[str, None]:
    """Yield the sentences of a text as it comes, each with the space behind it; none begins without a word.

    White space behind a sentence that looks finished ends it.
    """
    cutter, before = SentenceCutter(), ""
    async for piece in text:
        parts = list(cutter.push(piece))
        if piece[-1:].isspace() and cutter.looks_finished:
            parts += cutter.settle()
        for part in parts:
            before += f"{part} "
            if _has_words(before):
                yield before
                before = ""
    for part in cutter.finish():
        before += f"{part} "
        if _has_words(before):
            yield before
            before = ""


def _has_words(text: str) -> bool:
    return any(letter.isalnum() for letter in text)

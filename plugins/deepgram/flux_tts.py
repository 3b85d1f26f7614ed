"""FluxTTS: the Flux voices of Deepgram, which take text as it comes and tell what was heard when they are cut."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field

import anyio

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.pool import Address, Pool
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, Heard, TTSCapabilities
from vivavoce.pipelines.tts.pieces import WholeSamples, pieces
from vivavoce.plugins.deepgram.client import DeepgramComponent, Region, failures_of
from vivavoce.plugins.deepgram.models import FLUX_VOICES
from vivavoce.plugins.deepgram.speech import SpeechConnection, Turn
from vivavoce.plugins.deepgram.tts import MAX_CHARACTERS, RATE

DEFAULT_FLUX_VOICE = "flux-alexis-en"

MAX_AGE = 3600.0
"""Seconds after which a connection begins no further speech."""

MAX_IDLE = 120.0
"""Seconds that a connection without speech is kept."""

ASKED_WITHIN = 0.5
"""Seconds after a cut in which the playout tells how much was played; then all that came counts as played."""

CLOSE_LIMIT = 1.0
"""Seconds in which the source of a text ends that is not read any more."""

STEP = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxTTSOptions:
    """Rarely changed settings of `deepgram.FluxTTS`.

    Each option: docs/options.md.
    """

    speed: float | None = None
    """How fast the voice speaks, 0.5 … 1.5 in steps of 0.05; 1 is normal."""
    tags: tuple[str, ...] = ()
    """Labels of the requests in the service's reports of usage."""
    opt_out: bool = False
    """Whether the texts are kept out of the vendor's model improvement program; it changes the price."""
    extra_query: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the connection without an option here, such as `expressivity`; they override the options."""
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    """The limits of the connection."""

    def __post_init__(self) -> None:
        check_number("speed", self.speed, at_least=0.5, or_none=True)
        if self.speed is not None and (self.speed > 1.5 or abs(self.speed / STEP - round(self.speed / STEP)) > 1e-6):
            raise ConfigurationError(f"need speed <= 1.5 in steps of {STEP}, got {self.speed!r}")


class FluxTTS(DeepgramComponent, base.TTS):
    """A Flux voice of Deepgram, or of a server of your own; share one between sessions of one event loop.

    An answer is a turn on a websocket that stays open. The service itself tells what was heard of a turn that is cut.

    Args:
        voice: With its language, such as `"flux-alexis-en"`.
        api_key: Else the environment's `DEEPGRAM_API_KEY`, for hosts of deepgram.com.
        base_url: A server of your own, such as `"https://deepgram.example.com"`.
        region: Where the text is processed.
    Raises:
        ConfigurationError: The key is missing, or an argument is invalid.
    """

    def __init__(
        self,
        voice: str = DEFAULT_FLUX_VOICE,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        region: Region = "",
        options: FluxTTSOptions | None = None,
    ) -> None:
        self._options = options or FluxTTSOptions()
        if not voice.startswith("flux-"):
            known = ", ".join(FLUX_VOICES)
            raise ConfigurationError(f"need a Flux voice such as {known}, got {voice!r}; use deepgram.TTS for it")
        connection = self._options.connection
        super().__init__(
            "deepgram.FluxTTS", voice, api_key=api_key, base_url=base_url, region=region, options=connection
        )
        self._voices = OneLoop("deepgram.FluxTTS", self._make_voices, lambda voices: voices.aclose())
        self._address = Address(self._client.url())

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE, streams_text=True)

    def warm(self) -> None:
        """Connect in the background, so that the first speech need not wait for it.

        Raises:
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        self._voices.here().pool.warm(self._address)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        """Speak; see the port. Closing it interrupts the turn at the vendor; the connection stays.

        Raises:
            ProviderError: It cannot connect, or the server refuses or breaks off.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        has_audio = False
        async with aclosing(self.stream(_whole(text))) as chunks:
            async for chunk in chunks:
                has_audio = True
                yield chunk
        if has_audio:
            yield AudioChunk(AudioFrame(b"", RATE), is_end=True)

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        """Speak text as it comes, as one turn; see the port.

        Raises:
            ProviderError: As `synthesize()`.
        """
        voices = self._voices.here()
        async with AsyncExitStack() as stack:
            lease = await stack.enter_async_context(AsyncExitStack())
            connection = await lease.enter_async_context(voices.pool.lease(self._address))
            turn, tasks, samples = connection.begin(), OwnedTasks("deepgram speech"), WholeSamples()
            reading = tasks.task(_read(text, turn), "text")
            heard: Heard | None = turn.heard
            try:
                async with aclosing(turn.audio()) as audio:
                    async for data in audio:
                        if whole := samples.push(data):
                            yield AudioChunk(AudioFrame(whole, RATE), heard=heard)
                            heard = None
                await reading
            finally:
                tasks.cancel()
                try:
                    with anyio.CancelScope(shield=True):  # the text must have ended before its owner closes it
                        await tasks.finish(CLOSE_LIMIT)
                finally:
                    if reading.done() and not reading.cancelled():
                        reading.exception()  # of a text that is not read any more
                    if not turn.is_over:
                        voices.tasks.start(_interrupted(lease.pop_all(), connection, turn), "interruption")

    async def aclose(self) -> None:
        """Close the connections; speech that still runs fails.

        Raises:
            ConfigurationError: The connections belong to another event loop, which still runs.
        """
        await self._voices.aclose()
        await super().aclose()

    def _make_voices(self) -> _Voices:
        return _Voices(
            Pool(self._connect, name="deepgram.FluxTTS", max_age=MAX_AGE, max_idle=MAX_IDLE),
            OwnedTasks("deepgram.FluxTTS"),
        )

    async def _connect(self, _: Address) -> SpeechConnection:
        asked = (
            f"asked for voice {self._model!r}; voices are flux-NAME-LANGUAGE, such as {', '.join(FLUX_VOICES)}; check "
            "voice and options, or use deepgram.TTS for an Aura voice"
        )
        connection = SpeechConnection(
            self._client, voice_query(self._model, self._options), failures_of(self._client, asked=asked), RATE
        )
        await connection.open()
        return connection


@dataclass(frozen=True, slots=True)
class _Voices:
    """The connections of one event loop, and the tasks that end cut speeches."""

    pool: Pool[SpeechConnection]
    tasks: OwnedTasks

    async def aclose(self) -> None:
        self.tasks.cancel()
        await self.tasks.finish(CLOSE_LIMIT)
        await self.pool.aclose()


def voice_query(voice: str, options: FluxTTSOptions) -> list[tuple[str, str]]:
    """Return the parameters of the handshake. Source: https://developers.deepgram.com/reference/text-to-speech/speak-flux."""
    query = [("model", voice), ("encoding", "linear16"), ("sample_rate", str(RATE))]
    if options.speed is not None:
        query.append(("speed", f"{options.speed:g}"))
    if options.opt_out:
        query.append(("mip_opt_out", "true"))
    query += [("tag", tag) for tag in options.tags]
    return [*(pair for pair in query if pair[0] not in options.extra_query), *options.extra_query.items()]


async def _interrupted(lease: AsyncExitStack, connection: SpeechConnection, turn: Turn) -> None:
    """End a turn that was cut, and give its connection back."""
    async with lease:
        if not turn.seconds:
            await connection.aclose()  # there is nothing to interrupt, and its audio is still to come
            return
        try:
            async with asyncio.timeout(ASKED_WITHIN):
                await turn.was_asked.wait()
        except TimeoutError:
            await turn.heard(turn.seconds)
        await connection.settled()
        if not turn.is_over:
            await connection.aclose()


async def _read(text: AsyncIterator[str], turn: Turn) -> None:
    """Have a text spoken as it comes, from its first word on."""
    before = ""
    try:
        async for piece in text:
            before += piece
            if turn.text or any(letter.isalnum() for letter in before):
                turn.say(before)
                before = ""
    finally:
        turn.flush()


async def _whole(text: str) -> AsyncGenerator[str, None]:
    for piece in pieces(text, MAX_CHARACTERS):
        yield piece

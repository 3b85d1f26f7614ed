"""TTS: sentences in, audio with word times out, by espeak-ng in a helper process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities
from vivavoce.plugins.espeak.options import TTSOptions
from vivavoce.plugins.espeak.process import PROVIDER, Helper
from vivavoce.plugins.espeak.voices import resolve_voice
from vivavoce.plugins.espeak.words import WORD_EVENT, WordTimer, pieces

SAMPLE_RATE = 22050


class TTS(base.TTS):
    """espeak-ng; share one between sessions of one event loop.

    Args:
        voice: A language ("en-us", "de"), alone or with a variant ("en-us+f2").
        rate: Words per minute, 80 … 450.
        pitch: 0 … 99; 50 is normal.
        options: More settings.
    Raises:
        ConfigurationError: The extra is not installed, or a value is out of bounds.
    """

    provider = PROVIDER

    def __init__(
        self, *, voice: str = "en-us", rate: int = 165, pitch: int = 50, options: TTSOptions | None = None
    ) -> None:
        if not 80 <= rate <= 450:
            raise ConfigurationError(f"rate must be 80 … 450 words per minute, got {rate!r}")
        if not 0 <= pitch <= 99:
            raise ConfigurationError(f"pitch must be 0 … 99, got {pitch!r}")
        self._options = options or TTSOptions()
        library, data = _paths()
        self._voice = voice
        self._settings = {
            "library": library,
            "data": data,
            "sample_rate": SAMPLE_RATE,
            "voice": resolve_voice(voice, data),
            "rate": rate,
            "pitch": pitch,
            "volume": self._options.volume,
        }
        self._helper: Helper | None = None
        self._starting = asyncio.Lock()
        self._is_closed = False

    @property
    def model(self) -> str:
        return self._voice

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=SAMPLE_RATE, emits_words=True)

    async def start(self) -> None:
        """Start the helper process now, so that the first sentence does not wait for it (some 0.1 s).

        Raises:
            ConfigurationError: espeak-ng refuses the voice, or the component is closed.
            ProviderError: It does not start.
        """
        await self._ready()

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        samples = 0
        for piece in pieces(text.replace("\0", " ")):
            helper = await self._ready()
            timer = WordTimer(piece, SAMPLE_RATE, offset=samples)
            request = helper.speak(piece)
            try:
                held: AudioFrame | None = None  # one piece late, so that the last one can carry the last word
                heading = piece
                while True:
                    header, pcm = await request.next(self._options.chunk_timeout)
                    is_end = header["op"] == "end"
                    words = timer.finish() if is_end else timer.feed(pcm, _word_events(header))
                    if held is not None:
                        yield AudioChunk(held, words, heading)
                        heading = ""
                    if is_end:
                        break
                    held = AudioFrame(pcm, SAMPLE_RATE)
                    samples += held.samples
            finally:
                helper.cancel(request)
        if samples:
            yield AudioChunk(AudioFrame(b"", SAMPLE_RATE), is_end=True)

    async def aclose(self) -> None:
        self._is_closed = True
        helper, self._helper = self._helper, None
        if helper is not None:
            await helper.aclose(self._options.close_timeout)

    async def _ready(self) -> Helper:
        async with self._starting:
            if self._is_closed:
                raise ConfigurationError("this espeak.TTS is closed; make another one")
            if self._helper is not None and self._helper.is_lost:
                lost, self._helper = self._helper, None
                await lost.aclose(self._options.close_timeout)
            if self._helper is None:
                limits = self._options
                self._helper = await Helper.start(
                    self._settings, limit=limits.start_timeout, close_limit=limits.close_timeout
                )
            return self._helper


def _word_events(header: dict[str, list[tuple[int, int, int]]]) -> list[tuple[int, int]]:
    return [(position, sample) for kind, position, sample in header["events"] if kind == WORD_EVENT]


def _paths() -> tuple[str, str]:
    try:
        import espeakng_loader
    except ImportError as error:
        raise ConfigurationError(
            "espeak.TTS needs espeakng-loader, which is missing: `pip install 'vivavoce[espeak]'`"
        ) from error
    return espeakng_loader.get_library_path(), espeakng_loader.get_data_path()

"""TTS: an American English voice, computed on this machine."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncGenerator

from vivavoce.pipelines.core.checks import check_number
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.tts import base
from vivavoce.pipelines.tts.base import AudioChunk, TTSCapabilities, Word
from vivavoce.plugins.hibari.voice import PROVIDER, SAMPLE_RATE, THREAD, find_folder, shared_voice

logger = logging.getLogger(__name__)

VOICE = "heart"


class TTS(base.TTS):
    """hibari; all sessions of a process share its weights.

    Args:
        speed: 0.5 … 2; 1 is the voice's own pace.
    Raises:
        ConfigurationError: A needed package is not installed, or another version of it, or `speed` is out of bounds.
            `load()` raises it for a damaged package.
    """

    provider = PROVIDER

    def __init__(self, *, speed: float = 1.0) -> None:
        check_number("speed", speed)
        if not 0.5 <= speed <= 2.0:
            raise ConfigurationError(f"speed must be 0.5 … 2, got {speed!r}")
        self._speed = speed
        self._folder = find_folder()

    @property
    def model(self) -> str:
        return VOICE

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=SAMPLE_RATE, emits_words=True)

    def load(self) -> None:
        """Load the voice, once a process; for its preparation (prewarm), so that its first call need not wait.

        Raises:
            ConfigurationError: Its package is damaged, or of another version.
        """
        shared_voice(self._folder)

    def warm(self) -> None:
        # daemon: nothing is lost if the interpreter ends meanwhile
        threading.Thread(target=self._load_early, name=PROVIDER, daemon=True).start()

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        voice = await THREAD.run(shared_voice, self._folder)
        samples = 0
        for sentence in voice.sentences(text):
            speech = await THREAD.run(voice.speak, sentence, self._speed)
            if not speech.pcm:  # letters that it cannot read, such as Japanese ones
                continue
            at = samples / SAMPLE_RATE
            words = tuple(Word(word.text, at + word.start, at + word.end) for word in speech.words)
            frame = AudioFrame(speech.pcm, SAMPLE_RATE)
            samples += frame.samples
            yield AudioChunk(frame, words, sentence)
        if samples:
            yield AudioChunk(AudioFrame(b"", SAMPLE_RATE), is_end=True)

    def _load_early(self) -> None:
        try:
            self.load()
        except ConfigurationError as error:  # the first sentence raises it too
            logger.warning("hibari cannot be loaded: %s", error)

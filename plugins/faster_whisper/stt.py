"""STT: Whisper, utterance by utterance."""

from __future__ import annotations

from pathlib import Path

from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.stt.by_utterance import SAMPLE_RATE, UtteranceStream
from vivavoce.plugins.faster_whisper.options import STTOptions
from vivavoce.plugins.faster_whisper.whisper import PROVIDER, THREAD, Whisper, check_folder, shared_whisper


class STT(base.STT):
    """Whisper by faster-whisper; all sessions of a process share a folder's model.

    Args:
        model_path: A folder of CTranslate2; nothing is downloaded.
        language: Of the speech, such as "en" or "de".
        options: More settings.
    Raises:
        ConfigurationError: The extra is not installed, or the folder is no model. `load()` and `open()` raise it for a
            damaged one.
    """

    provider = PROVIDER

    def __init__(self, model_path: str | Path, *, language: str = "en", options: STTOptions | None = None) -> None:
        self._language = check_text("language", language)
        self._options = options or STTOptions()
        self._folder = Path(model_path)
        check_folder(self._folder)

    @property
    def model(self) -> str:
        return self._folder.name

    @property
    def capabilities(self) -> STTCapabilities:
        return STTCapabilities(sample_rate=SAMPLE_RATE, emits_interims=False, needs_flush=True)

    def load(self) -> None:
        """Load the model, once a process; for its preparation (prewarm), so that its first call need not wait.

        Raises:
            ConfigurationError: It is damaged.
        """
        self._whisper()

    async def open(self) -> UtteranceStream:
        whisper, options = await THREAD.run(self._whisper), self._options
        return UtteranceStream(
            "faster_whisper.STT",
            lambda pcm: whisper.recognise(pcm, self._language, options.beam_size, options.max_no_speech),
            THREAD,
            language=self._language,
            interim_interval=None,
        )

    def _whisper(self) -> Whisper:
        return shared_whisper(self._folder, self._options.compute_type, self._options.threads)

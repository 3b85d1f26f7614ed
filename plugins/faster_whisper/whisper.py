"""Whisper: a model folder of CTranslate2, checked and loaded once a process, and the words of a piece of audio."""

from __future__ import annotations

import math
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vivavoce.pipelines.core import native_threads
from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.stt.by_utterance import Heard

PROVIDER = "faster_whisper"
NEEDED = ("model.bin", "config.json", "tokenizer.json")
"""Without the tokenizer the library would download one."""
THREAD = BoundedThread(PROVIDER)
"""Loads and computes, for all sessions of an event loop."""
_LOADING = threading.Lock()


class Whisper:
    """One model, for all sessions.

    Args:
        folder: The model's.
        compute_type, threads: As the options.
    Raises:
        ConfigurationError: CTranslate2 refuses the folder.
    """

    def __init__(self, folder: Path, compute_type: str, threads: int) -> None:
        library: Any = native_threads.load("faster_whisper")
        try:
            self._model = library.WhisperModel(
                str(folder),
                device="cpu",
                compute_type=compute_type,
                cpu_threads=threads,
                num_workers=1,
                local_files_only=True,
            )
        except Exception as error:  # noqa: BLE001 - the library's errors are of many kinds
            raise ConfigurationError(
                f"model_path must be a Whisper model of CTranslate2, got {str(folder)!r}, which faster-whisper "
                f"refuses: {error}"
            ) from error

    def recognise(self, pcm: bytes, language: str, beam_size: int, max_no_speech: float) -> Heard:
        """Return the words of mono 16-bit PCM of 16 kHz.

        Raises:
            ProviderError: The model failed.
        """
        from vivavoce.pipelines.core.native_threads import numpy as np

        samples = np.frombuffer(pcm, dtype=np.int16).astype(np.float32) / np.float32(32768)
        try:
            segments, _ = self._model.transcribe(
                samples,
                language=language,
                beam_size=beam_size,
                condition_on_previous_text=False,
                without_timestamps=True,
            )
            heard = [(one.text.strip(), one.avg_logprob) for one in segments if one.no_speech_prob <= max_no_speech]
        except Exception as error:  # noqa: BLE001 - the library's errors are of many kinds
            raise ProviderError(f"the model failed: {error}", provider=PROVIDER, retryable=True) from error
        sure = min((log for _, log in heard), default=None)
        return Heard(" ".join(text for text, _ in heard), None if sure is None else min(1.0, math.exp(sure)))


def check_folder(folder: Path) -> None:
    """Refuse a folder that is no model, before anything is loaded.

    Raises:
        ConfigurationError: The library is not installed, or the folder is not there, or lacks a file.
    """
    if find_spec("faster_whisper") is None:
        raise ConfigurationError(
            "faster_whisper.STT needs faster-whisper, which is missing: `pip install 'vivavoce[faster-whisper]'`"
        )
    wanted = f"model_path must be a folder with a Whisper model of CTranslate2 ({', '.join(NEEDED)})"
    if not folder.is_dir():
        raise ConfigurationError(f"{wanted}, got {str(folder)!r}, which is no folder")
    if missing := [name for name in NEEDED if not (folder / name).is_file() or not (folder / name).stat().st_size]:
        raise ConfigurationError(
            f"{wanted}, got {str(folder)!r} without {', '.join(missing)}; convert a model with "
            "`ct2-transformers-converter`, or copy one whole"
        )


def shared_whisper(folder: Path, compute_type: str, threads: int) -> Whisper:
    """Return the model of this process with these settings, which is loaded once.

    Raises:
        ConfigurationError: As `Whisper`.
    """
    with _LOADING:
        return _loaded(folder, compute_type, threads)


@lru_cache(maxsize=4)
def _loaded(folder: Path, compute_type: str, threads: int) -> Whisper:
    return Whisper(folder, compute_type, threads)

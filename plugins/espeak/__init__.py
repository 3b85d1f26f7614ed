"""espeak-ng: text to speech offline, with word times."""

from __future__ import annotations

from vivavoce.plugins.espeak.options import TTSOptions
from vivavoce.plugins.espeak.tts import TTS

__all__ = ["TTS", "TTSOptions"]

"""espeak-ng: text to speech offline, with word times.

The library is GPL-3, so it is loaded only in a helper process (`helper.py`), with which `TTS` exchanges framed
messages (`wire.py`): one process for each `TTS`, started with the first sentence (75 ms) or by `start()`, shared by
sessions, ended by `aclose()` or with its parent. A warm helper answers with the first 60 ms of audio in 1 ms and speaks
some thousand times faster than real time, so that sessions wait for each other only by milliseconds.
"""

from __future__ import annotations

from vivavoce.plugins.espeak.options import TTSOptions
from vivavoce.plugins.espeak.tts import TTS

__all__ = ["TTS", "TTSOptions"]

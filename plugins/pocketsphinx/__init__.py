"""pocketsphinx: speech to text offline, by a grammar."""

from __future__ import annotations

from vivavoce.plugins.pocketsphinx.options import STTOptions
from vivavoce.plugins.pocketsphinx.stt import FILLERS, STT

__all__ = ["FILLERS", "STT", "STTOptions"]

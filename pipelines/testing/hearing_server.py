"""HearingServer: the script of a vendor's twin that recognises speech. It needs aiohttp."""

from __future__ import annotations

from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing.ear import Lexicon, Said
from vivavoce.pipelines.testing.loopback_server import Connection, LoopbackServer


class HearingServer(LoopbackServer[Connection]):
    """Hears the words that its own sounds carry, or those of the script."""

    def __init__(self) -> None:
        super().__init__()
        self._lexicon = Lexicon()

    def hears(self, *texts: Said | str) -> None:
        """Hear these in the next stretches of sound, one each, whatever the sound is."""
        self._lexicon.script.extend(map(_said, texts))

    def speech(self, text: Said | str, sample_rate: int = 16_000) -> AudioFrame:
        """Return sound that carries these words: the twin hears them in it, each time."""
        return self._lexicon.speech(_said(text), sample_rate)

    def level(self, word: Said | str) -> int:
        """Return the sample value that carries one word, for callers that make their own sound."""
        return self._lexicon.level(_said(word))


def _said(text: Said | str) -> Said:
    return Said(text) if isinstance(text, str) else text

"""The scripted parts that both workers of `calls.py` use: a recogniser's ear, a model's words, a voice's sound.

Numpy and the standard library only, since the other worker runs in an environment of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import numpy as np

USER_TEXT = "a table for four on friday at seven please"
ANSWER = ("A table for four on Friday at seven is free and I have booked it for you now. "
          "Is there anything else that I can do for you today?").split()  # fmt: skip

STT_DELAY = 0.15
LLM_DELAY = 0.3
TTS_DELAY = 0.1
TOKENS_PER_SECOND = 100
OUT_RATE = 24_000
WORD_SECONDS = 0.08
TTS_SPEED = 10
"""A second of audio takes a tenth of a second to make."""

LOUD = 300
"""Mean absolute sample of a frame that holds speech; Opus keeps silence far below."""
QUIET_SECONDS = 0.2
"""Silence after which a recogniser has heard the end of a sentence."""

_TIMES = np.arange(round(WORD_SECONDS * OUT_RATE)) / OUT_RATE
WORD = (6000 * np.sin(2 * np.pi * 220 * _TIMES) * (1 + np.sin(2 * np.pi * 5 * _TIMES))).astype(np.int16).tobytes()
"""16-bit mono at `OUT_RATE`."""


class Ear:
    """Hears the end of a sentence by loudness."""

    def __init__(self) -> None:
        self._is_in_speech = False
        self._quiet = 0.0

    def has_ended(self, pcm: bytes | memoryview, rate: int) -> bool:
        """Take one frame, 16-bit mono at `rate` Hz; return whether a sentence ended with it."""
        samples = np.frombuffer(pcm, np.int16)
        if np.abs(samples).mean() > LOUD:
            self._is_in_speech, self._quiet = True, 0.0
            return False
        self._quiet += len(samples) / rate
        if not self._is_in_speech or self._quiet < QUIET_SECONDS:
            return False
        self._is_in_speech = False
        return True


async def tokens() -> AsyncIterator[str]:
    """Yield the model's answer, word by word."""
    await asyncio.sleep(LLM_DELAY)
    for word in ANSWER:
        yield f"{word} "
        await asyncio.sleep(1 / TOKENS_PER_SECOND)


class Voice:
    """Makes the sound of one answer."""

    def __init__(self) -> None:
        self._has_begun = False

    async def speak(self, text: str) -> AsyncIterator[bytes]:
        """Yield the audio of each word of `text`."""
        for _ in text.split():
            await asyncio.sleep(WORD_SECONDS / TTS_SPEED if self._has_begun else TTS_DELAY)
            self._has_begun = True
            yield WORD

"""Ears: the simulated caller's own voice activity detection and recognition, ready before the caller joins."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from vivavoce.agents.caller.line import SAMPLE_RATE
from vivavoce.pipelines.core.errors import ProviderTimeoutError
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.stt.base import STTFinal

if TYPE_CHECKING:
    from vivavoce.pipelines.stt.base import STT, STTEvent, STTStream
    from vivavoce.pipelines.vad.base import VAD, VADStream

WARM_UP_FRAMES = 25
"""Frames of silence that both streams get first; half a second."""
WARM_UP_LIMIT = 20.0


@dataclass(frozen=True, slots=True)
class Ears:
    """Open streams of one caller.

    Args:
        stt, events: None for a caller that detects the agent's speech, but hears no words.
    """

    vad: VADStream
    stt: STTStream | None
    events: AsyncIterator[STTEvent] | None


@asynccontextmanager
async def open_ears(vad: VAD, stt: STT | None) -> AsyncIterator[Ears]:
    """Open both streams and feed them silence, so that models are loaded and in memory; close them at the end.

    A caller joins with open ears: an agent speaks as soon as the caller is there, and a recogniser that loads at that
    moment mishears the rest of the greeting.

    Raises:
        ProviderError: The recogniser does not open, or does not answer.
        ConfigurationError: Its grammar is wrong.
    """
    detector = vad.open()
    recogniser: STTStream | None = None
    try:
        if stt is not None:
            recogniser = await stt.open()
        silence = AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE)
        for _ in range(WARM_UP_FRAMES):
            detector.push(silence)
        detector.reset()
        events = None if recogniser is None else recogniser.events()
        if recogniser is not None and events is not None:
            await _warm_up(recogniser, events, silence)
        yield Ears(detector, recogniser, events)
    finally:
        detector.close()
        if recogniser is not None:
            with anyio.CancelScope(shield=True):  # the stream's own limit bounds it
                await recogniser.aclose()


async def _warm_up(stt: STTStream, events: AsyncIterator[STTEvent], silence: AudioFrame) -> None:
    """Pass one utterance without words through the recogniser."""
    stt.speech_started(0.0)
    for _ in range(WARM_UP_FRAMES):
        stt.push(silence)
    stt.flush()
    with anyio.move_on_after(WARM_UP_LIMIT):
        async for event in events:
            if isinstance(event, STTFinal):
                return
    raise ProviderTimeoutError(
        f"the caller's recogniser did not answer within {WARM_UP_LIMIT:g} s", provider="simulated caller"
    )

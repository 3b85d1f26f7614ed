"""A recogniser's stream in a test: audio pushed frame by frame, events read with a limit."""

from __future__ import annotations

from contextlib import suppress

import anyio

from kit.limits import LIMIT
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEndOfTurn, STTEvent, STTFinal, STTStream
from vivavoce.pipelines.testing.promises import frames_of

RATE = 16_000
"""Hz of the frames."""


def push(stream: STTStream, *audio: AudioFrame) -> None:
    """Push audio as a pipeline does."""
    for one in audio:
        for frame in frames_of(one, RATE):
            stream.push(frame)


async def finals(stream: STTStream, count: int) -> list[STTFinal]:
    """Return the next finals."""
    found: list[STTFinal] = []
    while len(found) < count:
        found += [event for event in await until(stream, STTFinal) if isinstance(event, STTFinal)]
    return found


async def until(stream: STTStream, kind: type[STTFinal | STTEndOfTurn]) -> list[STTEvent]:
    """Return the events up to one of this kind."""
    events: list[STTEvent] = []
    with anyio.fail_after(LIMIT):
        async for event in stream.events():
            events.append(event)
            if isinstance(event, kind):
                break
    return events


async def until_lost(stream: STTStream) -> list[STTEvent]:
    """Return the events up to the loss of the connection."""
    events: list[STTEvent] = []
    with anyio.fail_after(LIMIT), suppress(ProviderConnectionError):
        async for event in stream.events():
            events.append(event)
    return events

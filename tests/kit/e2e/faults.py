"""Real providers with faults on demand: a voice that breaks or hangs, ears that are slow, mute, cut off or stuck."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Literal

import anyio

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt import base as stt
from vivavoce.pipelines.tts import base as tts

Fault = Literal["raises", "hangs"]


class FaultyTTS(tts.TTS):
    """A voice that speaks as another one does, until `fault` is set: then the next synthesis breaks after `after` s.

    Args:
        name: Its model, for records.
    """

    provider = "faulty"

    def __init__(self, inner: tts.TTS, name: str = "") -> None:
        self._inner = inner
        self._name = name
        self.fault: Fault | None = None
        self.after = 0.5
        self.is_down = False
        """Whether each synthesis raises before its first audio."""
        self.spoken: list[str] = []
        """The texts whose first audio has come."""

    @property
    def model(self) -> str:
        return self._name

    @property
    def capabilities(self) -> tts.TTSCapabilities:
        return self._inner.capabilities

    async def synthesize(self, text: str) -> AsyncGenerator[tts.AudioChunk, None]:
        fault, self.fault = self.fault, None
        seconds = 0.0
        if self.is_down:
            await _break("raises", self.provider)
        async with aclosing(self._inner.synthesize(text)) as chunks:
            async for chunk in chunks:
                if fault is not None and seconds >= self.after:
                    await _break(fault, self.provider)
                if not seconds:
                    self.spoken.append(text)
                seconds += chunk.frame.duration
                yield chunk


class FaultySTT(stt.STT):
    """Ears that hear as others do; `cut()` loses the open stream, `is_stuck` keeps the next close from ending.

    Args:
        name: Their model, for records.
    """

    provider = "faulty"

    def __init__(self, inner: stt.STT, name: str = "") -> None:
        self._inner = inner
        self._name = name
        self.can_open = asyncio.Event()
        """Cleared, it holds back whoever opens a stream."""
        self.can_open.set()
        self.streams: list[FaultySTTStream] = []
        self.is_stuck = False
        self.is_mute = False
        """Whether streams keep their events to themselves."""
        self.is_down = False
        """Whether no stream can be opened."""
        self.finals: list[str] = []
        """The final transcripts, of all streams."""

    @property
    def model(self) -> str:
        return self._name

    @property
    def capabilities(self) -> stt.STTCapabilities:
        return self._inner.capabilities

    async def open(self) -> stt.STTStream:
        await self.can_open.wait()
        if self.is_down:
            raise ProviderConnectionError("the test has no such ears", provider=self.provider)
        self.streams.append(FaultySTTStream(self, await self._inner.open()))
        return self.streams[-1]

    def cut(self) -> None:
        """Lose the connection of the open stream."""
        self.streams[-1].lose()


class FaultySTTStream(stt.STTStream):
    """One recognition of a FaultySTT."""

    def __init__(self, owner: FaultySTT, inner: stt.STTStream) -> None:
        self._owner = owner
        self._inner = inner
        self._lost = asyncio.Event()

    def push(self, frame: AudioFrame) -> None:
        self._inner.push(frame)

    def speech_started(self, ago: float) -> None:
        self._inner.speech_started(ago)

    def flush(self) -> None:
        self._inner.flush()

    def discard(self) -> None:
        self._inner.discard()

    async def events(self) -> AsyncIterator[stt.STTEvent]:
        events = self._inner.events()
        lost = asyncio.create_task(self._lost.wait())
        coming: asyncio.Task[stt.STTEvent | None] | None = None
        try:
            while True:
                coming = asyncio.create_task(_next(events))
                await asyncio.wait({coming, lost}, return_when=asyncio.FIRST_COMPLETED)
                if lost.done():
                    raise ProviderConnectionError("the test cut the connection", provider="faulty")
                event = coming.result()
                if event is None:
                    return
                if not self._owner.is_mute:
                    if isinstance(event, stt.STTFinal):
                        self._owner.finals.append(event.text)
                    yield event
        finally:
            tasks = [task for task in (lost, coming) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def lose(self) -> None:
        """Lose the connection."""
        self._lost.set()

    async def aclose(self) -> None:
        await self._inner.aclose()
        if self._owner.is_stuck:
            await anyio.sleep_forever()


async def _break(fault: Fault, provider: str) -> None:
    if fault == "hangs":
        await anyio.sleep_forever()
    raise ProviderConnectionError("the test broke the voice", provider=provider)


async def _next(events: AsyncIterator[stt.STTEvent]) -> stt.STTEvent | None:
    return await anext(events, None)

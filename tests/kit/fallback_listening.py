"""An open stream of a FallbackSTT in virtual time, its scripted members, and a record of its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError
from vivavoce.pipelines.core.incidents import FellBack, on_fallback
from vivavoce.pipelines.core.tending import Tending
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTCapabilities, STTEvent, STTFinal
from vivavoce.pipelines.stt.fallback import FallbackSTT
from vivavoce.pipelines.stt.fallback_stream import FallbackStream
from vivavoce.pipelines.testing import ScriptedSTT, VirtualClock, run_virtual

LOST = ProviderConnectionError("down", provider="first")
FLUSHED = STTCapabilities(needs_flush=True)
FRAME = AudioFrame(b"\1\0" * 320, 16000)


class First(ScriptedSTT):
    provider = "first"


class Second(ScriptedSTT):
    provider = "second"


class Listening:
    """An open stream, the events that came with their times, and what the fallback reported."""

    def __init__(self, stt: FallbackSTT, stream: FallbackStream, told: list[FellBack]) -> None:
        self.stt = stt
        self.stream = stream
        self.told = told
        self.events: list[tuple[float, STTEvent]] = []
        self.error: ProviderError | None = None
        self._clock = VirtualClock()

    async def read(self) -> None:
        try:
            async for event in self.stream.events():
                self.events.append((round(self._clock.now(), 3), event))
        except ProviderError as error:
            self.error = error

    @property
    def finals(self) -> list[str]:
        return [event.text for _, event in self.events if isinstance(event, STTFinal)]

    @property
    def changes(self) -> list[tuple[str, str]]:
        return [(one.provider, one.successor) for one in self.told]

    async def hear(self, seconds: float) -> None:
        """Push so much audio, at its pace."""
        for _ in range(round(seconds / FRAME.duration)):
            self.stream.push(FRAME)
            await anyio.sleep(FRAME.duration)

    async def say(self, seconds: float, silence: float = 0.5) -> None:
        """Speech between silences, with the calls of a VAD."""
        await self.hear(0.2)
        self.stream.speech_started(0.1)
        await self.hear(seconds)
        self.stream.flush()
        await self.hear(silence)


def listen(stt: FallbackSTT, act: Callable[[Listening], Awaitable[None]], *, tends: bool = False) -> Listening:
    async def main() -> Listening:
        told: list[FellBack] = []
        on_fallback.set(told.append)
        stream = await stt.open()
        listening = Listening(stt, stream, told)
        async with anyio.create_task_group() as group:
            group.start_soon(listening.read)
            if tends:
                group.start_soon(Tending((stt,)).run)
            await act(listening)
            await stream.aclose()
            group.cancel_scope.cancel()
        return listening

    return run_virtual(main())


class Mute(ScriptedSTT):
    """Connected, and never answers."""

    provider = "mute"

    def __init__(self, *, needs_flush: bool = False) -> None:
        super().__init__(capabilities=STTCapabilities(needs_flush=needs_flush))

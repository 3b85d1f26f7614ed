"""The measurement's load through vivavoce's plugins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

from bench.providers import side
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTFinal, STTInterim
from vivavoce.plugins import anthropic, cartesia, deepgram


async def ears(url: str, seen: side.Seen, seconds: float) -> None:
    """Listen in several calls."""
    stt = deepgram.STT(base_url=url, api_key="key", language="en")

    async def call() -> None:
        stream = await stt.open()

        async def read() -> None:
            async for event in stream.events():
                if isinstance(event, STTInterim | STTFinal):
                    for word in event.text.split():
                        seen.setdefault(int(word), time.monotonic())

        reading = asyncio.create_task(read())
        await side.paced(lambda data: stream.push(AudioFrame(data, side.RATE)), seconds)
        await stream.aclose()
        reading.cancel()

    await asyncio.gather(*(call() for _ in range(side.STREAMS)))
    await stt.aclose()


async def main(url: str) -> dict[str, object]:
    """Measure the three kinds, one after the other."""
    seen: side.Seen = {}
    llm = anthropic.LLM(model="claude-sonnet-4-5", base_url=url, api_key="key")
    request = GenerateRequest(context=ChatContext([ChatMessage(role="user", content="Hello")]))

    async def answer() -> None:
        async for event in llm.generate(request):
            if isinstance(event, TextDelta):
                now = time.monotonic()
                for word in event.text.split():
                    seen.setdefault(int(word), now)

    tts = cartesia.TTS(base_url=url, api_key="key")

    async def text() -> AsyncIterator[str]:
        for piece in side.TEXT:
            yield piece

    async def speak() -> None:
        async for chunk in tts.stream(text()):
            side.see_samples(seen, chunk.frame.data)

    await ears(url, seen, 1.0)
    told: dict[str, object] = {"ears": await side.measured(ears(url, seen, side.STREAM_SECONDS), seen)}
    await side.several(answer, side.WARM)
    told["mind"] = await side.measured(side.several(answer, side.ANSWERS), seen)
    await side.several(speak, side.WARM)
    told["voice"] = await side.measured(side.several(speak, side.SPEECHES), seen)
    await llm.aclose()
    await tts.aclose()
    return told


side.report(main)

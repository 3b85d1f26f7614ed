"""The measurement's load through livekit-agents' plugins; run by the interpreter that has them."""

from __future__ import annotations

import asyncio
import time

import aiohttp
from livekit import rtc
from livekit.agents import llm
from livekit.plugins import anthropic, cartesia, deepgram

from bench.providers import side


async def ears(url: str, seen: side.Seen, seconds: float, session: aiohttp.ClientSession) -> None:
    """Listen in several calls."""
    stt = deepgram.STT(base_url=f"{url}/v1/listen", api_key="key", language="en", http_session=session)

    async def call() -> None:
        stream = stt.stream()

        async def read() -> None:
            async for event in stream:
                if event.alternatives:
                    for word in event.alternatives[0].text.split():
                        seen.setdefault(int(word), time.monotonic())

        reading = asyncio.create_task(read())
        await side.paced(lambda data: stream.push_frame(rtc.AudioFrame(data, side.RATE, 1, len(data) // 2)), seconds)
        await stream.aclose()
        reading.cancel()

    await asyncio.gather(*(call() for _ in range(side.STREAMS)))
    await stt.aclose()


async def main(url: str) -> dict[str, object]:
    """Measure the three kinds, one after the other."""
    seen: side.Seen = {}
    model = anthropic.LLM(model="claude-sonnet-4-5", base_url=url, api_key="key")
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="Hello")

    async def answer() -> None:
        async with model.chat(chat_ctx=context) as chunks:
            async for chunk in chunks:
                if chunk.delta is not None and chunk.delta.content:
                    now = time.monotonic()
                    for word in chunk.delta.content.split():
                        seen.setdefault(int(word), now)

    async with aiohttp.ClientSession() as session:
        tts = cartesia.TTS(base_url=url, api_key="key", http_session=session)

        async def speak() -> None:
            async with tts.stream() as stream:
                for piece in side.TEXT:
                    stream.push_text(piece)
                stream.end_input()
                async for heard in stream:
                    side.see_samples(seen, heard.frame.data)

        await ears(url, seen, 1.0, session)
        told: dict[str, object] = {"ears": await side.measured(ears(url, seen, side.STREAM_SECONDS, session), seen)}
        await side.several(answer, side.WARM)
        told["mind"] = await side.measured(side.several(answer, side.ANSWERS), seen)
        await side.several(speak, side.WARM)
        told["voice"] = await side.measured(side.several(speak, side.SPEECHES), seen)
        await model.aclose()
        await tts.aclose()
    return told


side.report(main)

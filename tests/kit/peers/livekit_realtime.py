"""A conversation through livekit-plugins-openai's realtime model; run by the interpreter that has livekit-agents.

    echo '{"url": "http://127.0.0.1:1234/v1"}' | python livekit_realtime.py

Speaks a second of sound, answers the resulting tool call, asks for one more answer, adds and deletes an item, and
prints its observations as one line of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import json
import math
import struct
import sys
from typing import Any

from livekit import rtc
from livekit.agents import function_tool, llm
from livekit.plugins import openai
from openai.types.realtime import AudioTranscription, realtime_audio_input_turn_detection

LIMIT = 20.0


@function_tool  # type: ignore[untyped-decorator]
async def weather(city: str) -> str:
    """Tell the weather."""
    return f"cold in {city}"


async def read(generation: llm.GenerationCreatedEvent) -> dict[str, Any]:
    """Read an answer to its end."""
    seen: dict[str, Any] = {"text": "", "seconds": 0.0, "calls": []}
    async for message in generation.message_stream:

        async def texts(message: Any = message) -> None:
            async for text in message.text_stream:
                seen["text"] += text

        async def audio(message: Any = message) -> None:
            async for frame in message.audio_stream:
                seen["seconds"] += frame.duration

        await asyncio.gather(texts(), audio())
    async for call in generation.function_stream:
        seen["calls"].append([call.call_id, call.name, call.arguments])
    return seen


def sound(seconds: float, level: int) -> rtc.AudioFrame:
    """Return a tone, or silence."""
    samples = [round(level * math.sin(2 * math.pi * 440 * n / 24000)) for n in range(int(seconds * 24000))]
    return rtc.AudioFrame(struct.pack(f"<{len(samples)}h", *samples), 24000, 1, len(samples))


async def main(url: str) -> dict[str, Any]:
    """Hold the conversation."""
    model = openai.realtime.RealtimeModel(
        base_url=url,
        api_key="secret",
        model="scripted",
        input_audio_transcription=AudioTranscription(model="gpt-4o-transcribe"),
        turn_detection=realtime_audio_input_turn_detection.ServerVad(type="server_vad"),
    )
    session = model.session()
    generations: asyncio.Queue[Any] = asyncio.Queue()
    transcripts: list[str] = []
    errors: list[str] = []
    usage: list[int] = []
    session.on("generation_created", generations.put_nowait)
    session.on("input_audio_transcription_completed", lambda e: transcripts.append(e.transcript) if e.is_final else 0)
    session.on("error", lambda e: errors.append(str(e.error)))
    session.on("metrics_collected", lambda m: usage.append(getattr(m, "output_tokens", 0)))
    try:
        await session.update_instructions("Be brief.")
        await session.update_tools([weather])
        session.push_audio(sound(1.0, 8000))
        session.push_audio(sound(1.0, 0))
        first = await read(await generations.get())
        call_id, name, arguments = first["calls"][0]
        context = session.chat_ctx.copy()
        output = await weather(**json.loads(arguments))
        context.items.append(llm.FunctionCallOutput(call_id=call_id, name=name, output=output, is_error=False))
        await session.update_chat_ctx(context)
        second = await read(await session.generate_reply())
        context = session.chat_ctx.copy()
        context.add_message(role="user", content="typed")
        await session.update_chat_ctx(context)
        context = session.chat_ctx.copy()
        context.items.pop()
        await session.update_chat_ctx(context)
        history = [[item.role, item.text_content] for item in session.chat_ctx.items if item.type == "message"]
        return {
            "first": first,
            "second": second,
            "transcripts": transcripts,
            "errors": errors,
            "usage": usage,
            "history": history,
        }
    finally:
        await session.aclose()
        await model.aclose()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(json.load(sys.stdin)["url"]), LIMIT))))

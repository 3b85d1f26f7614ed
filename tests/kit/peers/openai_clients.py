"""Conversations through the SDKs of OpenAI and Groq, and livekit-plugins-openai; run by the peers' interpreter.

The job on the standard input has the address of a twin for each server by its name. Prints the observations as one line
of JSON. Imports nothing of vivavoce.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import wave
from typing import Any

import groq
import openai
from livekit.agents import APIError, llm
from livekit.agents.types import APIConnectOptions
from livekit.plugins import openai as livekit_openai

LIMIT = 60.0
HELLO: Any = [{"role": "user", "content": "Hello"}]
TOOL: Any = {"type": "function", "function": {"name": "book", "description": "Book.", "parameters": {"type": "object"}}}


def fields(value: Any) -> dict[str, Any]:
    """Return a usage as a dict."""
    return value if isinstance(value, dict) else value.model_dump() if value is not None else {}


async def chat(client: Any, **asked: Any) -> dict[str, Any]:
    """Read an answer."""
    seen: dict[str, Any] = {"text": "", "thoughts": "", "usage": {}, "finish": "", "calls": [], "error": None}
    try:
        stream = await client.chat.completions.create(model="m", messages=HELLO, stream=True, **asked)
        async for chunk in stream:
            usage = chunk.usage or fields(getattr(chunk, "x_groq", None)).get("usage")
            seen["usage"] = fields(usage) or seen["usage"]
            for choice in chunk.choices[:1]:
                delta = choice.delta
                seen["text"] += delta.content or ""
                thought = getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None)
                seen["thoughts"] += thought or ""
                seen["finish"] = choice.finish_reason or seen["finish"]
                seen["calls"] += [
                    [call.id, call.function.name, call.function.arguments] for call in delta.tool_calls or ()
                ]
    except (openai.APIError, groq.APIError) as error:
        body = error.body if isinstance(error.body, dict) else {}
        seen["error"] = {
            "class": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "code": body.get("code") or body.get("error", {}).get("code"),
            "text": error.message,
        }
    return seen


def speech() -> io.BytesIO:
    """Return half a second of sound as a file."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(16000)
        writer.writeframes(b"\x00\x10" * 8000)
    file.name = "speech.wav"
    file.seek(0)
    return file


async def audio(client: Any, model: str, voice: str) -> dict[str, Any]:
    """Have a file transcribed, and a text spoken."""
    heard = await client.audio.transcriptions.create(
        model=model, file=speech(), response_format="verbose_json", timestamp_granularities=["word", "segment"]
    )
    spoken = await client.audio.speech.create(model="v", voice=voice, input="Hello", response_format="wav")
    data = (
        await spoken.read() if hasattr(spoken, "read") and asyncio.iscoroutinefunction(spoken.read) else spoken.content
    )
    with wave.open(io.BytesIO(data)) as file:
        rate = file.getframerate()
    words = [fields(word) for word in fields(heard)["words"]]
    return {"text": heard.text, "words": [word["word"] for word in words], "end": words[-1]["end"], "rate": rate}


async def livekit(url: str) -> dict[str, Any]:
    """Read an answer of Azure through livekit's plugin."""
    model = livekit_openai.LLM.with_azure(
        model="m", azure_endpoint=url, azure_deployment="mine", api_version="2024-10-21", api_key="secret"
    )
    context = llm.ChatContext.empty()
    context.add_message(role="user", content="Hello")
    seen: dict[str, Any] = {"text": "", "error": ""}
    try:
        async with model.chat(chat_ctx=context, conn_options=APIConnectOptions(max_retry=0)) as answer:
            async for chunk in answer:
                seen["text"] += (chunk.delta.content or "") if chunk.delta is not None else ""
    except APIError as error:
        seen["error"] = type(error).__name__
    await model.aclose()
    return seen


async def main(urls: dict[str, str]) -> dict[str, Any]:
    """Hold the conversations."""
    seen: dict[str, Any] = {"chats": {}}
    for name, url in urls.items():
        if name not in ("azure", "openai"):
            async with openai.AsyncOpenAI(base_url=url, api_key="secret", max_retries=0) as client:
                seen["chats"][name] = [await chat(client), await chat(client, tools=[TOOL])]
    async with openai.AsyncOpenAI(base_url=urls["openai"], api_key="secret", max_retries=0) as client:
        seen["openai"] = await audio(client, "whisper-1", "marin")
    host = urls["groq"].removesuffix("/v1")
    async with groq.AsyncGroq(base_url=host, api_key="secret", max_retries=0) as own:
        seen["groq"] = {"chat": await chat(own), "audio": await audio(own, "whisper-large-v3-turbo", "autumn")}
    key: Any = {"azure_endpoint": urls["azure"], "api_version": "2024-10-21", "api_key": "secret", "max_retries": 0}
    async with openai.AsyncAzureOpenAI(azure_deployment="mine", **key) as azure:
        seen["azure"] = [await chat(azure) for _ in range(2)]
    async with openai.AsyncAzureOpenAI(azure_deployment="yours", **key) as azure:
        seen["azure"].append(await chat(azure))
    v1 = f"{urls['azure']}/openai/v1/"
    async with openai.AsyncOpenAI(base_url=v1, api_key="eyJ.token", max_retries=0) as client:
        seen["azure"].append(await chat(client))
    seen["livekit"] = await livekit(urls["azure"])
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(json.load(sys.stdin)["urls"]), LIMIT))))

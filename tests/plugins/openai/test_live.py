"""The checks against the servers themselves: `pytest -m live tests/plugins/openai`, with their keys set."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kit.chat import user
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.stt.base import STTFinal
from vivavoce.pipelines.testing import check_llm, check_tts
from vivavoce.plugins import openai
from vivavoce.plugins.openai.servers import BY_NAME, ServerName

KEYS = {name: os.environ.get(server.key_variables[0], "") for name, server in BY_NAME.items() if server.key_variables}
"""Read before the fixture that hides them from the other tests."""

MODELS: dict[ServerName, str] = {
    "cerebras": "gpt-oss-120b",
    "deepseek": "deepseek-chat",
    "fireworks": "accounts/fireworks/models/gpt-oss-120b",
    "groq": "openai/gpt-oss-120b",
    "mistral": "mistral-small-latest",
    "openai": openai.DEFAULT_MODEL,
    "openrouter": "openai/gpt-oss-120b",
    "perplexity": "sonar",
    "together": "openai/gpt-oss-120b",
    "xai": "grok-4.3",
}


@function_tool
def book(day: str) -> str:
    """Book a table."""
    return day


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.live(BY_NAME[name].key_variables[0])) for name in MODELS]
)
@pytest.mark.timeout(120)
async def test_a_servers_model_keeps_the_promises_of_an_llm(name: ServerName) -> None:
    def make() -> openai.LLM:
        return openai.LLM(server=name, model=MODELS[name], api_key=KEYS[name])

    tools: tuple[Any, ...] = (book,) if make().capabilities.supports_tools else ()
    talk = GenerateRequest(context=ChatContext([user("Say hello.")]), instructions="Be brief.", tools=tools)
    friday = ChatContext([user("Book a table on Friday, with the tool.")])
    act = GenerateRequest(context=friday, tools=tools, tool_choice=ToolChoice(mode="required" if tools else "auto"))
    answers = await check_llm(make, talk, act, limit=30.0)
    assert any(isinstance(event, TextDelta) for event in answers[0])
    assert any(isinstance(event, ToolCall) for event in answers[1]) or not tools
    assert all(any(isinstance(event, Usage) for event in answer) for answer in answers)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.live(BY_NAME[name].key_variables[0])) for name in ("openai", "groq")]
)
@pytest.mark.timeout(120)
async def test_a_servers_ears_hear_its_voice(name: ServerName) -> None:
    async with openai.TTS(server=name, api_key=KEYS[name]) as tts:
        await check_tts(lambda: openai.TTS(server=name, api_key=KEYS[name]), limit=30.0)
        frames = [chunk.frame async for chunk in tts.synthesize("Hello, a table for two, please.")]
    resampler = Resampler(tts.capabilities.sample_rate, 16000)
    pcm = b"".join(resampler.push(frame).data for frame in frames) + resampler.flush().data
    async with openai.STT(server=name, api_key=KEYS[name], api="upload", language="en") as stt:
        stream = await stt.open()
        stream.speech_started(0.0)
        stream.push(AudioFrame(pcm, 16000))
        stream.flush()
        final = await anext(stream.events())
        await stream.aclose()
    assert isinstance(final, STTFinal)
    assert "table" in final.text.lower()

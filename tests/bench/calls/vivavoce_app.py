"""Our worker of `calls.py`: Silero, and scripted speech recognition, model and voice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import parts  # type: ignore[import-not-found]  # stands beside this file

from vivavoce.agents import Agent, AgentSession, JobContext, Worker, WorkerOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.base import LLM, Done, GenerateRequest, LLMEvent, TextDelta
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STT, STTEvent, STTFinal, STTStream
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities
from vivavoce.plugins import silero


class EarStream(STTStream):
    def __init__(self) -> None:
        self._ear = parts.Ear()
        self._ends: asyncio.Queue[None] = asyncio.Queue()

    def push(self, frame: AudioFrame) -> None:
        if self._ear.has_ended(frame.data, frame.sample_rate):
            self._ends.put_nowait(None)

    async def events(self) -> AsyncIterator[STTEvent]:
        while True:
            await self._ends.get()
            await asyncio.sleep(parts.STT_DELAY)
            yield STTFinal(text=parts.USER_TEXT)

    async def aclose(self) -> None:
        pass


class ScriptedSTT(STT):
    provider = "bench"

    async def open(self) -> STTStream:
        return EarStream()


class ScriptedLLM(LLM):
    provider = "bench"

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent, None]:
        async for token in parts.tokens():
            yield TextDelta(token)
        yield Done()


class ScriptedTTS(TTS):
    provider = "bench"

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=parts.OUT_RATE, streams_text=True)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        async for pcm in parts.Voice().speak(text):
            yield AudioChunk(AudioFrame(pcm, parts.OUT_RATE))

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        voice = parts.Voice()
        async for piece in text:
            async for pcm in voice.speak(piece):
                yield AudioChunk(AudioFrame(pcm, parts.OUT_RATE))


def prewarm(shared: dict[str, Any]) -> None:
    shared["vad"] = silero.VAD()


async def entrypoint(ctx: JobContext) -> None:
    pipeline = CascadingPipeline(stt=ScriptedSTT(), llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ctx.shared["vad"])
    await AgentSession(Agent("Be brief."), pipeline).start()


def no_load() -> float:
    return 0.0


worker = Worker(entrypoint, options=WorkerOptions(prewarm=prewarm, max_jobs=200, load=no_load))

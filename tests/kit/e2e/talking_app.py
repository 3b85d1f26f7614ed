"""Agents for tests of job processes: one that talks without end in a room, and one that talks to nobody, busily."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator

import numpy as np

from vivavoce.agents import Agent, AgentSession
from vivavoce.agents.job import JobContext
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedTTS
from vivavoce.pipelines.tts.base import TTS, AudioChunk, TTSCapabilities

RATE = 24_000
ANSWERS = 3
ANSWER = "These are ten words that the agent says to nobody."


class Hum(TTS):
    """Hums for two minutes, whatever the text is."""

    provider = "hum"

    @property
    def capabilities(self) -> TTSCapabilities:
        return TTSCapabilities(sample_rate=RATE)

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        times = np.arange(RATE) / RATE
        second = (6000 * np.sin(2 * np.pi * 220 * times)).astype(np.int16).tobytes()
        for _ in range(120):
            yield AudioChunk(AudioFrame(second, RATE))


async def talks_on(ctx: JobContext) -> None:
    """Speak for two minutes; the agent's attribute `pid` names its process."""
    session = AgentSession[None](Agent("Tell a story."), CascadingPipeline(tts=Hum()))
    await session.start()
    await ctx.room.local_participant.set_attributes({"pid": str(os.getpid())})
    await session.say("A story without an end.")


async def talks_to_nobody(ctx: JobContext) -> None:
    """Give some answers in real time, without a room; the job ends with the session."""
    pipeline = CascadingPipeline(llm=ScriptedLLM(default=[0.1, ANSWER]), tts=ScriptedTTS())
    async with AgentSession[None](Agent("Answer."), pipeline) as session:
        await session.start(LocalTransport(LoopClock()))
        for _ in range(ANSWERS):
            await session.reply("Say something.")

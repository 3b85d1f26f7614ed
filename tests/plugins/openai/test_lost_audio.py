"""Audio that the server takes too slowly is lost, and counted in the session for the component that missed it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, ScriptedVAD
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.outbox import MAX_QUEUED
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.testing.realtime_server import ScriptedRealtimeServer
from vivavoce.plugins import openai

Owned = openai.STT | openai.RealtimeModel
FRAMES = MAX_QUEUED + 500
LOUD = AudioFrame(b"\x00\x10" * 320, 16000)


def cascading(url: str) -> tuple[Pipeline, Owned, str]:
    stt = openai.STT(model="m", base_url=url, api_key="secret")
    return CascadingPipeline(stt=stt, llm=ScriptedLLM(), tts=ScriptedTTS(), vad=ScriptedVAD()), stt, "stt"


def realtime(url: str) -> tuple[Pipeline, Owned, str]:
    model = openai.RealtimeModel(model="m", base_url=url, api_key="secret")
    return RealtimePipeline(model), model, "realtime_model"


@pytest.mark.parametrize("make", [cascading, realtime])
async def test_frames_beyond_what_may_wait_for_the_server_are_counted(
    make: Callable[[str], tuple[Pipeline, Owned, str]],
) -> None:
    watching = Watching()
    async with ScriptedRealtimeServer() as server:
        pipeline, owned, component = make(server.url)
        session = AgentSession[None](Agent("Help."), pipeline, options=SessionOptions(telemetry=watching.telemetry))
        room = LocalTransport(LoopClock())
        async with owned, session:
            await session.start(room)
            for _ in range(FRAMES):  # at once, so that none is sent meanwhile
                room.push_audio(LOUD)
    (lost,) = watching.points("vivavoce.audio.dropped")
    assert dict(lost.attributes) == {
        "vivavoce.component": component,
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "m",
    }
    assert FRAMES - MAX_QUEUED - 20 <= lost.value <= FRAMES - MAX_QUEUED + 20

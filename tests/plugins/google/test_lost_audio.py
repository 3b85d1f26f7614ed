"""Audio that Gemini takes too slowly is lost, and counted in the session."""

from __future__ import annotations

import pytest

from kit.telemetry import Watching
from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.outbox import MAX_QUEUED
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.plugins import google
from vivavoce.plugins.google.twin.live import LiveTwin

FRAMES = MAX_QUEUED + 500
LOUD = AudioFrame(b"\x00\x10" * 320, 16000)


async def test_frames_beyond_what_may_wait_for_the_server_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    watching = Watching()
    async with LiveTwin() as server:
        trusting = google.RealtimeOptions(ssl_context=server.trust)
        model = google.RealtimeModel(model="m", api_key="secret", base_url=server.url, options=trusting)
        options = SessionOptions(telemetry=watching.telemetry)
        session = AgentSession[None](Agent("Help."), RealtimePipeline(model), options=options)
        room = LocalTransport(LoopClock())
        async with model, session:
            await session.start(room)
            for _ in range(FRAMES):  # at once, so that none is sent meanwhile
                room.push_audio(LOUD)
    (lost,) = watching.points("vivavoce.audio.dropped")
    assert dict(lost.attributes) == {
        "vivavoce.component": "realtime_model",
        "gen_ai.provider.name": "google",
        "gen_ai.request.model": "m",
    }
    assert FRAMES - MAX_QUEUED - 20 <= lost.value <= FRAMES - MAX_QUEUED + 20

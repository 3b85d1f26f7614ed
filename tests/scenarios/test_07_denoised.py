"""Scenario 7 with a denoiser: noise that it removes neither interrupts the agent nor makes a turn."""

from __future__ import annotations

from kit.pipeline import Muter
from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.testing import ScriptedTTSOptions


def test_noise_that_the_denoiser_removes_does_not_stop_the_agent_and_speech_does() -> None:
    voice = ScriptedTTS(options=ScriptedTTSOptions(duration=20.0))
    llm = ScriptedLLM("Fine.")
    harness = SessionHarness(Agent("Tell."), llm, tts=voice, denoise=Muter(sample_rate=16000, delay=0.0, until=8.0))
    harness.caller.makes_noise(3.0, 6.0)
    harness.caller.says("wait please", 9.0, 10.5)

    async def tell(harness: SessionHarness) -> None:
        await harness.until(1.0)
        _ = harness.session.say("A long story.")
        await harness.until(8.0)
        assert harness.session.user_state == "listening"
        assert harness.session.agent_state == "speaking"

    harness.run(tell, until=14.0)
    first = harness.played[0]
    assert 9.0 < first.start + first.seconds < 9.8
    assert [text for role, text in harness.messages if role == "user"] == ["wait please"]

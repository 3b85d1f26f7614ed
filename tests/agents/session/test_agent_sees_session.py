"""An agent's own code uses its session as the application does; mypy reads this file too."""

from __future__ import annotations

import wave
from pathlib import Path

from vivavoce.agents import Agent, AgentState, UserState
from vivavoce.agents.events import SessionEvent, TurnCompleted
from vivavoce.agents.testing import ScriptedLLM, SessionHarness


def test_an_agent_s_code_sees_all_of_its_session(tmp_path: Path) -> None:
    path = tmp_path / "hello.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(b"\x01\x00" * 16_000)
    seen: list[object] = []
    turns: list[str] = []

    class Host(Agent):
        async def on_enter(self) -> None:
            session = self.session
            session.on("turn_completed", self.note)
            session.update_flow(None)
            session.stop_background_audio()
            session.input.mute(False)
            seen.extend([session.agent_state, session.user_state, session.conversation_flow, session.current_speech])
            seen.append(session.snapshot()["agent"])
            await session.say("Hello.", audio=path)
            session.off(TurnCompleted, self.note)
            seen.append(session.usage.llm_output_tokens)

        def note(self, event: SessionEvent) -> None:
            turns.append(event.name)

    harness = SessionHarness(Host("Help."), ScriptedLLM()).run(until=3.0)
    assert seen == [AgentState.STARTING, UserState.IDLE, None, None, "Host", 0]
    assert turns == ["turn_completed"]
    harness.expect_history(("assistant", "Hello."))

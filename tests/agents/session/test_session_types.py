"""An agent's code, a flow's and a tool's see their session with its real types: mypy reads this file."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, assert_type

from vivavoce.agents import (
    Agent,
    AgentSession,
    ConversationFlow,
    RunContext,
    SpeechHandle,
    function_tool,
)
from vivavoce.agents.audio.recording.session_recording import SessionRecording
from vivavoce.agents.core.handoff import Handoff
from vivavoce.agents.core.pipeline_change import PipelineChange
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.records import CloseReport, SessionReport, TurnRecord, UsageRecord
from vivavoce.agents.session.turns.caller import SessionInput
from vivavoce.agents.session.turns.wake_up_call import WakeUpTimer
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.llm.chat_context import ChatItem, ChatMessage
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import ScriptedTTS


class Host(Agent):
    """Reads its session in `on_enter`."""

    seen = 0

    async def on_enter(self) -> None:
        session = self.session
        assert_type(session, AgentSession[Any])
        assert_type(session.history, SessionHistory)
        assert_type(session.history.items, tuple[ChatItem, ...])
        assert_type(session.history.add_message("system", "Be brief."), ChatMessage)
        assert_type(session.turns, tuple[TurnRecord, ...])
        assert_type(session.usage, UsageRecord)
        assert_type(session.recording, SessionRecording)
        assert_type(session.report(), SessionReport)
        assert_type(session.input, SessionInput)
        assert_type(session.wake_up_timer, WakeUpTimer)
        assert_type(session.wake_up, WakeUp | None)
        assert_type(session.agent, Agent)
        assert_type(session.pipeline, Pipeline)
        assert_type(session.agent_state, AgentState)
        assert_type(session.user_state, UserState)
        assert_type(session.current_speech, SpeechHandle | None)
        session.on(TurnCompleted, self.note)
        _ = assert_type(session.say("Hello."), SpeechHandle)

    def note(self, event: TurnCompleted) -> None:
        """Count the turns."""
        self.seen += 1

    @function_tool
    async def look(self, context: RunContext) -> str:
        """Look."""
        assert_type(context.session, AgentSession[Any])
        _ = assert_type(context.speech, SpeechHandle)
        return "seen"

    async def types_only(self, other: Agent) -> None:
        """Never called."""
        _ = assert_type(self.session.update_agent(other), Handoff)
        _ = assert_type(self.session.update_pipeline(self.session.pipeline), PipelineChange)
        assert_type(await self.session.close(), CloseReport)


class Flow(ConversationFlow):
    """Only its types are looked at."""

    async def run(self, transcript: str) -> AsyncIterator[str]:
        assert_type(self.session, AgentSession[Any])
        yield transcript


def test_an_agent_s_code_sees_the_types_of_its_session() -> None:
    host = Host("Help.")
    harness = SessionHarness(host, ScriptedLLM()).run(until=3.0)
    harness.expect_history(("system", "Be brief."), ("assistant", "Hello."))
    assert host.seen == 1


def test_a_session_has_the_type_of_its_userdata_and_none_without_any() -> None:
    plain = AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))
    assert_type(plain, AgentSession[None])
    assert_type(plain.userdata, None)
    booking = AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()), userdata={"day": "friday"})
    assert_type(booking, AgentSession[dict[str, str]])
    assert plain.userdata is None
    assert booking.userdata == {"day": "friday"}

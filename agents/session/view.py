"""SessionView: what can be read of a session, while it runs and after it has closed."""

from __future__ import annotations

from vivavoce.agents.agent import Agent
from vivavoce.agents.audio.recording.session_recording import SessionRecording
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.records import SessionReport, TurnRecord, UsageRecord
from vivavoce.agents.session.lifecycle.task import SessionLifecycle
from vivavoce.agents.session.pipelines.switch import PipelineSwitch
from vivavoce.agents.session.runtime import SessionRuntime
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.states import AgentState, UserState
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.pipelines.pipeline import Pipeline


class SessionView:
    """Reads the session's parts, which the session makes."""

    _machine: TurnMachine
    _context: SessionContext
    recording: SessionRecording
    """Records the call."""
    _runtime: SessionRuntime
    _lifecycle: SessionLifecycle
    _pipelines: PipelineSwitch

    @property
    def agent(self) -> Agent:
        """Who has the conversation."""
        return self._context.live.agent

    @property
    def pipeline(self) -> Pipeline:
        """How it listens, thinks and speaks."""
        return self._pipelines.pipeline

    @property
    def conversation_flow(self) -> ConversationFlow | None:
        """What answers the caller in place of the model."""
        return self._runtime.flows.flow

    @property
    def current_speech(self) -> SpeechHandle | None:
        """The speech that has the floor."""
        return self._runtime.current_handle

    @property
    def agent_state(self) -> AgentState:
        """What the agent is doing."""
        return self._machine.agent_state

    @property
    def user_state(self) -> UserState:
        """What the user is doing."""
        return self._machine.user_state

    @property
    def turns(self) -> tuple[TurnRecord, ...]:
        """Records of all turns that have ended."""
        return tuple(self._context.log.turns)

    @property
    def usage(self) -> UsageRecord:
        """What was used so far."""
        return self._context.log.usage

    def report(self) -> SessionReport:
        """Return everything kept so far."""
        return self._context.log.report(
            self._lifecycle.report,
            pipeline=self.pipeline,
            agent_id=self.agent.id,
            recordings=self.recording.records,
        )

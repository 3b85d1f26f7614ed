"""vivavoce.agents: agents, sessions, rooms and workers. Public names load on first use, so importing this is cheap.

The layers are the import contracts in `pyproject.toml`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent, CompletedTurn, EmptyReply, StopResponse
    from vivavoce.agents.audio.background import BackgroundAudioConfig
    from vivavoce.agents.audio.recording.options import RecordingOptions
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.history.file_sinks import JsonLinesHistorySink, SqliteHistorySink
    from vivavoce.agents.history.sink import HistoryChange, HistorySink, MemoryHistorySink
    from vivavoce.agents.job import get_job_context
    from vivavoce.agents.mcp_servers import MCPServer, MCPServerHTTP, MCPServerStdio
    from vivavoce.agents.records import SessionReport, TurnRecord
    from vivavoce.agents.session.handoff import Handoff
    from vivavoce.agents.session.options import SessionOptions
    from vivavoce.agents.session.pipelines.change import PipelineChange
    from vivavoce.agents.session.session import AgentSession
    from vivavoce.agents.speech.flow import ConversationFlow
    from vivavoce.agents.speech.limits import SpeechLimits
    from vivavoce.agents.states import AgentState, CloseReason, UserState
    from vivavoce.agents.telemetry.logs.log_export import SessionLogHandler
    from vivavoce.agents.telemetry.options import TelemetryOptions
    from vivavoce.agents.telemetry.telemetry import Telemetry
    from vivavoce.agents.tools.context import RunContext
    from vivavoce.agents.transports.options import RoomOptions
    from vivavoce.agents.turn.barge_in.backchannels import backchannels_for
    from vivavoce.agents.turn.barge_in.policy import InterruptionMoment, InterruptionPolicy
    from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, WakeUp
    from vivavoce.agents.worker.job import JobContext
    from vivavoce.agents.worker.options import WorkerOptions
    from vivavoce.agents.worker.worker import Worker
    from vivavoce.pipelines.core.errors import ToolError
    from vivavoce.pipelines.llm.chat_context import ChatContext
    from vivavoce.pipelines.llm.context_window import ContextWindow
    from vivavoce.pipelines.llm.summary import LLMSummariser
    from vivavoce.pipelines.llm.tools import Tool, ToolChoice, function_tool

_PLACES = {
    "Agent": "vivavoce.agents.agent",
    "AgentSession": "vivavoce.agents.session.session",
    "AgentState": "vivavoce.agents.states",
    "BackgroundAudioConfig": "vivavoce.agents.audio.background",
    "ChatContext": "vivavoce.pipelines.llm.chat_context",
    "CloseReason": "vivavoce.agents.states",
    "CompletedTurn": "vivavoce.agents.agent",
    "ContextWindow": "vivavoce.pipelines.llm.context_window",
    "ConversationFlow": "vivavoce.agents.speech.flow",
    "EmptyReply": "vivavoce.agents.agent",
    "EndpointingOptions": "vivavoce.agents.turn.options",
    "Handoff": "vivavoce.agents.session.handoff",
    "HistoryChange": "vivavoce.agents.history.sink",
    "HistorySink": "vivavoce.agents.history.sink",
    "InterruptionMoment": "vivavoce.agents.turn.barge_in.policy",
    "InterruptionOptions": "vivavoce.agents.turn.options",
    "InterruptionPolicy": "vivavoce.agents.turn.barge_in.policy",
    "JobContext": "vivavoce.agents.worker.job",
    "JsonLinesHistorySink": "vivavoce.agents.history.file_sinks",
    "LLMSummariser": "vivavoce.pipelines.llm.summary",
    "MCPServer": "vivavoce.agents.mcp_servers",
    "MCPServerHTTP": "vivavoce.agents.mcp_servers",
    "MCPServerStdio": "vivavoce.agents.mcp_servers",
    "MemoryHistorySink": "vivavoce.agents.history.sink",
    "PipelineChange": "vivavoce.agents.session.pipelines.change",
    "RecordingOptions": "vivavoce.agents.audio.recording.options",
    "RoomOptions": "vivavoce.agents.transports.options",
    "RunContext": "vivavoce.agents.tools.context",
    "SessionLogHandler": "vivavoce.agents.telemetry.logs.log_export",
    "SessionOptions": "vivavoce.agents.session.options",
    "SessionReport": "vivavoce.agents.records",
    "SpeechHandle": "vivavoce.agents.core.speech_handle",
    "SpeechLimits": "vivavoce.agents.speech.limits",
    "SqliteHistorySink": "vivavoce.agents.history.file_sinks",
    "StopResponse": "vivavoce.agents.agent",
    "Telemetry": "vivavoce.agents.telemetry.telemetry",
    "TelemetryOptions": "vivavoce.agents.telemetry.options",
    "Tool": "vivavoce.pipelines.llm.tools",
    "ToolChoice": "vivavoce.pipelines.llm.tools",
    "ToolError": "vivavoce.pipelines.core.errors",
    "TurnRecord": "vivavoce.agents.records",
    "UserState": "vivavoce.agents.states",
    "WakeUp": "vivavoce.agents.turn.options",
    "Worker": "vivavoce.agents.worker.worker",
    "WorkerOptions": "vivavoce.agents.worker.options",
    "backchannels_for": "vivavoce.agents.turn.barge_in.backchannels",
    "function_tool": "vivavoce.pipelines.llm.tools",
    "get_job_context": "vivavoce.agents.job",
}

__all__ = [
    "Agent",
    "AgentSession",
    "AgentState",
    "BackgroundAudioConfig",
    "ChatContext",
    "CloseReason",
    "CompletedTurn",
    "ContextWindow",
    "ConversationFlow",
    "EmptyReply",
    "EndpointingOptions",
    "Handoff",
    "HistoryChange",
    "HistorySink",
    "InterruptionMoment",
    "InterruptionOptions",
    "InterruptionPolicy",
    "JobContext",
    "JsonLinesHistorySink",
    "LLMSummariser",
    "MCPServer",
    "MCPServerHTTP",
    "MCPServerStdio",
    "MemoryHistorySink",
    "PipelineChange",
    "RecordingOptions",
    "RoomOptions",
    "RunContext",
    "SessionLogHandler",
    "SessionOptions",
    "SessionReport",
    "SpeechHandle",
    "SpeechLimits",
    "SqliteHistorySink",
    "StopResponse",
    "Telemetry",
    "TelemetryOptions",
    "Tool",
    "ToolChoice",
    "ToolError",
    "TurnRecord",
    "UserState",
    "WakeUp",
    "Worker",
    "WorkerOptions",
    "backchannels_for",
    "function_tool",
    "get_job_context",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return __all__

"""vivavoce.agents: agents, sessions, rooms and workers. Public names load on first use, so importing this is cheap.

An ordinary agent needs the names here. Further ones are in `vivavoce.agents.budget`, `dialogues`, `graphs`, `guard`,
`mcp_servers`, `memory`, `records`, `replies`, `tasks`, `telemetry`, `testing`, `transports` and `turn`.

The layers are the import contracts in `pyproject.toml`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import by_name, lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent, AgentOverrides, CompletedTurn, EmptyReply, StopResponse
    from vivavoce.agents.audio.background import BackgroundAudioConfig
    from vivavoce.agents.audio.recording.options import RecordingOptions
    from vivavoce.agents.core.handoff import Handoff
    from vivavoce.agents.core.pipeline_change import PipelineChange
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.current_job import get_job_context
    from vivavoce.agents.extension.extension import Extension
    from vivavoce.agents.guard.content_guard import ContentGuard, GuardedText, GuardVerdict
    from vivavoce.agents.job import JobContext
    from vivavoce.agents.mcp_servers import MCPServerHTTP, MCPServerStdio
    from vivavoce.agents.memory.options import MemoryOptions
    from vivavoce.agents.session.options import SessionOptions
    from vivavoce.agents.session.session import AgentSession
    from vivavoce.agents.speech.flow import ConversationFlow
    from vivavoce.agents.speech.limits import SpeechLimits
    from vivavoce.agents.states import AgentState, CloseReason, UserState
    from vivavoce.agents.tools.context import RunContext
    from vivavoce.agents.transports.options import RoomOptions, VideoInputOptions
    from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, WakeUp
    from vivavoce.agents.worker.crash_safety import CrashSafety
    from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
    from vivavoce.agents.worker.options import WorkerOptions
    from vivavoce.agents.worker.worker import Worker
    from vivavoce.pipelines.core.errors import ToolError
    from vivavoce.pipelines.llm.chat_context import ChatContext
    from vivavoce.pipelines.llm.context_window import ContextWindow
    from vivavoce.pipelines.llm.tools import Tool, ToolChoice, function_tool

_PLACES = {
    "vivavoce.agents.agent": "Agent AgentOverrides CompletedTurn EmptyReply StopResponse",
    "vivavoce.agents.audio.background": "BackgroundAudioConfig",
    "vivavoce.agents.audio.recording.options": "RecordingOptions",
    "vivavoce.agents.core.pipeline_change": "PipelineChange",
    "vivavoce.agents.core.speech_handle": "SpeechHandle",
    "vivavoce.agents.current_job": "get_job_context",
    "vivavoce.agents.extension.extension": "Extension",
    "vivavoce.agents.guard.content_guard": "ContentGuard GuardVerdict GuardedText",
    "vivavoce.agents.job": "JobContext",
    "vivavoce.agents.mcp_servers": "MCPServerHTTP MCPServerStdio",
    "vivavoce.agents.memory.options": "MemoryOptions",
    "vivavoce.agents.core.handoff": "Handoff",
    "vivavoce.agents.session.options": "SessionOptions",
    "vivavoce.agents.session.session": "AgentSession",
    "vivavoce.agents.speech.flow": "ConversationFlow",
    "vivavoce.agents.speech.limits": "SpeechLimits",
    "vivavoce.agents.states": "AgentState CloseReason UserState",
    "vivavoce.agents.tools.context": "RunContext",
    "vivavoce.agents.transports.options": "RoomOptions VideoInputOptions",
    "vivavoce.agents.turn.options": "EndpointingOptions InterruptionOptions WakeUp",
    "vivavoce.agents.worker.crash_safety": "CrashSafety",
    "vivavoce.agents.worker.executors.options": "ProcessExecution TaskExecution",
    "vivavoce.agents.worker.options": "WorkerOptions",
    "vivavoce.agents.worker.worker": "Worker",
    "vivavoce.pipelines.core.errors": "ToolError",
    "vivavoce.pipelines.llm.chat_context": "ChatContext",
    "vivavoce.pipelines.llm.context_window": "ContextWindow",
    "vivavoce.pipelines.llm.tools": "Tool ToolChoice function_tool",
}

__all__ = [
    "Agent",
    "AgentOverrides",
    "AgentSession",
    "AgentState",
    "BackgroundAudioConfig",
    "ChatContext",
    "CloseReason",
    "CompletedTurn",
    "ContentGuard",
    "ContextWindow",
    "ConversationFlow",
    "CrashSafety",
    "EmptyReply",
    "EndpointingOptions",
    "Extension",
    "GuardVerdict",
    "GuardedText",
    "Handoff",
    "InterruptionOptions",
    "JobContext",
    "MCPServerHTTP",
    "MCPServerStdio",
    "MemoryOptions",
    "PipelineChange",
    "ProcessExecution",
    "RecordingOptions",
    "RoomOptions",
    "RunContext",
    "SessionOptions",
    "SpeechHandle",
    "SpeechLimits",
    "StopResponse",
    "TaskExecution",
    "Tool",
    "ToolChoice",
    "ToolError",
    "UserState",
    "VideoInputOptions",
    "WakeUp",
    "Worker",
    "WorkerOptions",
    "function_tool",
    "get_job_context",
]

_MOVED = {
    "vivavoce.agents.budget": "Budget BudgetOptions Price",
    "vivavoce.agents.dialogues": (
        "ChannelMember Dialogue DialogueContext DialogueMessage DialogueOptions Edge Envelope "
        "LocalChannel MessageChannel MessageStatus Node"
    ),
    "vivavoce.agents.graphs": (
        "GraphError GraphEvent GraphOptions Intent IntentClassifier IntentMatch LLMIntents ModelIntents "
        "PatternIntents SessionGraph State StateGraph"
    ),
    "vivavoce.agents.guard": "ModelJudge",
    "vivavoce.agents.mcp_servers": "MCPServer",
    "vivavoce.agents.memory": (
        "AgentMember InProcessStore Namespace ReasoningEvent RedisStore SessionMemory SessionStore "
        "SessionSummary SqliteStore StoreError StoreTypeError StoreUnavailable StoreValueError Stream "
        "StreamItem"
    ),
    "vivavoce.agents.memory.stores": "Change LogState Place Record",
    "vivavoce.agents.records": "SessionReport TurnRecord",
    "vivavoce.agents.replies": "Data File Form Image Markdown Options ReceivedFile",
    "vivavoce.agents.tasks": (
        "AgentTask AskYesOrNo GetDateTime GetDigitCode GetEmailAddress GetPhoneNumber GetPostalAddress "
        "PostalAddress TaskError TaskGroup TaskOptions"
    ),
    "vivavoce.agents.telemetry": "SessionLogHandler Telemetry TelemetryOptions",
    "vivavoce.agents.transports": "AvatarOptions FileInputOptions avatar_token",
    "vivavoce.agents.turn": "InterruptionMoment InterruptionPolicy backchannels_for",
    "vivavoce.pipelines": "LLMSummariser SummaryWindow",
}
"""Namespace -> names that `vivavoce.agents` had in 0.1."""

_GONE = {
    "CrashSafety(store=…)": "Checkpoint CheckpointStore SqliteCheckpoints StoreCheckpoints",
    "SessionOptions(memory=MemoryOptions(store=…))": (
        "HistoryChange HistorySink JsonLinesHistorySink MemoryHistorySink SqliteHistorySink StoreHistorySink"
    ),
    "vivavoce.agents.graphs.SessionGraph": "SessionDialogue",
}
"""Successor -> names that `vivavoce.agents` had in 0.1."""

if not TYPE_CHECKING:
    _ANSWERS = {
        **{name: f"{name} is in {home}: from {home} import {name}" for name, home in by_name(_MOVED).items()},
        **{name: f"{name} is gone, use {successor}" for name, successor in by_name(_GONE).items()},
    }
    _ANSWERS["DialogueOptions"] += "; for a conversation graph: from vivavoce.agents.graphs import GraphOptions"
    __getattr__, __dir__ = lazy_names(__name__, _PLACES, moved=_ANSWERS)

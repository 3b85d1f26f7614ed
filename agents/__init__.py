"""vivavoce.agents: agents, sessions, rooms and workers. Public names load on first use, so importing this is cheap.

The layers are the import contracts in `pyproject.toml`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vivavoce.agents.agent import Agent, AgentOverrides, CompletedTurn, EmptyReply, StopResponse
    from vivavoce.agents.audio.background import BackgroundAudioConfig
    from vivavoce.agents.audio.recording.options import RecordingOptions
    from vivavoce.agents.budget.budget import Budget
    from vivavoce.agents.budget.options import BudgetOptions
    from vivavoce.agents.budget.price import Price
    from vivavoce.agents.core.message_channel import ChannelMember, Envelope, MessageChannel, MessageStatus
    from vivavoce.agents.core.pipeline_change import PipelineChange
    from vivavoce.agents.core.speech_handle import SpeechHandle
    from vivavoce.agents.current_job import get_job_context
    from vivavoce.agents.dialogues.context import DialogueContext
    from vivavoce.agents.dialogues.conversations import DialogueMessage
    from vivavoce.agents.dialogues.dialogue import Dialogue
    from vivavoce.agents.dialogues.edge import Edge, Node
    from vivavoce.agents.dialogues.local_channel import LocalChannel
    from vivavoce.agents.dialogues.options import DialogueOptions
    from vivavoce.agents.events import GraphEvent
    from vivavoce.agents.extension.extension import Extension
    from vivavoce.agents.graphs.graph.intent import Intent
    from vivavoce.agents.graphs.graph.state import State
    from vivavoce.agents.graphs.graph.state_graph import StateGraph
    from vivavoce.agents.graphs.intents.classifier import IntentClassifier, IntentMatch, ModelIntents
    from vivavoce.agents.graphs.intents.llm_intents import LLMIntents
    from vivavoce.agents.graphs.intents.patterns import PatternIntents
    from vivavoce.agents.graphs.options import GraphOptions
    from vivavoce.agents.graphs.runtime.session_graph import SessionGraph
    from vivavoce.agents.guard.content_guard import ContentGuard, GuardedText, GuardVerdict
    from vivavoce.agents.guard.model_judge import ModelJudge
    from vivavoce.agents.history.checkpoint import Checkpoint, CheckpointStore, SqliteCheckpoints
    from vivavoce.agents.job import JobContext
    from vivavoce.agents.mcp_servers import MCPServer, MCPServerHTTP, MCPServerStdio
    from vivavoce.agents.memory.history.reasoning import ReasoningEvent
    from vivavoce.agents.memory.history.store_checkpoints import StoreCheckpoints
    from vivavoce.agents.memory.memory import SessionMemory
    from vivavoce.agents.memory.namespace import Namespace
    from vivavoce.agents.memory.options import MemoryOptions
    from vivavoce.agents.memory.stores.in_process import InProcessStore
    from vivavoce.agents.memory.stores.redis import RedisStore
    from vivavoce.agents.memory.stores.sqlite import SqliteStore
    from vivavoce.agents.memory.stores.store import Change, LogState, Place, Record, SessionStore, SessionSummary
    from vivavoce.agents.memory.streams.items import StreamItem
    from vivavoce.agents.memory.streams.registry import AgentMember
    from vivavoce.agents.memory.streams.stream import Stream
    from vivavoce.agents.records import ReceivedFile, SessionReport, TurnRecord
    from vivavoce.agents.replies.part import Data, File, Form, Image, Markdown, Options
    from vivavoce.agents.session.handoffs.handoff_control import Handoff
    from vivavoce.agents.session.options import SessionOptions
    from vivavoce.agents.session.session import AgentSession
    from vivavoce.agents.speech.flow import ConversationFlow
    from vivavoce.agents.speech.limits import SpeechLimits
    from vivavoce.agents.states import AgentState, CloseReason, UserState
    from vivavoce.agents.tasks.group import TaskGroup
    from vivavoce.agents.tasks.options import TaskOptions
    from vivavoce.agents.tasks.ready.date_time import GetDateTime
    from vivavoce.agents.tasks.ready.digit_code import GetDigitCode
    from vivavoce.agents.tasks.ready.email import GetEmailAddress
    from vivavoce.agents.tasks.ready.phone import GetPhoneNumber
    from vivavoce.agents.tasks.ready.postal import GetPostalAddress, PostalAddress
    from vivavoce.agents.tasks.ready.yes_no import AskYesOrNo
    from vivavoce.agents.tasks.task import AgentTask
    from vivavoce.agents.telemetry.logs.log_export import SessionLogHandler
    from vivavoce.agents.telemetry.options import TelemetryOptions
    from vivavoce.agents.telemetry.telemetry import Telemetry
    from vivavoce.agents.tools.context import RunContext
    from vivavoce.agents.transports.livekit.avatar_token import avatar_token
    from vivavoce.agents.transports.options import AvatarOptions, FileInputOptions, RoomOptions, VideoInputOptions
    from vivavoce.agents.turn.backchannels import backchannels_for
    from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, WakeUp
    from vivavoce.agents.turn.policy import InterruptionMoment, InterruptionPolicy
    from vivavoce.agents.worker.crash_safety import CrashSafety
    from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
    from vivavoce.agents.worker.options import WorkerOptions
    from vivavoce.agents.worker.worker import Worker
    from vivavoce.pipelines.core.errors import (
        GraphError,
        StoreError,
        StoreTypeError,
        StoreUnavailable,
        StoreValueError,
        TaskError,
        ToolError,
    )
    from vivavoce.pipelines.llm.chat_context import ChatContext
    from vivavoce.pipelines.llm.context_window import ContextWindow
    from vivavoce.pipelines.llm.summary import LLMSummariser, SummaryWindow
    from vivavoce.pipelines.llm.tools import Tool, ToolChoice, function_tool

_PLACES = {
    "Agent": "vivavoce.agents.agent",
    "AgentMember": "vivavoce.agents.memory.streams.registry",
    "AgentOverrides": "vivavoce.agents.agent",
    "AgentSession": "vivavoce.agents.session.session",
    "AgentState": "vivavoce.agents.states",
    "AgentTask": "vivavoce.agents.tasks.task",
    "AskYesOrNo": "vivavoce.agents.tasks.ready.yes_no",
    "AvatarOptions": "vivavoce.agents.transports.options",
    "BackgroundAudioConfig": "vivavoce.agents.audio.background",
    "Budget": "vivavoce.agents.budget.budget",
    "BudgetOptions": "vivavoce.agents.budget.options",
    "Change": "vivavoce.agents.memory.stores.store",
    "ChannelMember": "vivavoce.agents.core.message_channel",
    "ChatContext": "vivavoce.pipelines.llm.chat_context",
    "Checkpoint": "vivavoce.agents.history.checkpoint",
    "CheckpointStore": "vivavoce.agents.history.checkpoint",
    "CloseReason": "vivavoce.agents.states",
    "CompletedTurn": "vivavoce.agents.agent",
    "ContentGuard": "vivavoce.agents.guard.content_guard",
    "ContextWindow": "vivavoce.pipelines.llm.context_window",
    "ConversationFlow": "vivavoce.agents.speech.flow",
    "CrashSafety": "vivavoce.agents.worker.crash_safety",
    "Data": "vivavoce.agents.replies.part",
    "Dialogue": "vivavoce.agents.dialogues.dialogue",
    "DialogueContext": "vivavoce.agents.dialogues.context",
    "DialogueMessage": "vivavoce.agents.dialogues.conversations",
    "DialogueOptions": "vivavoce.agents.dialogues.options",
    "Edge": "vivavoce.agents.dialogues.edge",
    "EmptyReply": "vivavoce.agents.agent",
    "EndpointingOptions": "vivavoce.agents.turn.options",
    "Envelope": "vivavoce.agents.core.message_channel",
    "Extension": "vivavoce.agents.extension.extension",
    "File": "vivavoce.agents.replies.part",
    "FileInputOptions": "vivavoce.agents.transports.options",
    "Form": "vivavoce.agents.replies.part",
    "GetDateTime": "vivavoce.agents.tasks.ready.date_time",
    "GetDigitCode": "vivavoce.agents.tasks.ready.digit_code",
    "GetEmailAddress": "vivavoce.agents.tasks.ready.email",
    "GetPhoneNumber": "vivavoce.agents.tasks.ready.phone",
    "GetPostalAddress": "vivavoce.agents.tasks.ready.postal",
    "GraphError": "vivavoce.pipelines.core.errors",
    "GraphEvent": "vivavoce.agents.events",
    "GraphOptions": "vivavoce.agents.graphs.options",
    "GuardVerdict": "vivavoce.agents.guard.content_guard",
    "GuardedText": "vivavoce.agents.guard.content_guard",
    "Handoff": "vivavoce.agents.session.handoffs.handoff_control",
    "Image": "vivavoce.agents.replies.part",
    "InProcessStore": "vivavoce.agents.memory.stores.in_process",
    "Intent": "vivavoce.agents.graphs.graph.intent",
    "IntentClassifier": "vivavoce.agents.graphs.intents.classifier",
    "IntentMatch": "vivavoce.agents.graphs.intents.classifier",
    "InterruptionMoment": "vivavoce.agents.turn.policy",
    "InterruptionOptions": "vivavoce.agents.turn.options",
    "InterruptionPolicy": "vivavoce.agents.turn.policy",
    "JobContext": "vivavoce.agents.job",
    "LLMIntents": "vivavoce.agents.graphs.intents.llm_intents",
    "LLMSummariser": "vivavoce.pipelines.llm.summary",
    "LocalChannel": "vivavoce.agents.dialogues.local_channel",
    "LogState": "vivavoce.agents.memory.stores.store",
    "MCPServer": "vivavoce.agents.mcp_servers",
    "MCPServerHTTP": "vivavoce.agents.mcp_servers",
    "MCPServerStdio": "vivavoce.agents.mcp_servers",
    "Markdown": "vivavoce.agents.replies.part",
    "MemoryOptions": "vivavoce.agents.memory.options",
    "MessageChannel": "vivavoce.agents.core.message_channel",
    "MessageStatus": "vivavoce.agents.core.message_channel",
    "ModelIntents": "vivavoce.agents.graphs.intents.classifier",
    "ModelJudge": "vivavoce.agents.guard.model_judge",
    "Namespace": "vivavoce.agents.memory.namespace",
    "Node": "vivavoce.agents.dialogues.edge",
    "Options": "vivavoce.agents.replies.part",
    "PatternIntents": "vivavoce.agents.graphs.intents.patterns",
    "PipelineChange": "vivavoce.agents.core.pipeline_change",
    "Place": "vivavoce.agents.memory.stores.store",
    "PostalAddress": "vivavoce.agents.tasks.ready.postal",
    "Price": "vivavoce.agents.budget.price",
    "ProcessExecution": "vivavoce.agents.worker.executors.options",
    "ReasoningEvent": "vivavoce.agents.memory.history.reasoning",
    "ReceivedFile": "vivavoce.agents.records",
    "Record": "vivavoce.agents.memory.stores.store",
    "RecordingOptions": "vivavoce.agents.audio.recording.options",
    "RedisStore": "vivavoce.agents.memory.stores.redis",
    "RoomOptions": "vivavoce.agents.transports.options",
    "RunContext": "vivavoce.agents.tools.context",
    "SessionGraph": "vivavoce.agents.graphs.runtime.session_graph",
    "SessionLogHandler": "vivavoce.agents.telemetry.logs.log_export",
    "SessionMemory": "vivavoce.agents.memory.memory",
    "SessionOptions": "vivavoce.agents.session.options",
    "SessionReport": "vivavoce.agents.records",
    "SessionStore": "vivavoce.agents.memory.stores.store",
    "SessionSummary": "vivavoce.agents.memory.stores.store",
    "SpeechHandle": "vivavoce.agents.core.speech_handle",
    "SpeechLimits": "vivavoce.agents.speech.limits",
    "SqliteCheckpoints": "vivavoce.agents.history.checkpoint",
    "SqliteStore": "vivavoce.agents.memory.stores.sqlite",
    "State": "vivavoce.agents.graphs.graph.state",
    "StateGraph": "vivavoce.agents.graphs.graph.state_graph",
    "StopResponse": "vivavoce.agents.agent",
    "StoreCheckpoints": "vivavoce.agents.memory.history.store_checkpoints",
    "StoreError": "vivavoce.pipelines.core.errors",
    "StoreTypeError": "vivavoce.pipelines.core.errors",
    "StoreUnavailable": "vivavoce.pipelines.core.errors",
    "StoreValueError": "vivavoce.pipelines.core.errors",
    "Stream": "vivavoce.agents.memory.streams.stream",
    "StreamItem": "vivavoce.agents.memory.streams.items",
    "SummaryWindow": "vivavoce.pipelines.llm.summary",
    "TaskError": "vivavoce.pipelines.core.errors",
    "TaskExecution": "vivavoce.agents.worker.executors.options",
    "TaskGroup": "vivavoce.agents.tasks.group",
    "TaskOptions": "vivavoce.agents.tasks.options",
    "Telemetry": "vivavoce.agents.telemetry.telemetry",
    "TelemetryOptions": "vivavoce.agents.telemetry.options",
    "Tool": "vivavoce.pipelines.llm.tools",
    "ToolChoice": "vivavoce.pipelines.llm.tools",
    "ToolError": "vivavoce.pipelines.core.errors",
    "TurnRecord": "vivavoce.agents.records",
    "UserState": "vivavoce.agents.states",
    "VideoInputOptions": "vivavoce.agents.transports.options",
    "WakeUp": "vivavoce.agents.turn.options",
    "Worker": "vivavoce.agents.worker.worker",
    "WorkerOptions": "vivavoce.agents.worker.options",
    "avatar_token": "vivavoce.agents.transports.livekit.avatar_token",
    "backchannels_for": "vivavoce.agents.turn.backchannels",
    "function_tool": "vivavoce.pipelines.llm.tools",
    "get_job_context": "vivavoce.agents.current_job",
}

__all__ = [
    "Agent",
    "AgentMember",
    "AgentOverrides",
    "AgentSession",
    "AgentState",
    "AgentTask",
    "AskYesOrNo",
    "AvatarOptions",
    "BackgroundAudioConfig",
    "Budget",
    "BudgetOptions",
    "Change",
    "ChannelMember",
    "ChatContext",
    "Checkpoint",
    "CheckpointStore",
    "CloseReason",
    "CompletedTurn",
    "ContentGuard",
    "ContextWindow",
    "ConversationFlow",
    "CrashSafety",
    "Data",
    "Dialogue",
    "DialogueContext",
    "DialogueMessage",
    "DialogueOptions",
    "Edge",
    "EmptyReply",
    "EndpointingOptions",
    "Envelope",
    "Extension",
    "File",
    "FileInputOptions",
    "Form",
    "GetDateTime",
    "GetDigitCode",
    "GetEmailAddress",
    "GetPhoneNumber",
    "GetPostalAddress",
    "GraphError",
    "GraphEvent",
    "GraphOptions",
    "GuardVerdict",
    "GuardedText",
    "Handoff",
    "Image",
    "InProcessStore",
    "Intent",
    "IntentClassifier",
    "IntentMatch",
    "InterruptionMoment",
    "InterruptionOptions",
    "InterruptionPolicy",
    "JobContext",
    "LLMIntents",
    "LLMSummariser",
    "LocalChannel",
    "LogState",
    "MCPServer",
    "MCPServerHTTP",
    "MCPServerStdio",
    "Markdown",
    "MemoryOptions",
    "MessageChannel",
    "MessageStatus",
    "ModelIntents",
    "ModelJudge",
    "Namespace",
    "Node",
    "Options",
    "PatternIntents",
    "PipelineChange",
    "Place",
    "PostalAddress",
    "Price",
    "ProcessExecution",
    "ReasoningEvent",
    "ReceivedFile",
    "Record",
    "RecordingOptions",
    "RedisStore",
    "RoomOptions",
    "RunContext",
    "SessionGraph",
    "SessionLogHandler",
    "SessionMemory",
    "SessionOptions",
    "SessionReport",
    "SessionStore",
    "SessionSummary",
    "SpeechHandle",
    "SpeechLimits",
    "SqliteCheckpoints",
    "SqliteStore",
    "State",
    "StateGraph",
    "StopResponse",
    "StoreCheckpoints",
    "StoreError",
    "StoreTypeError",
    "StoreUnavailable",
    "StoreValueError",
    "Stream",
    "StreamItem",
    "SummaryWindow",
    "TaskError",
    "TaskExecution",
    "TaskGroup",
    "TaskOptions",
    "Telemetry",
    "TelemetryOptions",
    "Tool",
    "ToolChoice",
    "ToolError",
    "TurnRecord",
    "UserState",
    "VideoInputOptions",
    "WakeUp",
    "Worker",
    "WorkerOptions",
    "avatar_token",
    "backchannels_for",
    "function_tool",
    "get_job_context",
]


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vivavoce.pipelines.core.field_docs import with_field_docs

    return with_field_docs(getattr(import_module(_PLACES[name]), name))


def __dir__() -> list[str]:
    return __all__

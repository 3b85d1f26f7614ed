"""The public names by their modules, as applications import them. `tests/agents/test_exports.py` compares the code."""

from __future__ import annotations

from importlib import import_module

PUBLIC = {
    "vivavoce.agents": (
        "Agent AgentOverrides AgentSession AgentState BackgroundAudioConfig ChatContext CloseReason "
        "CompletedTurn ContentGuard ContextWindow ConversationFlow CrashSafety EmptyReply EndpointingOptions "
        "Extension GuardVerdict GuardedText Handoff InterruptionOptions JobContext MCPServerHTTP "
        "MCPServerStdio MemoryOptions PipelineChange ProcessExecution RecordingOptions RoomOptions RunContext "
        "SessionOptions SpeechHandle SpeechLimits StopResponse TaskExecution Tool ToolChoice ToolError "
        "UserState VideoInputOptions WakeUp Worker WorkerOptions function_tool get_job_context"
    ),
    "vivavoce.agents.budget": "Budget BudgetOptions Price",
    "vivavoce.agents.dialogues": (
        "ChannelMember Dialogue DialogueContext DialogueMessage DialogueOptions Edge Envelope LocalChannel "
        "MessageChannel MessageStatus Node taken"
    ),
    "vivavoce.agents.extension": "Additions Attached Extension Host TextParts TurnInHand",
    "vivavoce.agents.graphs": (
        "GraphError GraphEvent GraphOptions Intent IntentClassifier IntentMatch LLMIntents ModelIntents "
        "PatternIntents SessionGraph State StateGraph"
    ),
    "vivavoce.agents.guard": "ModelJudge",
    "vivavoce.agents.knowledge": "KnowledgeBase KnowledgeOptions Passage RAGMessage SessionKnowledge",
    "vivavoce.agents.mcp_servers": "MCPServer",
    "vivavoce.agents.memory": (
        "AgentMember InProcessStore Namespace ReasoningEvent RedisStore SessionMemory SessionStore "
        "SessionSummary SqliteStore StoreError StoreTypeError StoreUnavailable StoreValueError Stream "
        "StreamItem"
    ),
    "vivavoce.agents.memory.stores": "Change LogState Place Record",
    "vivavoce.agents.peers": (
        "AgentCard AgentRegistry Peer PeerChannel PeerError PeerOptions PeerRejected PeerServer PeerText "
        "PeerTimeout PeerTool PeerUnreachable SessionPeers"
    ),
    "vivavoce.agents.records": "SessionReport TurnRecord",
    "vivavoce.agents.replies": "Data File Form Image Markdown Options ReceivedFile",
    "vivavoce.agents.tasks": (
        "AgentTask AskYesOrNo GetDateTime GetDigitCode GetEmailAddress GetPhoneNumber GetPostalAddress "
        "PostalAddress TaskError TaskGroup TaskOptions"
    ),
    "vivavoce.agents.telephony": (
        "Briefing CallOutcome CallVerdict CallerInfo EgressRecording EnteredKeys KeyEntry MachineDetection Telephony "
        "TelephonyOptions"
    ),
    "vivavoce.agents.telemetry": "SessionLogHandler Telemetry TelemetryOptions",
    "vivavoce.agents.transports": "AgentText AvatarOptions FileInputOptions LocalTransport TextTransport avatar_token",
    "vivavoce.agents.turn": "InterruptionMoment InterruptionPolicy backchannels_for",
    "vivavoce.pipelines": (
        "CascadingOptions CascadingPipeline FallbackLLM FallbackLLMOptions FallbackRealtime FallbackSTT "
        "FallbackSTTOptions FallbackTTS FallbackTTSOptions LLMSummariser Pipeline RealtimeOptions "
        "RealtimePipeline SilentPipeline SummaryWindow"
    ),
}
"""Module -> its public names. The test kits, and the plugins, list theirs themselves."""

HOMES = {name: module for module, names in reversed(PUBLIC.items()) for name in names.split()}
"""Public name -> its module; of `Extension`, which has two, `vivavoce.agents`."""


def public(name: str) -> object:
    """Return the object of a public name, wherever it is."""
    return getattr(import_module(HOMES[name]), name)

"""The members of the objects that applications hold: each is one that they may call, and completion shows no others."""

from __future__ import annotations

import pytest

from vivavoce.agents import (
    Agent,
    AgentOverrides,
    AgentSession,
    BackgroundAudioConfig,
    ConversationFlow,
    Handoff,
    JobContext,
    PipelineChange,
    RunContext,
    SpeechHandle,
    WakeUp,
    Worker,
)
from vivavoce.agents.audio.recording.session_recording import SessionRecording
from vivavoce.agents.budget.budget import Budget
from vivavoce.agents.core.stage_observers import StageObserver
from vivavoce.agents.dialogues import Dialogue, DialogueContext, Edge
from vivavoce.agents.graphs import SessionGraph
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.knowledge import KnowledgeBase, SessionKnowledge
from vivavoce.agents.memory import Stream
from vivavoce.agents.memory.memory import SessionMemory
from vivavoce.agents.memory.namespace import Namespace
from vivavoce.agents.memory.private import PrivateData
from vivavoce.agents.peers import AgentRegistry, Peer, PeerServer, SessionPeers
from vivavoce.agents.session.turns.caller import SessionInput
from vivavoce.agents.session.turns.wake_up_call import WakeUpTimer
from vivavoce.agents.tasks import AgentTask
from vivavoce.agents.telemetry import Telemetry, TelemetryOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.testing import ScriptedTTS

MEMBERS: dict[type, str] = {
    Agent: (
        "cleanup instructions llm_stage on_empty_reply on_enter on_exit on_speech_in on_speech_out on_stream "
        "on_user_turn_completed server_tools session stt_stage takes_keys tools tts_stage update_instructions "
        "update_tools"
    ),
    AgentTask: (
        "cancel cleanup complete decline fail instructions llm_stage on_empty_reply on_enter on_exit on_speech_in "
        "on_speech_out on_stream on_user_turn_completed options outcome server_tools session stt_stage summary "
        "takes_keys tools tts_stage update_instructions update_tools"
    ),
    AgentOverrides: "context denoise endpointing interruption llm stt tts turn_detector vad",
    BackgroundAudioConfig: "duck_volume enabled fade file_path hold_only looping thinking_only volume",
    Budget: "allocation attach set_allocation update_use usage use",
    CascadingPipeline: "capabilities fallback is_prepared name open parts prepare text_filters",  # the port's
    ConversationFlow: "cleanup model on_turn_end on_turn_start run session",
    Dialogue: (
        "add_message check cleanup_conversation digest get_context get_conversation get_current_state get_edge "
        "get_overview get_sessions is_cyclic is_ender is_finished is_included is_starter is_valid_message "
        "is_valid_reply manifest name on rules start_dialogue update_state"
    ),
    DialogueContext: "dialogue send session session_id",
    Edge: "digest efunc func model set_edge_handler set_message_handler",
    Handoff: "agent exception id is_done outcome turn_id",
    JobContext: (
        "add_shutdown_callback api caller connect job participant_token reason resume_from room shared shutdown "
        "wait_for_participant"
    ),
    PipelineChange: "exception id is_done outcome pipeline within",
    KnowledgeBase: "aclose add_file add_text clear embedder is_empty open remove search",
    Namespace: "append delete get get_all length set",
    PrivateData: "delete get set",
    Peer: "aclose id request send url",
    PeerServer: "add carry url url_of",
    AgentRegistry: "aclose find register registered unregister",
    SessionPeers: "connect on_message request send",
    RunContext: "call_id disallow_interruptions session speech update userdata",
    SessionGraph: "current_state event events intent manage_transition move receive_event",
    SessionKnowledge: "base run_rag run_session_rag session_base",
    SessionHistory: "add_message copy items messages remove replace_text summarise",
    SessionInput: "clear_turn commit_turn frames mute text",
    SessionMemory: (
        "add_agent agent_data attach create data get_chat_history get_reasoning_events get_stream_debug_info id "
        "link_pending_reasoning_events list_agents metadata notify open_stream post private remove_agent "
        "save_reasoning_event stop stream stream_data subscribe to_dict wait"
    ),
    SessionRecording: "is_on is_paused pause records resume start stop",
    StageObserver: "close dropped is_closed",
    Stream: "close control name read write",
    SpeechHandle: (
        "add_done_callback disallow_interruptions exception heard_text id interrupt interrupted interruptible is_done "
        "kind outcome played_seconds"
    ),
    Telemetry: (
        "aclose delivered_spans dropped_logs dropped_spans flush logger_provider meter_provider options "
        "tracer_provider waiting_logs waiting_spans"
    ),
    TelemetryOptions: (
        "attributes endpoint export_timeout flush_timeout headers logger_provider max_queue meter_provider protocol "
        "redact sampling service_name tracer_provider use_global"
    ),
    Worker: "aclose agent_name drain entrypoint health_port options run shared status stop",
    WakeUp: "after backoff repeat then",
    WakeUpTimer: "pause reset resume",
}
"""Each public class and its public members."""

OF_A_SESSION = (
    "agent agent_state budget close conversation_flow created_at current_speech extension graph hangup history id "
    "input interrupt knowledge leave memory observe off on on_wake_up once peers pipeline play_background_audio "
    "recording reply report run_task say snapshot start stop_background_audio telephony turns update_agent "
    "update_components update_flow "
    "update_pipeline usage user_state userdata wait_closed wake_up wake_up_timer"
)


def public(members: object) -> list[str]:
    return [member for member in dir(members) if not member.startswith("_")]


@pytest.mark.parametrize("cls", MEMBERS, ids=lambda cls: cls.__name__)
def test_a_public_class_has_the_members_that_applications_call_and_no_others(cls: type) -> None:
    assert public(cls) == MEMBERS[cls].split()


def test_an_agent_has_its_members_and_its_id_and_servers() -> None:
    assert public(Agent("Help.")) == sorted([*MEMBERS[Agent].split(), "id", "mcp_servers", "overrides"])


def test_a_session_has_the_members_that_applications_call_and_no_others() -> None:
    assert public(AgentSession[None](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))) == OF_A_SESSION.split()

"""The members of the objects that applications hold: each is one that they may call, and completion shows no others."""

from __future__ import annotations

import pytest

from vivavoce.agents import Agent, ConversationFlow, Handoff, PipelineChange, SpeechHandle
from vivavoce.agents.audio.recording.session_recording import SessionRecording
from vivavoce.agents.history.history import SessionHistory

MEMBERS: dict[type, str] = {
    Agent: (
        "cleanup instructions on_empty_reply on_enter on_exit on_speech_in on_speech_out on_user_turn_completed "
        "server_tools session tools update_instructions update_tools"
    ),
    ConversationFlow: "cleanup on_turn_end on_turn_start run session",
    Handoff: "agent exception id is_done outcome turn_id",
    PipelineChange: "exception id is_done outcome pipeline within",
    SessionHistory: "add_message copy items messages remove replace_text summarise",
    SessionRecording: "is_on is_paused pause records resume start stop",
    SpeechHandle: (
        "add_done_callback disallow_interruptions exception heard_text id interrupt interrupted interruptible is_done "
        "kind outcome played_seconds"
    ),
}
"""Each public class and its public members."""


@pytest.mark.parametrize("cls", MEMBERS, ids=lambda cls: cls.__name__)
def test_a_public_class_has_the_members_that_applications_call_and_no_others(cls: type) -> None:
    assert sorted(member for member in dir(cls) if not member.startswith("_")) == MEMBERS[cls].split()


def test_an_agent_has_no_public_attribute_beside_its_members_but_its_id_and_servers() -> None:
    assert {name for name in vars(Agent("Help.")) if not name.startswith("_")} == {"id", "mcp_servers"}

"""The members of the objects that applications hold: each is one that they may call, and completion shows no others."""

from __future__ import annotations

import pytest

from vivavoce import agents

MEMBERS: dict[str, str] = {
    "Agent": (
        "cleanup instructions on_empty_reply on_enter on_exit on_speech_in on_speech_out on_user_turn_completed "
        "server_tools session tools update_instructions update_tools"
    ),
    "ConversationFlow": "cleanup on_turn_end on_turn_start run session",
    "Handoff": "agent exception id is_done outcome turn_id",
    "PipelineChange": "exception id is_done outcome pipeline within",
    "SpeechHandle": (
        "add_done_callback disallow_interruptions exception heard_text id interrupt interrupted interruptible is_done "
        "kind outcome played_seconds"
    ),
}
"""Each public class and its public members."""


@pytest.mark.parametrize("name", MEMBERS)
def test_a_public_class_has_the_members_that_applications_call_and_no_others(name: str) -> None:
    cls = getattr(agents, name)
    assert sorted(member for member in dir(cls) if not member.startswith("_")) == MEMBERS[name].split()

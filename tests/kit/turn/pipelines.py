"""Changes of the pipeline in a scripted conversation of the turn machine."""

from __future__ import annotations

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def due(talk: Conversation) -> Conversation:
    """Act as the session's loop, when no input is pending."""
    while talk.machine.is_change_due:
        talk.at(talk.now, i.PipelineChangeDue())
    return talk


def wants(talk: Conversation, change_id: str, pipeline: str, within: float = 60.0) -> Conversation:
    return talk.at(talk.now, i.PipelineChangeRequested(change_id=change_id, pipeline=pipeline, within=within))

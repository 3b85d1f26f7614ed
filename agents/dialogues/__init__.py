"""Dialogues: two agents exchange messages in an order that is checked.

`Dialogue` is that order, `session_dialogues` the dialogues of a session at work, `handlers` the runs of their handlers,
and `saved` their conversations in snapshots. Their messages go over the port `agents/core/message_channel.py`: inside a
process by `agents/core/local_channel.py`, else by `agents/peers/channel.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.core.local_channel import LocalChannel
    from vivavoce.agents.core.message_channel import ChannelMember, Envelope, MessageChannel, MessageStatus, taken
    from vivavoce.agents.dialogues.context import DialogueContext
    from vivavoce.agents.dialogues.conversations import DialogueMessage
    from vivavoce.agents.dialogues.dialogue import Dialogue
    from vivavoce.agents.dialogues.edge import Edge, Node
    from vivavoce.agents.dialogues.options import DialogueOptions

_PLACES = {
    "vivavoce.agents.core.local_channel": "LocalChannel",
    "vivavoce.agents.core.message_channel": "ChannelMember Envelope MessageChannel MessageStatus taken",
    "vivavoce.agents.dialogues.context": "DialogueContext",
    "vivavoce.agents.dialogues.conversations": "DialogueMessage",
    "vivavoce.agents.dialogues.dialogue": "Dialogue",
    "vivavoce.agents.dialogues.edge": "Edge Node",
    "vivavoce.agents.dialogues.options": "DialogueOptions",
}

__all__ = [
    "ChannelMember",
    "Dialogue",
    "DialogueContext",
    "DialogueMessage",
    "DialogueOptions",
    "Edge",
    "Envelope",
    "LocalChannel",
    "MessageChannel",
    "MessageStatus",
    "Node",
    "taken",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)

"""DialogueOptions: the conversation graph of a session, and its dialogues with other agents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vivavoce.agents.core.message_channel import MessageChannel
from vivavoce.agents.dialogue.messages.dialogue import Dialogue
from vivavoce.pipelines.core.checks import check_instance, check_items
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.dialogue.graph.state_graph import StateGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class DialogueOptions:
    """The graph that a call follows, and the dialogues with other agents.

    Each option: docs/options.md.
    """

    graph: StateGraph | None = None
    """States and transitions that the conversation follows; a description, which sessions may share."""
    dialogues: Sequence[Dialogue] = ()
    """The orders of messages in which the session's agent talks with other agents; each serves one session."""
    channel: MessageChannel | None = None
    """The way of their messages to other sessions, for example one `LocalChannel()` for those of a process. The address
    of a session is the id of the agent that it starts with.
    """

    def __post_init__(self) -> None:
        if self.graph is not None:  # its module is loaded already, except where something else was given
            from vivavoce.agents.dialogue.graph.state_graph import StateGraph

            check_instance("graph", self.graph, StateGraph)
        check_items("dialogues", self.dialogues, Dialogue)
        check_instance("channel", self.channel, MessageChannel, or_none=True)
        if self.dialogues and self.channel is None:
            raise ConfigurationError(
                "dialogues need a channel to other agents, got channel=None; make one LocalChannel() and give it to "
                "the sessions of both agents"
            )

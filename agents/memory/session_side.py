"""SessionSide: the parts of a memory that only the session's own process has."""

from __future__ import annotations

from dataclasses import dataclass

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.memory.history.memory_history import MemoryHistory
from vivavoce.agents.memory.private import PrivateData
from vivavoce.agents.memory.stored_replies import StoredReplies
from vivavoce.agents.memory.streams.session_streams import SessionStreams


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SessionSide:
    """The parts that a memory has in its own session only; an attached memory has none of them.

    Args:
        streams: Gives the agents of this process the items of their streams.
    """

    context: SessionContext
    history: MemoryHistory
    private: PrivateData
    streams: SessionStreams
    replies: StoredReplies

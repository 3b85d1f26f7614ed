"""The logs of streams in a store: one for each stream, and their size."""

from __future__ import annotations

from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.stores.store import Place

KEEP = 10_000
"""Items that a stream keeps."""

SESSION = "session"
"""The name of `memory.stream`, with the announcements."""
USER_TRANSCRIPT, AGENT_TRANSCRIPT = "user_transcript", "agent_transcript"
"""The streams that the runtime writes."""


def place_of(base: MemoryBase, name: str) -> Place:
    """Return the log of a stream."""
    return base.place(f"items:{name}")

"""State of a session that outlives the call: stores that keep it, and the objects that applications use.

`control` hangs at the session (`vivavoce.agents.extension`): it opens the memory in the start, then the history, which
may be kept there, and closes it behind the history. All parts stand on a `MemoryBase` (the memory's id, the store, the
limit of a call) and, in the session's own process, on a `SessionSide`. The application's calls go through `memory` and
`namespace` to the store, and raise there. The session's own writes wait in `writer`, off the audio path. `lease` renews
the session's right to its memory, and hears requests to close it; other processes read in a log of the store which
sessions run and which have ended (`session_state`). `stored_replies` keeps the records of the rich replies, which
`agents/replies` shows. An unused memory has no task.

Decisions:

* An id names a memory, which outlives its calls. A new `start()` under the id of a session that has ended, or whose
  process has died, finds data, metadata, streams, agents and history as they were. The budget and the rich replies are
  of one call: the new one begins with the limits of its options and no use, and shows no part of the call before. Only
  a session with `resume_from` goes on with the same call.
* A store may lose a session that runs: Redis without a disk restarts, or an application erases the session. Metadata,
  the agent with the floor, the transcripts' streams and the budget are there again within some seconds, so that other
  processes find the session. Values, words and parts from before stay lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vivavoce.pipelines.core.lazy import lazy_names

if TYPE_CHECKING:
    from vivavoce.agents.memory.history.reasoning import ReasoningEvent
    from vivavoce.agents.memory.memory import SessionMemory
    from vivavoce.agents.memory.namespace import Namespace
    from vivavoce.agents.memory.stores.in_process import InProcessStore
    from vivavoce.agents.memory.stores.redis import RedisStore
    from vivavoce.agents.memory.stores.sqlite import SqliteStore
    from vivavoce.agents.memory.stores.store import SessionStore, SessionSummary
    from vivavoce.agents.memory.streams.registry import AgentMember
    from vivavoce.agents.streams import Stream, StreamItem
    from vivavoce.pipelines.core.errors import StoreError, StoreTypeError, StoreUnavailable, StoreValueError

_PLACES = {
    "vivavoce.agents.memory.history.reasoning": "ReasoningEvent",
    "vivavoce.agents.memory.memory": "SessionMemory",
    "vivavoce.agents.memory.namespace": "Namespace",
    "vivavoce.agents.memory.stores.in_process": "InProcessStore",
    "vivavoce.agents.memory.stores.redis": "RedisStore",
    "vivavoce.agents.memory.stores.sqlite": "SqliteStore",
    "vivavoce.agents.memory.stores.store": "SessionStore SessionSummary",
    "vivavoce.agents.memory.streams.registry": "AgentMember",
    "vivavoce.agents.streams": "Stream StreamItem",
    "vivavoce.pipelines.core.errors": "StoreError StoreTypeError StoreUnavailable StoreValueError",
}

__all__ = [
    "AgentMember",
    "InProcessStore",
    "Namespace",
    "ReasoningEvent",
    "RedisStore",
    "SessionMemory",
    "SessionStore",
    "SessionSummary",
    "SqliteStore",
    "StoreError",
    "StoreTypeError",
    "StoreUnavailable",
    "StoreValueError",
    "Stream",
    "StreamItem",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_names(__name__, _PLACES)

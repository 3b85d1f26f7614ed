"""SessionStreams: the session's own work on its streams: floor, transcripts, the agents' items, and the end."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from vivavoce.agents.agent import Agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.streams.deliveries import Deliveries, Positions
from vivavoce.agents.memory.streams.items import value_text
from vivavoce.agents.memory.streams.places import AGENT_TRANSCRIPT, KEEP, USER_TRANSCRIPT, place_of
from vivavoce.agents.memory.streams.registry import Registry, change_registry
from vivavoce.agents.memory.streams.streams import Streams
from vivavoce.agents.memory.writer import MemoryWriter

TRANSCRIPT = "transcript"
"""The tag of both transcripts; each has its own name as a tag too."""
CREATOR = "runtime"

RECENT = 20
"""The newest records in which a transcript is looked for, since it may have been written already."""

_STREAMS = {"user": USER_TRANSCRIPT, "agent": AGENT_TRANSCRIPT}


class SessionStreams:
    """Writes, without waiting, which agent has the floor, and the transcripts, once the memory has begun.

    Args:
        limit: Seconds for one call of `on_stream`, besides its speech.
    """

    def __init__(
        self, context: SessionContext, base: MemoryBase, writer: MemoryWriter, health: StoreHealth, *, limit: float
    ) -> None:
        self._context = context
        self._base = base
        self._writer = writer
        self._deliveries = Deliveries(context, base, health, limit=limit)
        self._has_begun = False
        self.streams = Streams(base, lambda: context.live.agent.id)

    @property
    def positions(self) -> Positions:
        """The agents' positions in their streams, for a snapshot."""
        return self._deliveries.positions

    def resume(self, positions: Mapping[str, Mapping[str, int]]) -> None:
        """Continue from the positions of a snapshot."""
        self._deliveries.resume(positions)

    def begin(self) -> None:
        """Note that the memory has begun; from any thread."""
        self._context.inbox.on_loop(self._begin)

    def _begin(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._writer.put(self._begin_in_store)
            self._deliveries.begin(self._context.live.agent)

    def begin_again(self) -> None:
        """Note floor and transcripts again, in a store that may have lost them."""
        if self._has_begun:
            self._writer.put(self._begin_in_store)

    def took_floor(self, agent: Agent) -> None:
        """Note the agent that has the conversation now."""
        if self._has_begun:
            self._writer.put(self._note_floor)
            self._deliveries.begin(agent)

    def join(self, agent: Agent) -> None:
        """Let an agent of this process be part of the session.

        Raises:
            SessionError: It is in another session.
        """
        self._deliveries.join(agent)

    def deliver_to(self, agent: Agent) -> None:
        """Give an agent of this process the items of its streams; from any thread."""
        self._context.inbox.on_loop(partial(self._deliveries.begin, agent))

    def release(self) -> None:
        """Free the agents for another session: this session is over."""
        self._deliveries.release()

    def note_transcript(self, who: Literal["user", "agent"], text: str) -> None:
        """Write words that were said and heard."""
        if self._has_begun and text.strip():
            self._writer.put(_Append(self._base, _STREAMS[who], text))

    async def _begin_in_store(self) -> None:
        await self.streams.reopen()
        await self._deliveries.check()
        await self._note_floor()
        for name in _STREAMS.values():
            await self.streams.announce(name, (TRANSCRIPT, name), CREATOR)

    async def _note_floor(self) -> None:
        agent_id = self._context.live.agent.id

        def note(registry: Registry) -> None:
            registry.set_floor(agent_id)

        await change_registry(self._base, note)


class _Append:
    """One item of a transcript. It is not written again if an earlier try took effect without an answer.

    A store may refuse the words (StoreValueError); then only this write is lost.
    """

    def __init__(self, base: MemoryBase, name: str, words: str) -> None:
        self._base = base
        self._place = place_of(base, name)
        self._words, self._at = words, base.clock.wall()
        self._was_tried = False

    async def __call__(self) -> None:
        store, text = self._base.store, value_text(self._words, self._at)
        if self._was_tried:
            newest = (await store.log_state(self._place)).next_index
            recent = await store.records(self._place, max(0, newest - RECENT), RECENT)
            if any(record.text == text for record in recent):
                return
        self._was_tried = True
        await store.log(self._place, [text], keep=KEEP)

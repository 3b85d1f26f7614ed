"""Deliveries: the items of streams, on their way to the agents of a session (`Agent.on_stream`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import aclosing
from functools import partial

import anyio

from vivavoce.agents.agent import Agent, AgentControl
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Clock
from vivavoce.agents.memory.base import MemoryBase
from vivavoce.agents.memory.store_health import StoreHealth
from vivavoce.agents.memory.streams.following import follow_matching
from vivavoce.agents.memory.streams.places import place_of
from vivavoce.agents.memory.streams.registry import Registry
from vivavoce.agents.memory.streams.stream import StoredStream
from vivavoce.agents.memory.streams.streams import selected
from vivavoce.agents.streams import Stream, StreamItem
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import StoreUnavailable, describe

logger = logging.getLogger(__name__)

HOOK = "on_stream"
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Seconds from a failure of the store to the next try; doubled each time."""

Positions = dict[str, dict[str, int]]
"""The index of the next item, for each agent by its id, and each stream."""


class Deliveries:
    """Gives each agent that has `on_stream` the items of its streams, in a task of the session, until the close.

    An agent without the hook costs nothing. When an agent leaves the session, its task ends.

    Args:
        limit: Seconds for one call of the hook, besides its speech.
    """

    def __init__(self, context: SessionContext, base: MemoryBase, health: StoreHealth, *, limit: float) -> None:
        self._context = context
        self._base = base
        self._health = health
        self._limit = limit
        self._agents: dict[str, Agent] = {}
        """The agents of this process, by id; of several agents with one id, the last."""
        self._running: set[str] = set()
        self._positions: Positions = {}
        self._joined: list[Agent] = []

    @property
    def positions(self) -> Positions:
        """A copy of the agents' positions, for a snapshot."""
        return {agent: dict(of_streams) for agent, of_streams in self._positions.items()}

    def resume(self, positions: Mapping[str, Mapping[str, int]]) -> None:
        """Go on with the positions of a snapshot."""
        self._positions = {agent: dict(of_streams) for agent, of_streams in positions.items()}

    async def check(self) -> None:
        """Forget positions beyond the end of a stream: the store has lost the items, and the stream is another one.

        Raises:
            StoreUnavailable: The store did not answer in time.
        """
        base = self._base
        for positions in list(self._positions.values()):
            for name, position in list(positions.items()):
                state = await base.within(base.store.log_state(place_of(base, name)))
                if state.next_index < position and positions.get(name) == position:
                    del positions[name]

    def join(self, agent: Agent) -> None:
        """Let an agent without the floor be part of the session, until `release()`.

        Raises:
            SessionError: It is in another session.
        """
        control = AgentControl.of(agent)
        if not control.is_in_session:
            self._joined.append(agent)
        control.attach(self._context.session)

    def release(self) -> None:
        """Free the agents that joined for another session: this session is over."""
        for agent in self._joined:
            AgentControl.of(agent).detach(self._context.session)

    def begin(self, agent: Agent) -> None:
        """Begin to give an agent its items, if it takes any and does not get them yet. Call it on the session's event
        loop."""
        if AgentControl.of(agent).overrides("on_stream") and not self._context.closing.is_asked:
            self._agents[agent.id] = agent
            if agent.id not in self._running:
                self._running.add(agent.id)
                self._context.group.start_soon(self._run, agent.id, name=f"streams of agent {agent.id}")

    async def _run(self, agent_id: str) -> None:
        pause = FIRST_PAUSE
        try:
            with self._context.closing.cuts(anyio.CancelScope()):
                while True:
                    try:
                        await self._deliver(agent_id)
                        return
                    except StoreUnavailable as error:
                        self._health.failed(error, HOOK)
                    await anyio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
        except Exception as error:  # noqa: BLE001 - a store is foreign code; the conversation goes on without it
            logger.error("Agent %s gets no more items of streams: %s", agent_id, describe(error))
            self._context.report_error(error, HOOK)
        finally:
            self._running.discard(agent_id)

    async def _deliver(self, agent_id: str) -> None:
        await self.check()
        positions = self._positions.setdefault(agent_id, {})
        async with aclosing(follow_matching(self._base, partial(self._select, agent_id), positions)) as items:
            async for name, item in items:
                call = partial(_call, self._agents[agent_id], StoredStream(self._base, name), item)
                title = f"{HOOK} of agent {agent_id!r}"
                clock: Clock = "between its speeches"
                run = self._context.hooks.start("callback", title, call, self._limit, clock, source=HOOK)
                await run.finish()

    def _select(self, agent_id: str, registry: Registry) -> list[str] | None:
        """Return the agent's streams, or None if it is not a member."""
        self._health.worked(HOOK)
        member = registry.agents.get(agent_id)
        if member is None:
            return [] if agent_id == self._context.live.agent.id else None
        return selected(registry, member.tags, member.exclude)


async def _call(agent: Agent, stream: Stream, item: StreamItem) -> None:
    await awaited(HOOK, agent.on_stream(stream, item))

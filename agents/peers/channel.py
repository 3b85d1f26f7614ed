"""PeerChannel: carries the dialogues of sessions in several processes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from vivavoce.agents.core.local_channel import LocalChannel
from vivavoce.agents.core.message_channel import ChannelMember, Envelope, MessageStatus
from vivavoce.agents.peers.card import AgentCard
from vivavoce.agents.peers.dial import checked_token
from vivavoce.agents.peers.line import DialledLine
from vivavoce.agents.peers.link import Link
from vivavoce.agents.peers.registry import AgentRegistry
from vivavoce.agents.peers.server import PeerServer
from vivavoce.agents.peers.wire import Call, Delivery, Hello, Outcome
from vivavoce.pipelines.core.checks import check_instance
from vivavoce.pipelines.core.errors import ConfigurationError, PeerError
from vivavoce.pipelines.core.owned_tasks import OwnedTasks

CLOSE_LIMIT = 2.0
"""Seconds for the end of all connections."""


class PeerChannel(LocalChannel):
    """Carries the dialogues of sessions between processes: `DialogueOptions(channel=PeerChannel(registry, server))`.

    A session that joins is registered with the server's URL and the digests of its dialogues, unless `registry` has
    registered an agent of its id; others find it there. Its own sessions, all of one event loop, reach each other
    directly.

    Args:
        registry: Where the agents are found, by id and by digest.
        server: Takes the messages of others. Without one, agents answer over the connections that this side has made:
            its sessions can start dialogues, and none can be started with them.
        token: For the servers of the others.
    """

    def __init__(self, registry: AgentRegistry, server: PeerServer | None = None, *, token: str | None = None) -> None:
        super().__init__()
        check_instance("registry", registry, AgentRegistry)
        check_instance("server", server, PeerServer, or_none=True)
        self._registry = registry
        self._server = server
        self._token = checked_token(token)
        self._tasks = OwnedTasks("peer channel")
        self._lines: dict[str, DialledLine] = {}
        """The connections to servers, by URL."""
        self._ways: dict[str, Link] = {}
        """The connections over which agents were reached, or have written, by their ids."""
        self._most_ways = 16
        """The number of ways at which those that have ended are forgotten."""
        self._registered: set[str] = set()
        if server is not None:
            server.carry(self)

    # --- the channel

    async def join(self, member: ChannelMember) -> None:
        if {loop for _, loop in self._members.values()} - {asyncio.get_running_loop()}:
            raise ConfigurationError("a PeerChannel serves the sessions of one event loop; make one for each loop")
        await super().join(member)
        if self._server is None or member.id in [card.id for card in self._registry.registered]:
            return
        try:
            await self._registry.register(
                AgentCard(member.id, self._server.url, dialogues=tuple(sorted(member.digests)))
            )
        except BaseException:
            await super().leave(member)
            raise
        self._registered.add(member.id)

    async def leave(self, member: ChannelMember) -> None:
        await super().leave(member)
        if not self._members:
            for line in self._lines.values():
                line.close()
            self._lines, self._ways = {}, {}
            await self._tasks.finish(CLOSE_LIMIT)
        if member.id in self._registered:
            self._registered.discard(member.id)
            await self._registry.unregister(member.id)

    async def speakers(self, digest: str) -> list[str]:
        cards = await self._registry.find(digest=digest)
        return sorted({*await super().speakers(digest), *(card.id for card in cards)})

    async def deliver(self, envelope: Envelope) -> MessageStatus:
        if envelope.receiver in self._members:
            return await super().deliver(envelope)
        try:
            link = await self._way_to(envelope.receiver)
            if link is None:
                return envelope.status("failed", f"no agent {envelope.receiver!r} is registered or connected")
            outcome = await link.ask(_delivery(envelope))
        except (PeerError, ConfigurationError) as error:
            return envelope.status("failed", str(error))
        return envelope.status(outcome.status, outcome.detail)

    async def _way_to(self, id: str) -> Link | None:
        way = self._ways.get(id)
        if way is not None and way.is_open:
            return way
        cards = await self._registry.find(id=id)
        if not cards:
            self._ways.pop(id, None)
            return None
        url = cards[0].url
        if (line := self._lines.get(url)) is None:
            self._lines = {other: one for other, one in self._lines.items() if one.is_used}
            line = self._lines[url] = DialledLine(url, self._token, self.hello, self._tasks)
            line.open(self.side)
        link = await line.ready()
        self._note_way(id, link)
        return link

    def _note_way(self, id: str, link: Link) -> None:
        """Reach an agent over that connection from now on."""
        self._ways[id] = link
        if len(self._ways) > self._most_ways:
            self._ways = {other: one for other, one in self._ways.items() if one.is_open}
            self._most_ways = max(16, 2 * len(self._ways))

    # --- the other end of a connection

    def hello(self) -> Hello:
        """Return the hello of this end, with the dialogues of all its sessions."""
        spoken = {digest for member, _ in self._members.values() for digest in member.digests}
        return Hello(wants="dialogues", dialogues=tuple(sorted(spoken)))

    @property
    def side(self) -> ChannelSide:
        """Takes the messages that come over a connection."""
        return ChannelSide(self)

    async def answer(self, delivery: Delivery, link: Link) -> Outcome:
        """Take a message of a dialogue; its sender is reached over that connection from now on."""
        envelope = Envelope(
            kind=delivery.kind,
            dialogue=delivery.dialogue,
            session_id=delivery.session_id,
            sender=delivery.sender,
            receiver=delivery.receiver,
            model=delivery.model,
            content=delivery.content,
            position=delivery.position,
        )
        known = self._ways.get(envelope.sender)
        is_new = known is None or not known.is_open
        if is_new:
            self._note_way(envelope.sender, link)
        status = await super().deliver(envelope)
        if is_new and status.status != "delivered" and self._ways.get(envelope.sender) is link:
            del self._ways[envelope.sender]
        return Outcome(status=status.status, detail=status.detail)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelSide:
    """Takes the messages of dialogues that come over a connection."""

    channel: PeerChannel

    async def take(self, call: Call) -> Outcome:
        return Outcome(status="rejected", detail="this connection carries dialogues only")

    async def deliver(self, delivery: Delivery, link: Link) -> Outcome:
        return await self.channel.answer(delivery, link)


def _delivery(envelope: Envelope) -> Delivery:
    return Delivery(
        kind=envelope.kind,
        dialogue=envelope.dialogue,
        session_id=envelope.session_id,
        sender=envelope.sender,
        receiver=envelope.receiver,
        model=envelope.model,
        content=envelope.content,
        position=envelope.position,
    )

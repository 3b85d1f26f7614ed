"""Sessions with dialogues that crash in virtual time, and others that go on with their conversations."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Sequence

import anyio
from pydantic import BaseModel

from kit.dialogues import Talker, negotiation
from kit.memory import ScriptedStore
from vivavoce.agents.core.message_channel import ChannelMember, Envelope, MessageChannel, MessageStatus
from vivavoce.agents.dialogues import Dialogue, LocalChannel
from vivavoce.agents.memory import SessionStore
from vivavoce.agents.testing import Harnesses


class Line(MessageChannel):
    """The end of a channel that one session has: it is cut by a crash, and may lose answers."""

    def __init__(self, hub: LocalChannel) -> None:
        self.hub = hub
        self.is_cut = False
        self.is_deaf = False
        """Whether the answers to messages are lost."""
        self.sent: list[Envelope] = []
        self._member: ChannelMember | None = None

    async def join(self, member: ChannelMember) -> None:
        self._member = member
        await self.hub.join(member)

    async def leave(self, member: ChannelMember) -> None:
        await self.hub.leave(member)

    async def speakers(self, digest: str) -> Sequence[str]:
        return await self.hub.speakers(digest)

    async def deliver(self, envelope: Envelope) -> MessageStatus:
        if self.is_cut:
            await anyio.sleep_forever()
        self.sent.append(envelope)
        status = await self.hub.deliver(envelope)
        if self.is_cut:
            await anyio.sleep_forever()
        return envelope.status("failed", "the connection was lost") if self.is_deaf else status

    async def cut(self) -> None:
        """Cut the session off, as the death of its process does."""
        self.is_cut = True
        assert self._member is not None
        await self.hub.leave(self._member)


class World:
    """Agents on one channel, whose sessions are kept in one store."""

    def __init__(self, calls: Harnesses) -> None:
        self.calls = calls
        self.hub = LocalChannel()
        self.store = ScriptedStore()
        """The data of all sessions; each has an own way to it, which its crash cuts."""
        self.lines: dict[Talker, Line] = {}
        self.ways: dict[Talker, ScriptedStore] = {}

    async def start(
        self, id: str, dialogue: Dialogue | None = None, prepare: Callable[[Talker], None] = lambda talker: None
    ) -> Talker:
        """Start the session of an agent."""
        return await self.calls.start(self._made(id, dialogue, prepare))

    async def resume(
        self,
        id: str,
        dialogue: Dialogue | None = None,
        prepare: Callable[[Talker], None] = lambda talker: None,
        store: SessionStore | None = None,
    ) -> Talker:
        """Start a session that goes on with the newest snapshot of the agent's session in the store."""
        again = self._made(id, dialogue, prepare)
        again.resume_from = await (store or self.store).snapshot(f"call of {id}")
        return await self.calls.start(again)

    async def crash(self, talker: Talker) -> None:
        """Cut a session off from all others and from its store."""
        talker.expects_error()
        await self.lines[talker].cut()
        self.ways[talker].is_down = True

    def _made(self, id: str, dialogue: Dialogue | None, prepare: Callable[[Talker], None]) -> Talker:
        line, way = Line(self.hub), copy.copy(self.store)
        talker = Talker(line, id, dialogue or negotiation(), store=way)
        self.lines[talker], self.ways[talker] = line, way
        prepare(talker)
        return talker


def in_a_world(test: Callable[[World], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in virtual time, with a world of its own."""

    def run() -> None:
        async def scenario(calls: Harnesses) -> None:
            await test(World(calls))

        Harnesses().run(scenario)

    run.__name__ = test.__name__
    return run


def with_error(talker: Talker) -> None:
    talker.expects_error("dialogues")


def contents(talker: Talker, session_id: str) -> list[BaseModel]:
    return [one.content for one in talker.dialogue.get_conversation(session_id)]

"""LocalChannel: connects the sessions of one process."""

from __future__ import annotations

import asyncio
from asyncio import AbstractEventLoop

from vivavoce.agents.core.message_channel import ChannelMember, Envelope, MessageChannel, MessageStatus, taken
from vivavoce.pipelines.core.errors import ConfigurationError


class LocalChannel(MessageChannel):
    """Connects the sessions of one process, which may run on several event loops."""

    def __init__(self) -> None:
        self._members: dict[str, tuple[ChannelMember, AbstractEventLoop]] = {}

    async def join(self, member: ChannelMember) -> None:
        other, _ = self._members.setdefault(member.id, (member, asyncio.get_running_loop()))
        if other is not member:
            raise ConfigurationError(
                f"the channel has an agent {member.id!r} already; give each one an id of its own: Agent(…, id=…)"
            )

    async def leave(self, member: ChannelMember) -> None:
        if member.id in self._members and self._members[member.id][0] is member:
            del self._members[member.id]

    async def speakers(self, digest: str) -> list[str]:
        return sorted(id for id, (member, _) in self._members.copy().items() if digest in member.digests)

    async def deliver(self, envelope: Envelope) -> MessageStatus:
        found = self._members.get(envelope.receiver)
        if found is None:
            return envelope.status("failed", f"the channel has no agent {envelope.receiver!r}")
        member, loop = found
        call = taken(member, envelope)
        if loop is asyncio.get_running_loop():
            return await call
        try:
            answer = asyncio.run_coroutine_threadsafe(call, loop)
        except RuntimeError:
            call.close()
            return envelope.status("failed", f"the event loop of the agent {envelope.receiver!r} has ended")
        return await asyncio.wrap_future(answer)

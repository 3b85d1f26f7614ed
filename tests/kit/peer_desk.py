"""A process with a `PeerServer`: it prints its address, and what it gets, until it is killed.

Run as `python peer_desk.py <SQLite file of the registry, or Redis URL> <prefix>`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.dialogues import Ask, Offer, negotiation  # noqa: E402 - the path comes first
from kit.store_writer import opened  # noqa: E402 - as above
from kit.talking_peers import Answer, Question, talker  # noqa: E402 - as above
from vivavoce.agents.dialogues import DialogueContext, DialogueOptions  # noqa: E402 - as above
from vivavoce.agents.peers import AgentCard, AgentRegistry, Peer, PeerChannel, PeerServer  # noqa: E402 - as above


async def main(where: str, prefix: str) -> None:
    """Answer questions with an even number, hold the others, and make offers."""
    async with AgentRegistry(opened(where, prefix)) as registry, PeerServer() as server:
        dialogue = negotiation()

        @dialogue.on("ask", Ask)
        async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
            await ctx.send(sender, Offer(price=len(message.item)))

        channel = PeerChannel(registry, server)
        session = talker("seller", dialogues=DialogueOptions(dialogues=[dialogue], channel=channel))

        @session.peers.on_message(Question)
        async def answer(peer: Peer, question: Question) -> Answer:
            if question.number % 2:
                await anyio.sleep_forever()
            return Answer(number=question.number)

        await session.start()
        server.add(session)
        await registry.register(AgentCard("desk", server.url_of(session), domain="tests", capabilities=("numbers",)))
        print(server.url_of(session), flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

"""A process with an agent of a negotiation, which prints what happens, until it is killed.

Run as `python surviving_agent.py <SQLite file or Redis URL> <prefix> <buyer or seller> <first or again>`. The first
seller takes a question and does not answer it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import anyio

sys.path.insert(0, str(Path(__file__).parents[1]))

from kit.dialogues import Accept, Ask, Offer, negotiation  # noqa: E402 - the path comes first
from kit.store_writer import opened  # noqa: E402 - as above
from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions  # noqa: E402 - as above
from vivavoce.agents.dialogues import DialogueContext, DialogueOptions  # noqa: E402 - as above
from vivavoce.agents.peers import AgentRegistry, PeerChannel, PeerServer  # noqa: E402 - as above


async def main(where: str, prefix: str, id: str, run: str) -> None:
    """Run the agent."""
    store, dialogue = opened(where, prefix), negotiation()

    @dialogue.on("ask", Ask)
    async def offer(ctx: DialogueContext, sender: str, message: Ask) -> None:
        print(f"asked for {message.item}", flush=True)
        if run == "first":
            await anyio.sleep_forever()
        await ctx.send(sender, Offer(price=len(message.item)))

    @dialogue.on("offer", Offer)
    async def accept(ctx: DialogueContext, sender: str, message: Offer) -> None:
        print(f"offered for {message.price}", flush=True)
        await ctx.send(sender, Accept())

    @dialogue.on("accept", Accept)
    async def accepted(ctx: DialogueContext, sender: str, message: Accept) -> None:
        print(f"accepted after {len(ctx.dialogue)} messages", flush=True)

    async with AgentRegistry(store) as registry, PeerServer() as server:
        options = SessionOptions(
            dialogues=DialogueOptions(dialogues=[dialogue], channel=PeerChannel(registry, server)),
            memory=MemoryOptions(store=store, timeout=30.0),
        )
        session = AgentSession(Agent("Be brief.", id=id), options=options, id=id)
        await session.start(resume_from=await store.snapshot(id) if run == "again" else None)
        print("runs", flush=True)
        if (id, run) == ("buyer", "first"):
            (begun,) = await dialogue.start_dialogue("seller", Ask(item="tea"))
            print(begun.status, flush=True)
        await anyio.sleep_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

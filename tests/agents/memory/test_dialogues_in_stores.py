"""Conversations of dialogues in each store: a session goes on with them in the place of one that was cut off."""

from __future__ import annotations

import sys
from asyncio.subprocess import PIPE, Process, create_subprocess_exec
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import pytest

from kit.dialogues import Accept, Ask, Offer, negotiation
from kit.surviving import Line
from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.dialogues import Dialogue, DialogueContext, DialogueOptions, LocalChannel
from vivavoce.agents.memory import SessionStore

AGENT = Path(__file__).parents[2] / "kit" / "surviving_agent.py"
PATIENT = 60.0
"""Seconds for a call to the store where none may fail."""


async def test_conversations_go_on_from_each_store(store: SessionStore) -> None:
    hub, got = LocalChannel(), anyio.Event()

    async def started(id: str, dialogue: Dialogue, calls: AsyncExitStack, *, is_again: bool = False) -> Line:
        line = Line(hub)
        options = SessionOptions(
            dialogues=DialogueOptions(dialogues=[dialogue], channel=line),
            memory=MemoryOptions(store=store, timeout=PATIENT),
        )
        session = await calls.enter_async_context(AgentSession(Agent("Be brief.", id=id), options=options, id=id))
        await session.start(resume_from=await store.snapshot(id) if is_again else None)
        return line

    buyer, seller = negotiation(), negotiation()
    async with AsyncExitStack() as calls:
        lines = [await started("buyer", buyer, calls), await started("seller", seller, calls)]
        (begun,) = await buyer.start_dialogue("seller", Ask(item="tea"))
        await seller.get_context(begun.session_id).send("buyer", Offer(price=3))
        for line in lines:
            await line.cut()
        buyer, seller = negotiation(), negotiation()

        @seller.on("accept", Accept)
        async def accepted(ctx: DialogueContext, sender: str, message: Accept) -> None:
            got.set()

        await started("buyer", buyer, calls, is_again=True)
        await started("seller", seller, calls, is_again=True)
        for side in (buyer, seller):
            assert side.get_current_state(begun.session_id) == "offered"
            assert [one.content for one in side.get_conversation(begun.session_id)] == [Ask(item="tea"), Offer(price=3)]
        status = await buyer.get_context(begun.session_id).send("seller", Accept())
        assert status.status == "delivered"
        await got.wait()


async def agent(where: tuple[str, str], id: str, run: str) -> Process:
    child = await create_subprocess_exec(sys.executable, str(AGENT), *where, id, run, stdout=PIPE)
    return child


async def line_of(child: Process) -> str:
    assert child.stdout is not None
    return (await child.stdout.readline()).decode().strip()


@pytest.mark.test_all("four processes take seconds to start")
@pytest.mark.timeout(120)
async def test_a_conversation_of_two_processes_goes_on_after_sigkill_of_both(where: tuple[str, str]) -> None:
    children: list[Process] = []

    async def begun(id: str, run: str) -> Process:
        children.append(await agent(where, id, run))
        return children[-1]

    try:
        seller = await begun("seller", "first")
        assert await line_of(seller) == "runs"
        buyer = await begun("buyer", "first")
        assert [await line_of(buyer), await line_of(buyer)] == ["runs", "delivered"]
        assert await line_of(seller) == "asked for tea"
        for child in (seller, buyer):
            child.kill()
            await child.wait()
        buyer = await begun("buyer", "again")
        assert await line_of(buyer) == "runs"
        seller = await begun("seller", "again")
        assert {await line_of(seller), await line_of(seller)} == {"runs", "asked for tea"}
        assert await line_of(buyer) == "offered for 3"
        assert await line_of(seller) == "accepted after 3 messages"
    finally:
        for child in children:
            if child.returncode is None:
                child.kill()
            await child.wait()

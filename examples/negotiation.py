"""Two agents agree on a price by messages whose order is checked: `python examples/negotiation.py`.

Each has a session, here without a voice and a caller. In a worker make both dialogue and agent, with its own id, for
each call."""

from contextlib import AsyncExitStack

import anyio
from pydantic import BaseModel

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.dialogues import Dialogue, DialogueContext, DialogueOptions, Edge, LocalChannel, Node


class Bid(BaseModel):
    price: int


class Offer(BaseModel):
    price: int


class Accept(Offer):
    """Agreed."""


def negotiation() -> Dialogue:
    begin, bid, offered, agreed = (Node(name, "", name == "begin") for name in ("begin", "bid", "offered", "agreed"))
    first, offer = Edge("first", "A first bid", begin, bid), Edge("offer", "An offer", bid, offered)
    higher, accept = Edge("higher", "A higher bid", offered, bid), Edge("accept", "Agreed", offered, agreed)
    for edge, model in ((first, Bid), (offer, Offer), (higher, Bid), (accept, Accept)):
        edge.model = model
    return Dialogue("negotiation", [begin, bid, offered, agreed], [first, offer, higher, accept])


hotel, guest = negotiation(), negotiation()  # each agent has its own; both have the same digest
channel, done = LocalChannel(), anyio.Event()


@hotel.on("first", Bid)
@hotel.on("higher", Bid)
async def make_offer(ctx: DialogueContext, sender: str, bid: Bid) -> None:
    await ctx.send(sender, Offer(price=max(90, 120 - 10 * len(ctx.dialogue))))


@guest.on("offer", Offer)
async def decide(ctx: DialogueContext, sender: str, offer: Offer) -> None:
    if offer.price > 90:
        await ctx.send(sender, Bid(price=offer.price - 20))
    else:
        await ctx.send(sender, Accept(price=offer.price))
        await ctx.session.say(f"Your room costs {offer.price} euros.")
        done.set()


async def main() -> None:
    async with AsyncExitStack() as calls:
        for name, dialogue in (("hotel", hotel), ("guest", guest)):
            options = SessionOptions(dialogues=DialogueOptions(dialogues=(dialogue,), channel=channel))
            session = AgentSession(Agent("Be brief.", id=name), options=options)
            await calls.enter_async_context(session)
            await session.start()
        (status,) = await guest.start_dialogue("hotel", Bid(price=70))
        await done.wait()
    print(*(f"{one.sender}: {one.content!r}" for one in guest.get_conversation(status.session_id)), sep="\n")


if __name__ == "__main__":
    anyio.run(main)

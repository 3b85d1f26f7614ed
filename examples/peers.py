"""A host asks a specialist over a WebSocket: `python examples/peers.py`. They may run on two machines.

The host's model calls the specialist as a tool, by its id in the registry; here a script stands for the model."""

import anyio
from pydantic import BaseModel, Field

from vivavoce.agents import Agent, AgentSession, SessionOptions
from vivavoce.agents.peers import AgentCard, AgentRegistry, Peer, PeerOptions, PeerServer, PeerTool
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import rules


class RoomQuestion(BaseModel):
    """Ask how many rooms are free on a day."""

    day: str = Field(description="Such as friday")


class Rooms(BaseModel):
    free: int


def specialist() -> AgentSession:
    """One for each host that connects."""
    session = AgentSession(Agent("You know the rooms.", id="rooms"), options=SessionOptions(peers=PeerOptions()))

    @session.peers.on_message(RoomQuestion)
    async def answer(peer: Peer, question: RoomQuestion) -> Rooms:
        print(f"{peer.id} asks for {question.day}")
        return Rooms(free=2 if question.day == "friday" else 0)

    return session


async def main() -> None:
    async with AgentRegistry() as registry, PeerServer(specialist) as server:  # AgentRegistry(RedisStore(…)): machines
        await registry.register(AgentCard("rooms", server.url, capabilities=("rooms",)))
        tool = PeerTool("rooms", RoomQuestion, name="free_rooms")
        script = rules.SlotFilling(
            slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
            tool="free_rooms",
            done="I have asked for {day}.",
        )
        options = SessionOptions(peers=PeerOptions(registry=registry))
        chat = TextTransport()
        host = Agent("You are a hotel's host.", tools=[tool], id="host")
        async with AgentSession(host, CascadingPipeline(llm=rules.LLM(script)), options=options) as session:
            session.on("tool_called", lambda event: print("rooms answers", event.output))
            await session.start(chat)
            chat.send("a room on friday please")
            print("host:", (await chat.receive()).text)


if __name__ == "__main__":
    anyio.run(main)

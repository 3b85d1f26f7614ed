"""Two agents without a voice share data and a stream: `python examples/shared_memory.py`.

A kitchen writes the dishes that are ready; a waiter takes them from the stream, and both use the same data. With
a store on disk or in Redis the agents may be in other processes: `SessionMemory.attach(store, "evening")` shares it."""

import anyio

from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.memory import InProcessStore, Stream, StreamItem

DISHES = ("soup", "fish", "cake")


class Waiter(Agent):
    def __init__(self) -> None:
        super().__init__("You serve.", id="waiter")
        self.done = anyio.Event()

    async def on_stream(self, stream: Stream, item: StreamItem) -> None:
        if item.is_end:
            self.done.set()
        elif not item.is_control:
            data = self.session.memory.data
            await data.append("served", item.value)
            print("served:", item.value, "of table", await data.get("table"))


async def cook(session: AgentSession) -> None:
    await session.memory.data.set("table", 7)
    dishes = await session.memory.open_stream("dishes", tags=["ready"])
    for dish in DISHES:
        await dishes.write(dish)
    await dishes.close()


async def main() -> None:
    waiter = Waiter()
    options = SessionOptions(memory=MemoryOptions(store=InProcessStore()))
    async with AgentSession(Agent("You cook.", id="kitchen"), options=options, id="evening") as session:
        await session.start()
        await session.memory.add_agent(waiter, tags=["ready"])
        await cook(session)
        await waiter.done.wait()
        print("all:", ", ".join(await session.memory.data.get("served")))


if __name__ == "__main__":
    anyio.run(main)

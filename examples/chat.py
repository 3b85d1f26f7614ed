"""A chat without a voice: texts in, texts out as they are written: `python examples/chat.py`.

A chat backend does the same with the texts of a web socket. `rules` answers from patterns; put a language model in its
place."""

import anyio

from vivavoce.agents import Agent, AgentSession, function_tool
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import rules

BOOKING = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    tool="book",
    done="Your table is booked for {day}.",
)


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        return f"booked: {day}"

    async def on_enter(self) -> None:
        await self.session.say("Hello! Would you like a table?")


async def show_turn(chat: TextTransport) -> None:
    """Print the pieces of one turn as they come."""
    print("agent:", end=" ")
    async for piece in chat:
        print(piece.text, end="", flush=True)
        if piece.is_final:
            break
    print()


async def main() -> None:
    chat = TextTransport()
    async with AgentSession(Host(), CascadingPipeline(llm=rules.LLM(BOOKING))) as session:
        await session.start(chat)
        await show_turn(chat)
        for text in ("yes please", "on friday"):
            print("user:", text)
            chat.send(text)
            await show_turn(chat)


if __name__ == "__main__":
    anyio.run(main)

"""A table-booking agent with offline speech: no keys, no accounts; a small form of the agent of `vivavoce demo`.

Needs the extra `demo`. Run it: vivavoce start examples/table_booking.py --url … --api-key … --api-secret …
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import vivavoce.agents.cli.demo
from vivavoce.agents import Agent, AgentSession, JobContext, Worker, function_tool
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

GRAMMAR = Path(vivavoce.agents.cli.demo.__path__[0], "caller_says.gram")  # the caller's possible sentences, as JSGF

# No language model: slots to fill, a tool to call, and the texts in between.
TALK = rules.SlotFilling(
    slots=(
        rules.Slot(name="day", parser=rules.days(), ask="For which day would you like a table?", heard="On {value}."),
        rules.Slot(name="time", parser=rules.times(), ask="At what time?", say=rules.time_in_words),
        rules.Slot(name="people", parser=rules.party_sizes(), ask="For how many people?", say=rules.in_words),
    ),
    tool="book",
    done="I have booked {day} at {time} for {people} guests.",
    changed="I have changed it to {day} at {time} for {people} guests.",
    anything_else="Is the booking right?",
    ends_on="yes",
    goodbye="Thank you for calling. Goodbye.",
)


@dataclass
class Booking:
    """The result of a call."""

    day: str
    time: str
    people: int


class TableHost(Agent):
    """Takes one booking; the caller may change it until the call ends."""

    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")
        self.booking: Booking | None = None

    @function_tool
    async def book(self, day: str, time: str, people: int) -> str:
        """Book a table, or change the booking."""
        self.booking = Booking(day, time, people)
        return f"booked: {day}, {time}, {people}"

    async def on_enter(self) -> None:
        await self.session.say("Hello, this is the corner table. For which day would you like a table?")

    async def on_exit(self) -> None:
        print("booked:", self.booking, flush=True)


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS(voice="en-us+f5", rate=160)
    ctx.add_shutdown_callback(tts.aclose)  # the maker of a component closes it
    pipeline = CascadingPipeline(stt=pocketsphinx.STT(grammar=GRAMMAR), llm=rules.LLM(TALK), tts=tts, vad=silero.VAD())
    await AgentSession(TableHost(), pipeline).start()


worker = Worker(entrypoint)


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/table_booking.py")

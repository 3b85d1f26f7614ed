"""An agent in one file, without a key: `vivavoce dev examples/hello.py`."""

from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import hibari, moonshine, rules, silero

TALK = rules.SlotFilling(
    slots=(
        rules.Slot(name="day", parser=rules.days(), ask="For which day?"),
        rules.Slot(name="time", parser=rules.times(), ask="At what time?", say=rules.time_in_words),
    ),
    tool="book",
    done="Your table is booked for {day} at {time}.",
)


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str, time: str) -> str:
        "Book a table."
        return f"booked: {day}, {time}"

    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")


async def entrypoint(ctx: JobContext) -> None:
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=moonshine.STT(), llm=rules.LLM(TALK), tts=hibari.TTS())
    await AgentSession(Host(), pipeline).start()

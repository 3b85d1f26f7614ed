"""A Twilio number answered, without a LiveKit server (docs/telephony.md).

`vivavoce serve examples/twilio_number.py --wire twilio --public-url https://phone.example.com`, with
`TWILIO_AUTH_TOKEN` in the environment; the number's voice webhook is `https://phone.example.com/twilio`, POST.
Without a number: `vivavoce dev examples/twilio_number.py`.
"""

from vivavoce.agents import Agent, AgentSession, JobContext, SessionOptions, function_tool
from vivavoce.agents.events import KeyPressed
from vivavoce.agents.telephony import TelephonyOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday) | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    tool="book",
    done="Your table is booked for {day}. Press star to hang up.",
)
GUESTS = {"+15550100": "Anna"}


class Host(Agent):
    def __init__(self, number: str) -> None:
        super().__init__("You take table bookings by telephone. Be brief.")
        self.number = number  # empty for a caller who hides it
        self.bookings: list[str] = []

    async def on_enter(self) -> None:
        name = GUESTS.get(self.number, "")
        await self.session.say(f"Hello {name}! For which day?" if name else "Hello! For which day?")

    async def take_key(self, event: KeyPressed) -> None:
        if event.key == "*":
            await self.session.say("Goodbye.")
            await self.session.hangup()

    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        self.bookings.append(f"{day}: {self.number or 'unknown'}")
        return f"booked: {day}"


async def entrypoint(ctx: JobContext) -> None:
    await ctx.wait_for_participant()
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    host = Host(ctx.caller.number if ctx.caller else "")
    session = AgentSession(host, pipeline, options=SessionOptions(telephony=TelephonyOptions(keys=None)))
    session.on("key_pressed", host.take_key)
    await session.start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a server runs: vivavoce serve … or vivavoce dev examples/twilio_number.py")

"""A guest who calls again is known; offline: `vivavoce dev examples/memory.py`, then call twice.

Each call keeps its booking in a file. Other processes may read it, also while the call runs.
"""

from vivavoce.agents import Agent, AgentSession, JobContext, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.memory import SessionMemory, SessionStore, SqliteStore
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday) | no | yes | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    tool="book",
    done="We will see you on {day}.",
)
MONTH = 30 * 24 * 3600.0


class Host(Agent):
    def __init__(self, store: SessionStore, guest: str) -> None:
        super().__init__("You take table bookings. Be brief.")
        self._store, self._guest = store, guest

    async def on_enter(self) -> None:
        day = await self._day_of_last_call()
        await self.session.say(f"Welcome back! You have a table on {day}." if day else "Hello! For which day?")

    @function_tool
    async def book(self, day: str) -> str:
        """Book a table."""
        await self.session.memory.data.set("booking.day", day)
        return f"booked: {day}"

    async def _day_of_last_call(self) -> str | None:
        if not self._guest:  # a caller without a number: `sessions("")` has those of all such callers
            return None
        for call in await self._store.sessions(self._guest):  # the newest first
            if call.id != self.session.id:
                async with SessionMemory.attach(self._store, call.id) as memory:
                    if day := await memory.data.get("booking.day"):
                        return str(day)
        return None


def options(store: SessionStore, guest: str) -> SessionOptions:
    return SessionOptions(memory=MemoryOptions(store=store, user=guest, keep=MONTH))


async def entrypoint(ctx: JobContext) -> None:
    store, guest = SqliteStore("guests.db"), "anna"  # or a caller's number: docs/production.md, "Telephone calls"
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    ctx.add_shutdown_callback(store.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    await AgentSession(Host(store, guest), pipeline, options=options(store, guest)).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/memory.py")

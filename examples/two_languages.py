"""A call that goes from English to Spanish and back: `vivavoce dev examples/two_languages.py`.

Offline and without keys. Each language is an agent with a voice and a model of its own, which take over in the handoff;
with a recogniser of its own too: `AgentOverrides(stt=…)`. Without another agent, `session.update_components(tts=…)` does
it in one call.
"""

from vivavoce.agents import Agent, AgentOverrides, AgentSession, CompletedTurn, JobContext, StopResponse
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = friday | saturday | spanish please | english please;"
ENGLISH = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    tool="",
    done="Your table is booked for {day}.",
    anything_else="Anything else?",
)
SPANISH = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="¿Para qué día?"),),
    tool="",
    done="Su mesa está reservada: {day}.",
    anything_else="¿Algo más?",
)


class Host(Agent):
    """Takes a booking in one language, and hands over when the caller names the other one."""

    def __init__(self, language: str, greeting: str, overrides: AgentOverrides | None = None) -> None:
        super().__init__(f"You take table bookings, in {language}.", id=language, overrides=overrides)
        self.greeting = greeting
        self.others: dict[str, Host] = {}

    async def on_enter(self) -> None:
        await self.session.say(self.greeting)

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        for language, host in self.others.items():
            if language in turn.text.lower():
                _ = self.session.update_agent(host)
                raise StopResponse


async def entrypoint(ctx: JobContext) -> None:
    english, spanish = espeak.TTS(voice="en"), espeak.TTS(voice="es")
    for voice in (english, spanish):
        ctx.add_shutdown_callback(voice.aclose)
    first = Host("english", "Hello! For which day?")
    second = Host("spanish", "¡Hola! ¿Para qué día?", AgentOverrides(tts=spanish, llm=rules.LLM(SPANISH)))
    first.others, second.others = {"spanish": second}, {"english": first}
    pipeline = CascadingPipeline(
        vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(ENGLISH), tts=english
    )
    await AgentSession(first, pipeline).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/two_languages.py")

"""A silent caller is asked twice, then disconnected; offline: `vivavoce dev examples/wake_up.py`."""

from vivavoce.agents import Agent, AgentSession, JobContext, WakeUp
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | [on] (friday | saturday) | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    done="We will see you on {day}.",
)
SILENCE = WakeUp(after=4.0, repeat=3, backoff=1.25)  # after 4, 5 and 6.25 seconds, each from the last words on


class Patient(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")

    async def ask_again(self, level: int) -> None:
        if level == 1:
            await self.session.say("Are you still there?")
        elif level == 2:
            await self.session.say("I cannot hear you. Please say something.")
        else:
            await self.session.say("Then I hang up now. Goodbye.")
            await self.session.hangup()


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    patient = Patient()
    session = AgentSession(patient, pipeline, wake_up=SILENCE)
    session.on_wake_up = patient.ask_again  # here: `on_enter` does not run again in a call that goes on after a crash
    await session.start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/wake_up.py")

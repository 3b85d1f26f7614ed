"""A survey by the keys of a telephone (docs/telephony.md); without one: `vivavoce dev examples/telephone_survey.py`."""

from vivavoce.agents import Agent, AgentSession, JobContext, SessionOptions
from vivavoce.agents.telephony import KeyEntry, TelephonyOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | goodbye;"
TALK = rules.SlotFilling(answers=(rules.Answer("goodbye", "Please press a key."),))
QUESTIONS = {
    "visit": "How was your visit? Press 1 for good, 2 for bad.",
    "again": "Will you come again? Press 1 for yes, 2 for no.",
}
ONE_KEY = KeyEntry(length=1)
TRIES = 2


class Survey(Agent):
    def __init__(self) -> None:
        super().__init__("You ask the questions of a survey.")
        self.answers: dict[str, str] = {}

    async def on_enter(self) -> None:
        for name, question in QUESTIONS.items():
            answer = await self.ask(question)
            if answer is not None:
                self.answers[name] = answer
        await self.session.say("Thank you. Goodbye." if self.answers else "Goodbye.")
        await self.session.hangup()

    async def ask(self, question: str) -> str | None:
        for _ in range(TRIES):
            _ = self.session.say(question)  # not awaited: a key stops it: the caller need not hear it to its end
            entered = await self.session.telephony.collect_keys(ONE_KEY, first_within=10.0)
            if entered.keys in ("1", "2"):
                return entered.keys
        return None


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    await AgentSession(Survey(), pipeline, options=SessionOptions(telephony=TelephonyOptions(keys=None))).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/telephone_survey.py")

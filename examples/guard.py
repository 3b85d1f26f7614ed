"""A content guard: what may be said is judged before it is heard; offline: `vivavoce dev examples/guard.py`.

A guard is a function of one text. It may be slow: ask a model with `ModelJudge(llm, "No medical advice.")` instead.
"""

import re

from vivavoce.agents import Agent, AgentSession, ContentGuard, GuardedText, GuardVerdict, JobContext, SessionOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday | sunday) | card number | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    done="We will see you on {day}. We promise you the best table.",
)
PROMISE = re.compile(r"\b(promise|guarantee)\b")


def judge(given: GuardedText) -> GuardVerdict | None:
    if given.said_by == "caller":  # a turn: the model must not see a card number
        return GuardVerdict("end", "Please tell me no numbers of cards.") if "card" in given.text else None
    if PROMISE.search(given.text):  # a sentence of the agent
        return GuardVerdict("hold")
    return GuardVerdict("replace", "On Sunday we are closed.") if "on sunday" in given.text else None


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief.")

    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), llm=rules.LLM(TALK), tts=tts)
    options = SessionOptions(guard=ContentGuard(judge=judge))
    await AgentSession(Host(), pipeline, options=options).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/guard.py")

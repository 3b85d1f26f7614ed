"""A turn detector of your own: the agent waits while the caller is still counting; offline.

`vivavoce dev examples/own_turn_detector.py`. A detector judges each pause: after a turn that sounds complete the agent
answers soon (`endpointing.min_delay`), after another one it waits for more words (`endpointing.max_delay`).
"""

from __future__ import annotations

import re

from vivavoce.agents import Agent, AgentSession, EndpointingOptions, JobContext, SessionOptions
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetector, TurnDetectorStream
from vivavoce.plugins import espeak, pocketsphinx, rules, silero

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CALLER = f"#JSGF V1.0; grammar caller; public <turn> = ({' | '.join(DIGITS)})+ | goodbye;"
LENGTH = 4
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="code", parser=rules.pattern(r"(?:\w+ ?){4,}"), ask="Your code, please."),),
    done="Thank you.",
)
UNFINISHED = re.compile(r"\b(?:and|or|but|the|my|is|um|uh)$")


class CodeDetector(TurnDetector, TurnDetectorStream):
    """Complete: a code of four digits, and a text that does not end on a word that wants another one."""

    provider = "code"

    def open(self) -> TurnDetectorStream:
        return self  # it keeps nothing, so that one stream does for all sessions

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        text = context.text.casefold().rstrip(" .,!?")
        digits = [word for word in text.split() if word in DIGITS]
        is_counting = 0 < len(digits) < LENGTH
        complete = not (is_counting or UNFINISHED.search(text))
        return EndOfTurnPrediction(complete=complete, probability=0.9 if complete else 0.1)


class Clerk(Agent):
    async def on_enter(self) -> None:
        await self.session.say("Hello! Your code of four digits, please.")


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(
        vad=silero.VAD(),
        stt=pocketsphinx.STT(grammar=CALLER),
        turn_detector=CodeDetector(),
        llm=rules.LLM(TALK),
        tts=tts,
    )
    options = SessionOptions(endpointing=EndpointingOptions(min_delay=0.4, max_delay=3.0))
    await AgentSession(Clerk("You note codes."), pipeline, options=options).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/own_turn_detector.py")

"""Answers without a model, by a conversation flow: `vivavoce dev examples/conversation_flow.py`.

Offline and without keys: pocketsphinx listens, espeak speaks. The flow asks three questions, one a turn.
"""

from collections.abc import AsyncIterator

from vivavoce.agents import Agent, AgentSession, ConversationFlow, JobContext
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import espeak, pocketsphinx, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = yes | no | one | two | three | goodbye;"
QUESTIONS = ("How many tickets?", "Do you want to sit together?", "Shall I book them?")


class BoxOffice(ConversationFlow):
    """Takes an order: the answers so far decide its next question."""

    def __init__(self) -> None:
        self.answers: list[str] = []

    async def on_turn_start(self, transcript: str) -> None:
        self.answers.append(transcript)

    async def run(self, transcript: str) -> AsyncIterator[str]:
        if transcript == "goodbye":
            yield "Goodbye!"
        elif len(self.answers) < len(QUESTIONS):
            yield QUESTIONS[len(self.answers)]
        else:
            yield f"Thank you. {self.answers[0].capitalize()} tickets. "
            yield "They are booked." if transcript == "yes" else "Nothing is booked."

    async def cleanup(self) -> None:
        self.answers.clear()


class Clerk(Agent):
    async def on_enter(self) -> None:
        await self.session.say(f"Hello! {QUESTIONS[0]}")


async def entrypoint(ctx: JobContext) -> None:
    tts = espeak.TTS()
    ctx.add_shutdown_callback(tts.aclose)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=pocketsphinx.STT(grammar=CALLER), tts=tts)
    await AgentSession(Clerk("You sell tickets."), pipeline, BoxOffice()).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/conversation_flow.py")

"""One agent on either pipeline: `PIPELINE=realtime vivavoce dev examples/either_pipeline.py`, or `cascading`.

The author writes nothing twice: tools, hooks, greeting, wake-up and interruptions belong to the session. With an
OPENAI_API_KEY the parts are OpenAI's; without one they are scripted, so that the example runs on any machine.
"""

from __future__ import annotations

import os

from vivavoce.agents import Agent, AgentSession, JobContext, function_tool
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedRealtimeModel, ScriptedSTT, ScriptedTTS, ScriptedVAD, Step


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Be brief. Greet the caller and ask for the day.")

    @function_tool
    async def book(self, day: str) -> str:
        "Book a table."
        return f"booked: {day}"

    async def on_enter(self) -> None:
        await self.session.reply("Greet the caller.")


def make_pipeline(kind: str) -> Pipeline:
    """Return the pipeline that the flag names."""
    if os.environ.get("OPENAI_API_KEY"):
        from vivavoce.plugins import openai, silero

        if kind == "realtime":  # with a vad the session decides when a turn is over; without it OpenAI's server does
            return RealtimePipeline(openai.RealtimeModel(), vad=silero.VAD())
        return CascadingPipeline(stt=openai.STT(), llm=openai.LLM(), tts=openai.TTS(), vad=silero.VAD())
    call = ToolCall(call_id="call_1", name="book", arguments='{"day": "friday"}')
    answers: list[Step] = ["Hello! For which day?", [call], "Your table is booked."]
    if kind == "realtime":
        model = ScriptedRealtimeModel(*answers, hears=["on friday"], delay=0.3)
        return RealtimePipeline(model, vad=ScriptedVAD())
    stt = ScriptedSTT(["on friday"])
    return CascadingPipeline(stt=stt, llm=ScriptedLLM(*answers, delay=0.1), tts=ScriptedTTS(), vad=ScriptedVAD())


async def entrypoint(ctx: JobContext) -> None:
    await AgentSession(Host(), make_pipeline(os.environ.get("PIPELINE", "cascading"))).start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/either_pipeline.py")

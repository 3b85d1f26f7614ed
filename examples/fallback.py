"""A server first, this machine second: `vivavoce dev examples/fallback.py`.

Ears, model and voice of a server with OpenAI's API come first: set `OPENAI_BASE_URL`. If it is down, slow or lost in
the middle of a call, the local ones take over, and it comes back by itself. Without a server the call is local.
"""

import os

from vivavoce.agents import Agent, AgentSession, JobContext
from vivavoce.agents.events import ErrorOccurred
from vivavoce.pipelines import CascadingPipeline, FallbackLLM, FallbackSTT, FallbackTTS
from vivavoce.plugins import espeak, openai, pocketsphinx, rules, silero

CALLER = "#JSGF V1.0; grammar caller; public <turn> = [on] (friday | saturday) | goodbye;"
TALK = rules.SlotFilling(
    slots=(rules.Slot(name="day", parser=rules.days(), ask="For which day?"),),
    done="We will see you on {day}.",
)
SERVER = os.environ.get("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")  # nothing answers there


class Host(Agent):
    def __init__(self) -> None:
        super().__init__("You take table bookings. Ask for the day. Be brief.")

    async def on_enter(self) -> None:
        await self.session.say("Hello! For which day?")


def note(event: ErrorOccurred) -> None:
    if event.successor:
        print(f"{event.source}: {event.successor} takes over, {event.error}")


async def entrypoint(ctx: JobContext) -> None:
    key = os.environ.get("OPENAI_API_KEY", "none")
    members = (
        openai.STT(model=os.environ.get("STT_MODEL", "whisper-1"), api_key=key, base_url=SERVER),
        openai.LLM(model=os.environ.get("LLM_MODEL", "gpt-4o-mini"), api_key=key, base_url=SERVER),
        openai.TTS(model=os.environ.get("TTS_MODEL", "tts-1"), api_key=key, base_url=SERVER),
        pocketsphinx.STT(grammar=CALLER),
        espeak.TTS(),
    )
    for member in members:  # a fallback's members belong to their maker
        ctx.add_shutdown_callback(member.aclose)
    remote_stt, remote_llm, remote_tts, local_stt, local_tts = members
    pipeline = CascadingPipeline(
        vad=silero.VAD(),
        stt=FallbackSTT([remote_stt, local_stt]),
        llm=FallbackLLM([remote_llm, rules.LLM(TALK)]),
        tts=FallbackTTS([remote_tts, local_tts]),
    )
    session = AgentSession(Host(), pipeline)
    session.on("error", note)  # here: `on_enter` does not run again in a call that goes on after a crash
    await session.start()


if __name__ == "__main__":
    raise SystemExit("this is an app, which a worker runs: vivavoce dev examples/fallback.py")
